#include <string.h>

#include "assembly.h"
#include "retry_sink.h"
#include "banned.h"

#define CALLS_MAX (1u << 20)

void retry_sink_init(struct retry_sink *s, const struct model_sink *sink)
{
    *s = (struct retry_sink){.sink = sink,
                             .text.given = BUF_INIT(DECODER_BYTES_MAX * 2u),
                             .thinking.given = BUF_INIT(DECODER_BYTES_MAX * 2u),
                             .calls.given = BUF_INIT(CALLS_MAX)};
}

void retry_sink_free(struct retry_sink *s)
{
    buf_free(&s->text.given);
    buf_free(&s->thinking.given);
    buf_free(&s->calls.given);
}

void retry_sink_restart(struct retry_sink *s)
{
    s->text.at = s->thinking.at = s->calls.at = 0;
}

static bool stream_is_behind(const struct retry_stream *t)
{
    return t->at < t->given.len;
}

bool retry_sink_is_behind(const struct retry_sink *s)
{
    return stream_is_behind(&s->text) || stream_is_behind(&s->thinking);
}

/* From here on nothing of what was shown is left to compare with. */
static void retry_sink_go_back(struct retry_sink *s)
{
    const struct model_event e = {
        .kind = MODEL_BACK, .text = "", .keep = s->text.at, .keep_thinking = s->thinking.at};
    s->text.given.len = s->text.at;
    s->thinking.given.len = s->thinking.at;
    s->calls.given.len = s->calls.at;
    s->sink->event(s->sink->data, &e);
}

void retry_sink_end(struct retry_sink *s)
{
    if (retry_sink_is_behind(s))
        retry_sink_go_back(s);
}

static void retry_sink_text(struct retry_sink *s, struct retry_stream *t,
                            const struct model_event *e)
{
    size_t same = 0;
    if (stream_is_behind(t)) {
        /* How many bytes repeat what was shown. Both are whole characters: where they part within
         * one, it is the character that differs. */
        const uint8_t *given = t->given.data + t->at;
        size_t most = t->given.len - t->at < e->n ? t->given.len - t->at : e->n;
        while (same < most && given[same] == (uint8_t)e->text[same])
            same++;
        while (same < most && same > 0 && (given[same] & 0xc0) == 0x80)
            same--;
    }
    t->at += same;
    if (same == e->n)
        return;
    if (stream_is_behind(t))
        retry_sink_go_back(s);
    struct model_event rest = *e;
    rest.text += same;
    rest.n -= same;
    s->failed = s->failed || buf_append(&t->given, rest.text, rest.n) < 0;
    t->at = t->given.len;
    s->sink->event(s->sink->data, &rest);
}

static void retry_sink_event(void *data, const struct model_event *e)
{
    struct retry_sink *s = data;
    struct retry_stream *t = &s->calls;
    if (e->kind == MODEL_TEXT || e->kind == MODEL_THINKING) {
        retry_sink_text(s, e->kind == MODEL_TEXT ? &s->text : &s->thinking, e);
        return;
    }
    if (e->kind == MODEL_CALL) { /* sent once; a call that differs needs no MODEL_BACK */
        const char *given = (const char *)t->given.data + t->at;
        if (stream_is_behind(t) && strcmp(given, e->text) == 0) {
            t->at += strlen(given) + 1;
            return;
        }
        t->given.len = t->at;
        s->failed = s->failed || buf_append(&t->given, e->text, strlen(e->text) + 1) < 0;
        t->at = t->given.len;
    }
    s->sink->event(s->sink->data, e);
}

struct model_sink retry_sink_input(struct retry_sink *s)
{
    return (struct model_sink){.event = retry_sink_event, .data = s};
}
