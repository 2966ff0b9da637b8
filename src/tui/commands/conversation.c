#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>

#include "thread.h"
#include "chat_command.h"
#include "json.h"
#include "session.h"
#include "tui.h"
#include "text.h"
#include "banned.h"

#define TEXT_MAX (1u << 20)
#define DIFF_MAX (16u << 20)

void chat_result_free(struct chat_result *r)
{
    buf_free(&r->text);
    buf_free(&r->diff);
    agent_changes_free(&r->changes);
    json_decref(r->names);
    json_decref(r->models);
    *r = (struct chat_result){0};
}

int conversation_new(const struct tui_options *o, const struct conversation_sink *sink,
                     struct conversation **ret, struct error *err)
{
    struct conversation *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(err, ENOMEM, "no memory");
    c->o = o;
    c->options = *o->agent;
    c->sink = *sink;
    c->options.host.confirm = (struct tool_confirm){.ask = sink->confirm, .data = sink->data};
    c->attempts = o->attempts;
    c->test = o->test ? strdup(o->test) : NULL;
    c->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->cancel < 0) {
        int r = error_errno(err, errno, "cannot create an eventfd");
        free(c->test);
        free(c);
        return r;
    }
    pthread_mutex_init(&c->lock, NULL);
    *ret = c;
    return 0;
}

void conversation_free(struct conversation *c)
{
    if (!c)
        return;
    conversation_set_agent(c, NULL);
    pthread_mutex_destroy(&c->lock);
    cleanup_close(&c->cancel);
    free(c->test);
    free(c);
}

void conversation_set_agent(struct conversation *c, struct agent *agent)
{
    pthread_mutex_lock(&c->lock);
    struct agent *before = c->agent;
    c->agent = agent;
    pthread_mutex_unlock(&c->lock);
    if (before)
        agent_close(before, true);
}

void conversation_interrupt_now(struct conversation *c)
{
    c->stopping = true;
    eventfd_write(c->cancel, 1);
    if (c->agent)
        agent_interrupt(c->agent);
}

void conversation_interrupt(struct conversation *c)
{
    pthread_mutex_lock(&c->lock);
    conversation_interrupt_now(c);
    pthread_mutex_unlock(&c->lock);
}

void conversation_emit(void *conversation, const struct agent_event *e)
{
    struct conversation *c = conversation;
    c->sink.event(c->sink.data, e, 0);
}

int conversation_pending(struct conversation *c, struct chat_result *ret, struct error *err)
{
    struct agent_changes now = {0};
    int r = agent_changes(c->agent, &now, err);
    if (r < 0)
        return r;
    agent_changes_free(&ret->changes);
    ret->changes = now;
    ret->changes_known = true;
    return 0;
}

struct tool_session *conversation_tools(struct conversation *c, struct error *err)
{
    struct tool_session *tools = agent_tools(c->agent);
    if (!tools)
        error_set(err, EIO, "the box of this session could not be started; run hutch doctor");
    return tools;
}

int conversation_farewell(const struct conversation_state *s, const struct agent_changes *pending,
                          struct buf *out)
{
    if (agent_changes_any(pending)) {
        summary_of_changes(pending, out);
        buf_append_str(out, " not applied; kept in the session. ");
    }
    return buf_printf(out, "Resume it with hutch --resume %s\n", s->session);
}

void conversation_run(struct conversation *c, const struct chat_entry *entry,
                      struct chat_result *ret)
{
    eventfd_t n;
    struct agent_state s = {0};
    *ret = (struct chat_result){
        .command = entry->command, .text = BUF_INIT(TEXT_MAX), .diff = BUF_INIT(DIFF_MAX)};
    c->stopping = false;
    eventfd_read(c->cancel, &n);
    ret->r = entry->command->run(c, entry, ret, &ret->err);
    if (ret->r < 0 && !ret->err.text[0])
        error_errno(&ret->err, -ret->r, "%s%s failed", entry->command->name ? "/" : "",
                    entry->command->name ? entry->command->name : "the request");
    if (!c->agent)
        return;
    agent_state(c->agent, &s);
    snprintf(ret->state.session, sizeof ret->state.session, "%s", s.session ? s.session : "");
    snprintf(ret->state.model, sizeof ret->state.model, "%s", s.model ? s.model : "");
    ret->state.turns = s.turns;
    ret->state.context = s.context;
    ret->state.window = s.window;
    ret->state.money = s.money;
}

static int open_run(struct conversation *c, const struct chat_entry *entry, struct chat_result *ret,
                    struct error *err)
{
    struct agent_sink sink = {.event = conversation_emit, .data = c};
    struct agent *agent;
    const char *name;
    json_t *value;
    int r = agent_open(&c->options, &sink, &agent, err);
    if (r < 0)
        return r;
    conversation_set_agent(c, agent);
    ret->models = json_array();
    json_object_foreach((json_t *)settings_member(c->options.settings, "models"), name, value)
        json_array_append_new(ret->models, json_string(name));
    if (!c->options.resume)
        return 0;
    c->options.resume = NULL;
    r = conversation_replay(c, err);
    return r < 0 ? r : conversation_pending(c, ret, err);
}

const struct chat_command CHAT_OPEN = {.run = open_run, .busy = "starting", .flags = CHAT_REVIEWS};

/* Messages. */

static void message_on_attempt_event(void *data, unsigned attempt, const struct agent_event *e)
{
    struct conversation *c = data;
    c->sink.event(c->sink.data, e, attempt + 1);
}

