/* The desk: opening the agent, saying something to it, and shell commands of the person's own. */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "desk_private.h"
#include "session.h"
#include "utf8.h"
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
    if (r < 0 || !d->o->apply || !agent_changes_any(&a->changes) || d->stopping)
        return r;
    return desk_apply(d, &(struct job){.kind = JOB_APPLY}, a, err);
}

int desk_say(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct error after = {0};
    int r =
        d->attempts > 1 ? desk_attempts(d, j->text, a, err) : agent_turn(d->agent, j->text, err);
    /* Also a turn that failed may have changed something. */
    int changes = take_changes(d, a, &after);
    if (r == 0 && changes < 0)
        *err = after;
    return r < 0 ? r : changes;
}

/* Shell commands: the tool of the agent, with the events that a call of its own would have. */

static void on_progress(void *data, double seconds, const char *message)
{
    struct desk *d = data;
    desk_tell(d, &(struct agent_event){.kind = AGENT_PROGRESS,
                                       .id = d->shell_id,
                                       .name = "bash",
                                       .text = message,
                                       .n = message ? strlen(message) : 0,
                                       .seconds = seconds});
}

#define OUTPUT_TOLD 16000 /* bytes of the output that the agent is told; of longer ones the tail   \
                           */

static void tell_agent(struct desk *d, const char *command, const struct tool_result *r)
{
    _cleanup_buf_ struct buf told = BUF_INIT(4 * OUTPUT_TOLD);
    size_t n = r->text.len, skip = n > OUTPUT_TOLD ? n - OUTPUT_TOLD : 0;
    const char *text = n ? (const char *)r->text.data + skip : "";
    size_t cut = skip ? utf8_cut_start((const uint8_t *)text, n - skip) : 0;
    buf_printf(&told, "[I ran this in the box myself: %s\n%s%.*s]", command, skip ? "…" : "",
               (int)(n - skip - cut), text + cut);
    if (!told.failed)
        prompt_note(d->agent, (const char *)told.data, told.len);
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
    snprintf(d->shell_id, sizeof d->shell_id, "!%u", ++d->shells);
    desk_tell(d, &(struct agent_event){
                     .kind = AGENT_CALL, .id = d->shell_id, .name = "bash", .input = input});
    tool_call(tools,
              &(struct tool_request){
                  .name = "bash", .input = input, .cancel = d->cancel, .progress = &progress},
              &result);
    desk_tell(d, &(struct agent_event){.kind = AGENT_RESULT,
                                       .id = d->shell_id,
                                       .name = "bash",
                                       .input = input,
                                       .result = &result,
                                       .seconds = (double)(clock_now() - begin) / NS_PER_S});
    json_decref(input);
    tell_agent(d, j->text, &result);
    return desk_changes(d, a, err);
}
