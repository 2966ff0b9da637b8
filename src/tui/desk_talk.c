/* The desk: opening the agent, saying something to it, and shell commands of the person's own. */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "desk_private.h"
#include "session.h"
#include "banned.h"

/* Names that /model completes: what the configuration knows of. */
static json_t *model_names(struct settings *s)
{
    json_t *names = json_array();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)settings_member(s, "models"), key, value)
        json_array_append_new(names, json_string(key));
    return names;
}

int desk_open(struct desk *d, struct answer *a, struct error *err)
{
    struct agent_sink sink = desk_agent_sink(d);
    struct agent *agent;
    int r = agent_open(&d->options, &sink, &agent, err);
    if (r < 0)
        return r;
    desk_use(d, agent);
    a->models = model_names(d->options.settings);
    if (!d->options.resume)
        return 0;
    d->options.resume = NULL;
    r = desk_recall(d, err);
    return r < 0 ? r : desk_changes(d, a, err);
}

static int take_changes(struct desk *d, struct answer *a, struct error *err)
{
    int r = desk_changes(d, a, err);
    if (r < 0 || !d->o->apply || a->changes.count == 0 || d->stopping)
        return r;
    return desk_apply(d, a, err);
}

int desk_say(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    _cleanup_buf_ struct buf words = BUF_INIT(d->aside.max + (64u << 20));
    struct error after = {0};
    if (d->aside.len)
        buf_append(&words, d->aside.data, d->aside.len);
    buf_append_str(&words, j->text);
    if (!buf_cstr(&words))
        return error_set(err, ENOMEM, "this is too long");
    d->aside.len = 0;
    const char *said = (const char *)words.data;
    int r = d->attempts > 1 ? desk_attempts(d, said, a, err) : agent_turn(d->agent, said, err);
    /* Also a turn that failed may have changed something. */
    int changes = take_changes(d, a, &after);
    if (r == 0 && changes < 0)
        *err = after;
    return r < 0 ? r : changes;
}

/* Shell commands: the tool of the agent, with the events that a call of its own would have. */

static void on_progress(void *data, double seconds, const char *message)
{
    desk_tell(data, &(struct agent_event){.kind = AGENT_PROGRESS,
                                          .id = "!",
                                          .name = "bash",
                                          .text = message,
                                          .n = message ? strlen(message) : 0,
                                          .seconds = seconds});
}

#define ASIDE_OUTPUT 20000 /* bytes of the output that the agent is told; of longer ones the tail */

static void tell_agent(struct desk *d, const char *command, const struct tool_result *r)
{
    size_t n = r->text.len, skip = n > ASIDE_OUTPUT ? n - ASIDE_OUTPUT : 0;
    const char *text = n ? (const char *)r->text.data + skip : "";
    while (n > skip && ((unsigned char)*text & 0xc0) == 0x80) {
        text++;
        skip++;
    }
    buf_printf(&d->aside, "[I ran this myself in the box: %s\n%s%.*s]\n\n", command, skip ? "…" : "",
               (int)(n - skip), text);
    if (d->aside.failed) /* the agent can look for itself */
        buf_free(&d->aside);
}

int desk_shell(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    struct tool_progress progress = {.say = on_progress, .data = d};
    struct tool_session *tools = agent_tools(d->agent);
    if (!tools)
        return error_set(err, EIO, "there is no box to run it in yet");
    json_t *input = json_pack("{s:s}", "command", j->text);
    if (!input)
        return error_set(err, EINVAL, "a command is UTF-8");
    int64_t begin = clock_now();
    desk_tell(d, &(struct agent_event){.kind = AGENT_CALL, .id = "!", .name = "bash", .input = input});
    tool_call(
        tools,
        &(struct tool_request){.name = "bash", .input = input, .cancel = d->cancel, .progress = &progress},
        &result);
    desk_tell(d, &(struct agent_event){.kind = AGENT_RESULT,
                                       .id = "!",
                                       .name = "bash",
                                       .input = input,
                                       .result = &result,
                                       .seconds = (double)(clock_now() - begin) / NS_PER_S});
    json_decref(input);
    tell_agent(d, j->text, &result);
    return desk_changes(d, a, err);
}