/* Several agents try the same message side by side. */
static int message_attempts(struct conversation *c, const char *message, struct chat_result *ret,
                            struct error *err)
{
    struct attempts_options o = {.n = c->attempts, .test = c->test};
    struct attempts_sink sink = {.event = message_on_attempt_event, .data = c};
    struct buf *out = &ret->text;
    int best = -1;
    _cleanup_free_ struct attempt *all = calloc(c->attempts, sizeof *all);
    if (!all)
        return error_set(err, ENOMEM, "no memory");
    int r = agent_attempts(c->agent, message, &o, &sink, all, &best, err);
    if (r < 0)
        return r;
    /* `▸ 1  12 of 14 tests pass, 2 files +8 −3, $0.12  SESSION` */
    for (unsigned i = 0; i < c->attempts; i++) {
        const struct attempt *a = &all[i];
        buf_printf(out, "%s %u  ", (int)i == best ? "▸" : " ", i + 1);
        if (!a->tested)
            buf_append_str(out, "not tested");
        else if (a->passed || a->failed)
            buf_printf(out, "%" PRIu64 " of %" PRIu64 " tests pass", a->passed,
                       a->passed + a->failed);
        else
            buf_printf(out, "test exited with status %d", a->test_status);
        buf_printf(out, ", %zu file%s +%" PRIu64 " −%" PRIu64, a->files, a->files == 1 ? "" : "s",
                   a->added, a->deleted);
        if (a->money.known)
            buf_printf(out, ", $%.2f", a->money.cost);
        buf_printf(out, "  %s%s%s\n", a->session, a->why[0] ? "  " : "", a->why);
    }
    if (best >= 0)
        buf_printf(out, "Continuing with attempt %d.\n", best + 1);
    else
        buf_append_str(out, "No attempt can be used; nothing was changed.\n");
    /* The option is for all messages, the command for one. */
    if (!c->o->attempts)
        c->attempts = 0;
    return 0;
}

static int message_run(struct conversation *c, const struct chat_entry *entry,
                       struct chat_result *ret, struct error *err)
{
    struct error after = {0};
    int r = c->attempts > 1 ? message_attempts(c, entry->text, ret, err)
                            : agent_turn(c->agent, entry->text, err);
    /* A turn that failed may have changed something too. */
    int changes = conversation_pending(c, ret, &after);
    if (changes == 0 && c->o->apply && agent_changes_any(&ret->changes) && !c->stopping)
        changes = CHAT_APPLY.run(c, &(struct chat_entry){.command = &CHAT_APPLY}, ret, &after);
    if (r == 0 && changes < 0)
        *err = after;
    return r < 0 ? r : changes;
}

const struct chat_command CHAT_MESSAGE = {
    .run = message_run, .busy = "thinking", .flags = CHAT_CHANGES_FILES | CHAT_REVIEWS};

/* Shell commands of the user: the agent's tool, with the same events as a call of the agent. */

#define OUTPUT_FOR_MODEL 16000 /* bytes of the output that the model sees; of more, the tail */

static void shell_on_progress(void *data, double seconds, const char *message)
{
    struct conversation *c = data;
    conversation_emit(c, &(struct agent_event){.kind = AGENT_PROGRESS,
                                               .id = c->shell_id,
                                               .name = TOOL_BASH.name,
                                               .text = message,
                                               .n = message ? strlen(message) : 0,
                                               .seconds = seconds});
}

static int shell_run(struct conversation *c, const struct chat_entry *entry,
                     struct chat_result *ret, struct error *err)
{
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    _cleanup_buf_ struct buf note = BUF_INIT(4 * OUTPUT_FOR_MODEL);
    struct tool_progress progress = {.say = shell_on_progress, .data = c};
    struct tool_session *tools = conversation_tools(c, err);
    if (!tools)
        return -EIO;
    _cleanup_json_ json_t *input = json_pack("{s:s}", "command", entry->text);
    if (!input)
        return error_set(err, EINVAL, "the command is not valid UTF-8");
    int64_t begin = clock_now();
    snprintf(c->shell_id, sizeof c->shell_id, "!%u", ++c->shells);
    struct agent_event e = {
        .kind = AGENT_CALL, .id = c->shell_id, .name = TOOL_BASH.name, .input = input};
    conversation_emit(c, &e);
    tool_call(tools,
              &(struct tool_request){
                  .tool = &TOOL_BASH, .input = input, .cancel = c->cancel, .progress = &progress},
              &result);
    e.kind = AGENT_RESULT;
    e.result = &result;
    e.seconds = (double)(clock_now() - begin) / NS_PER_S;
    conversation_emit(c, &e);

    /* The model sees it too: the tail of the output. */
    size_t n = result.text.len, skip = n > OUTPUT_FOR_MODEL ? n - OUTPUT_FOR_MODEL : 0;
    const char *text = n ? (const char *)result.text.data + skip : "";
    size_t cut = skip ? utf8_cut_start((const uint8_t *)text, n - skip) : 0;
    buf_printf(&note, "[I ran this in the box myself: %s\n%s%.*s]", entry->text, skip ? "…" : "",
               (int)(n - skip - cut), text + cut);
    if (!note.failed)
        prompt_note(c->agent, (const char *)note.data, note.len);
    return conversation_pending(c, ret, err);
}

const struct chat_command CHAT_SHELL = {
    .run = shell_run, .busy = "running", .flags = CHAT_CHANGES_FILES | CHAT_REVIEWS};
