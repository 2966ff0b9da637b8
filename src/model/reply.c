#include "model.h"
#include "banned.h"

const char *model_stop_name(enum model_stop stop)
{
    static const char *const NAMES[] = {
        [MODEL_END_TURN] = "end_turn",
        [MODEL_TOOL_USE] = "tool_use",
        [MODEL_MAX_TOKENS] = "max_tokens",
        [MODEL_STOP_SEQUENCE] = "stop_sequence",
        [MODEL_PAUSE_TURN] = "pause_turn",
        [MODEL_REFUSAL] = "refusal",
        [MODEL_WINDOW_EXCEEDED] = "model_context_window_exceeded",
    };
    return NAMES[stop];
}

void model_usage_add(struct model_usage *sum, const struct model_usage *one)
{
    sum->known |= one->known;
    sum->input += one->input;
    sum->output += one->output;
    sum->cache_read += one->cache_read;
    sum->cache_write += one->cache_write;
    sum->thinking += one->thinking;
}

void model_reply_free(struct model_reply *r)
{
    json_decref(r->content);
    *r = (struct model_reply){};
}
