/*
 * Jobs of kind `goal`: an agent carries one out, with the models and keys of this worker's own
 * environment and configuration. The workspace's files configure nothing, and the tools that work on
 * the host are not there.
 *
 * The agent's box outlives this process, and its history lies in the job's folder. /resume tells the
 * server about both, so that a next attempt on this host continues the conversation; on another host
 * it begins again.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent.h"
#include "io.h"
#include "job_files.h"
#include "job_report.h"
#include "json.h"
#include "thread.h"
#include "banned.h"

#define ATTEMPTS_MAX   16
#define WORDS_MAX      (1u << 20)        /* of the model's last answer */
#define TEXT_EVENT_MAX (4u << 10)        /* pieces of its text are joined, up to so much… */
#define TEXT_EVENT_NS  (300 * NS_PER_MS) /* …or so long */
#define RESULT_MAX     (16u << 10)       /* of a call's text in an event */
#define DATA_MAX       (32u << 10)
#define PROGRESS_NS    NS_PER_S
#define MEMORY_NOTE    (32u << 10)
#define MEMORY_LINE    400
#define MEMORY_BYTES   (32u << 20)

static const char CONTINUE[] = "The work was interrupted and goes on now. Continue with the task.";

struct goal_run {
    struct job *job;
    const json_t *goal;
    struct settings *settings;
    struct box_spec spec;
    bool has_spec, resumed;
    char *workspace, *histories;
    struct agent *agent;
    int ended; /* an eventfd: the agent needs no interrupt any more */
    pthread_t watcher;
    bool watched;
    /* From here on: of the agent's events. */
    struct buf words; /* of the answer that comes */
    bool said;        /* it is complete */
    struct buf piece; /* of its text or thinking, for the next event */
    const char *piece_type;
    int64_t piece_ns, progress_ns;
    enum model_stop stop;
    char why[256];
};

/* --- events --- */

static void goal_flush_piece(struct goal_run *g)
{
    if (g->piece.len == 0)
        return;
    job_event(g->job, json_pack("{s:s, s:o}", "type", g->piece_type, "text",
                                text_json(g->piece.data, g->piece.len)));
    g->piece.len = 0;
}

static void goal_add_words(struct goal_run *g, const char *text, size_t n)
{
    if (g->said)
        g->words.len = 0;
    g->said = false;
    buf_append(&g->words, text, n);
    g->words.failed = false;
}

static void goal_add_piece(struct goal_run *g, const char *type, const char *text, size_t n)
{
    if (g->piece.len && (g->piece_type != type || g->piece.len + n > g->piece.max))
        goal_flush_piece(g);
    if (g->piece.len == 0)
        g->piece_ns = clock_now();
    g->piece_type = type;
    buf_append(&g->piece, text, n < g->piece.max ? n : g->piece.max);
    if (g->piece.len >= TEXT_EVENT_MAX || clock_now() - g->piece_ns > TEXT_EVENT_NS)
        goal_flush_piece(g);
}

/* A call's result, for the events, the log and the memory. */
static void goal_add_result(struct goal_run *g, const struct agent_event *e)
{
    const struct tool_result *r = e->result;
    const char *text = r->text.len ? (const char *)r->text.data : "";
    size_t n = r->text.len < RESULT_MAX ? r->text.len : RESULT_MAX;
    n -= n < r->text.len ? utf8_cut_end((const uint8_t *)text, n) : 0;
    size_t data = r->data ? json_dumpb(r->data, NULL, 0, JSON_COMPACT) : 0;
    _cleanup_json_ json_t *kept =
        json_pack("{s:s, s:b, s:o, s:O?, s:f}", "tool", e->name, "failed", r->failed, "text",
                  text_json(text, n), "data", data && data <= DATA_MAX ? r->data : NULL, "seconds",
                  e->seconds);
    job_action(g->job, e->name, e->input, e->seconds, r->failed, text, r->text.len);
    if (!kept)
        return;
    job_remember(g->job, e->name, e->input, kept);
    _cleanup_json_ json_t *event = json_copy(kept);
    json_object_del(event, "tool");
    json_object_update_new(
        event, json_pack("{s:s, s:s, s:s}", "type", "tool_result", "id", e->id, "name", e->name));
    job_event(g->job, json_incref(event));
    if (strcmp(e->name, "plan") == 0 && !r->failed) {
        struct tool_session *tools = agent_tools(g->agent);
        if (tools)
            job_event(g->job,
                      json_pack("{s:s, s:o}", "type", "plan", "items", tool_session_plan(tools)));
    }
}

/* Fits agent_sink.event. */
static void goal_on_event(void *data, const struct agent_event *e)
{
    static const char TEXT[] = "text", THINKING[] = "thinking";
    struct goal_run *g = data;
    if (e->kind == AGENT_TEXT || e->kind == AGENT_THINKING) {
        if (e->kind == AGENT_TEXT)
            goal_add_words(g, e->text, e->n);
        goal_add_piece(g, e->kind == AGENT_TEXT ? TEXT : THINKING, e->text, e->n);
        return;
    }
    if (e->kind != AGENT_WRITING && e->kind != AGENT_PROGRESS)
        goal_flush_piece(g);
    switch (e->kind) {
    case AGENT_SAID:
        g->said = true;
        break;
    case AGENT_BACK:
        g->words.len = e->keep < g->words.len ? e->keep : g->words.len;
        job_event(g->job, agent_event_json(e));
        break;
    case AGENT_RESULT:
        goal_add_result(g, e);
        break;
    case AGENT_PROGRESS:
        if (clock_now() - g->progress_ns > PROGRESS_NS) {
            g->progress_ns = clock_now();
            job_event(g->job, json_pack("{s:s, s:f, s:o}", "type", "progress", "seconds",
                                        e->seconds, "text", text_json(e->text, e->n)));
        }
        break;
    case AGENT_NOTE:
        job_log(g->job, "%.*s", (int)e->n, e->text);
        job_event(g->job, json_pack("{s:s, s:o}", "type", "log", "text", text_json(e->text, e->n)));
        break;
    case AGENT_DONE:
        g->stop = e->stop;
        snprintf(g->why, sizeof g->why, "%s", e->why ? e->why : "");
        job_event(g->job, json_pack("{s:s, s:s, s:s?}", "type", "done", "stop",
                                    model_stop_name(e->stop), "why", e->why));
        break;
    default:
        job_event(g->job, agent_event_json(e));
    }
}

/* Of several attempts only the calls are shown; the best one's answer is not known before the end. */
static void goal_on_attempt_event(void *data, unsigned attempt, const struct agent_event *e)
{
    struct goal_run *g = data;
    if (e->kind == AGENT_CALL || e->kind == AGENT_USAGE) {
        json_t *event = agent_event_json(e);
        if (event)
            json_object_set_new(event, "number", json_integer((json_int_t)attempt + 1));
        job_event(g->job, event);
    } else if (e->kind == AGENT_RESULT) {
        goal_add_result(g, e);
    }
}

/* --- the agent --- */

static void *goal_watch(void *data)
{
    struct goal_run *g = data;
    if (cancel_wait(g->ended, POLLIN, -1, g->job->lease.cancel) == -ECANCELED)
        agent_interrupt(g->agent);
    return NULL;
}

/* The folder of an earlier attempt on this host, if nobody uses it: then it is this job's. */
static bool goal_find_folder(struct goal_run *g)
{
    struct job *j = g->job;
    const json_t *resume = j->lease.resume;
    const char *name = json_get_string_or(resume, "folder", "");
    size_t n = strlen(j->lease.id);
    if (strcmp(json_get_string_or(resume, "host", ""), j->worker->host) != 0 ||
        !json_get_string(resume, "session") || strncmp(name, j->lease.id, n) != 0 ||
        name[n] != '-' || strspn(name + n + 1, "0123456789") != strlen(name + n + 1))
        return false;
    _cleanup_free_ char *path = str_printf("%s/jobs/%s", j->worker->folder, name);
    _cleanup_fd_ int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    j->folder_lock = TAKE_FD(fd);
    j->lease.folder = TAKE_PTR(path);
    return true;
}

static int goal_open_agent(struct goal_run *g, const char *session, struct error *err)
{
    const struct agent_sink sink = {.event = goal_on_event, .data = g};
    json_int_t max_tokens = json_get_integer(g->goal, "max_tokens"),
               max_turns = json_get_integer(g->goal, "max_turns");
    const struct agent_options o = {
        .box = &g->spec.box,
        .settings = g->settings,
        .model = json_get_string(g->goal, "model"),
        .resume = session,
        .histories = g->histories,
        .max_tokens = max_tokens > 0 ? (uint64_t)max_tokens : settings_max_tokens(g->settings),
        .max_turns = max_turns > 0 ? (unsigned)max_turns : 0,
        .max_cost = json_number_value(json_object_get(g->goal, "max_cost")),
        .unattended = true,
        .foreign = true};
    /* A recording is a file of this host. */
    if (o.model && strncmp(o.model, "replay/", 7) == 0)
        return error_set(err, EINVAL, "goal.model: a job cannot name a recording");
    return agent_open(&o, &sink, &g->agent, err);
}

/* Makes the job's folder and what lies in it, unless an earlier attempt did. */
static int goal_prepare(struct goal_run *g, struct error *err)
{
    struct job *j = g->job;
    bool earlier = goal_find_folder(g);
    int r = earlier ? 0 : job_make_folder(j, err);
    if (r < 0)
        return r;
    if (earlier) {
        g->workspace = str_printf("%s/workspace", j->lease.folder);
        if (g->workspace && access(g->workspace, F_OK) < 0) {
            free(g->workspace);
            g->workspace = NULL;
        }
    } else {
        r = workspace_prepare(j->worker, &j->lease, &g->workspace, err);
    }
    g->histories = str_printf("%s/history", j->lease.folder);
    if (r == 0 && !g->histories)
        r = error_set(err, ENOMEM, "no memory");
    if (r == 0) {
        g->has_spec = true;
        r = job_box_spec(&j->lease, g->workspace, true, &g->spec, err);
    }
    if (r == 0)
        r = settings_read(NULL, g->workspace ? g->workspace : j->lease.folder, false, &g->settings,
                          err);
    g->resumed = r == 0 && earlier &&
                 goal_open_agent(g, json_get_string(j->lease.resume, "session"), NULL) == 0;
    return r == 0 && !g->resumed ? goal_open_agent(g, NULL, err) : r;
}

/* What a next attempt on this host needs. */
static int goal_store_resume(struct goal_run *g, struct error *err)
{
    struct job *j = g->job;
    struct agent_state state;
    agent_state(g->agent, &state);
    if (!j->lease.resume)
        j->lease.resume = json_object();
    json_object_update_new(j->lease.resume,
                           json_pack("{s:s, s:s, s:s}", "session", state.session, "host",
                                     j->worker->host, "folder", strrchr(j->lease.folder, '/') + 1));
    return server_post(j->worker, &j->lease, "resume",
                       json_pack("{s:O}", "resume", j->lease.resume), NULL, err);
}

/* The last actions of the job that memory_from names, as a note to the model. */
static int goal_add_memory(struct goal_run *g, struct error *err)
{
    struct job *j = g->job;
    _cleanup_buf_ struct buf text = BUF_INIT(MEMORY_BYTES), note = BUF_INIT(MEMORY_NOTE);
    _cleanup_fd_ int file = -1;
    struct tool_session *tools = agent_tools(g->agent);
    char type[32];
    int r = server_get(j->worker, &j->lease, "memory", &file, type, err);
    if (r < 0 || file < 0)
        return r;
    if ((r = io_read_all(file, &text)) < 0)
        return error_errno(err, -r, "cannot read the memory of the earlier job");
    _cleanup_json_ json_t *memory = json_loadb((const char *)text.data, text.len, 0, NULL);
    const json_t *actions = json_object_get(memory, "actions");
    size_t n = json_array_size(actions), most = MEMORY_NOTE / MEMORY_LINE / 2;
    buf_printf(&note,
               "An earlier job left its actions and their results in " MEMORY_PATH
               " (JSON; its last %zu of %zu actions follow).\n",
               n < most ? n : most, n);
    for (size_t i = n < most ? 0 : n - most; i < n; i++) {
        const json_t *action = json_array_get(actions, i);
        char *input = json_dumps(json_object_get(action, "input"), JSON_COMPACT);
        _cleanup_free_ char *owned = input;
        const char *result = json_get_string_or(json_object_get(action, "result"), "text", "");
        _cleanup_free_ char *left =
            foreign_text(input ? input : "", strlen(input ? input : ""), 200);
        _cleanup_free_ char *right = foreign_text(result, strlen(result), 200);
        buf_printf(&note, "- %.60s %s -> %s\n", json_get_string_or(action, "tool", ""),
                   left ? left : "", right ? right : "");
    }
    if (!tools)
        return error_set(err, EIO, "the agent's box did not start");
    if (buf_cstr(&note))
        prompt_note(g->agent, (const char *)note.data, note.len);
    return memory_install(j, tool_session_box(tools), err);
}

static int goal_run_attempts(struct goal_run *g, const char *prompt, unsigned n, const char *test,
                             struct job_outcome *o, struct error *err)
{
    struct attempt all[ATTEMPTS_MAX];
    const struct attempts_sink sink = {.event = goal_on_attempt_event, .data = g};
    const struct attempts_options how = {.n = n, .test = test};
    int best = -1, r = agent_attempts(g->agent, prompt, &how, &sink, all, &best, err);
    if (r < 0)
        return r;
    json_t *attempts = json_array();
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(
            attempts, json_pack("{s:b, s:b, s:i, s:I, s:I, s:I, s:I, s:s}", "best", (int)i == best,
                                "tested", all[i].tested, "test_status", all[i].test_status,
                                "passed", (json_int_t)all[i].passed, "failed",
                                (json_int_t)all[i].failed, "added", (json_int_t)all[i].added,
                                "deleted", (json_int_t)all[i].deleted, "why", all[i].why));
    o->result = json_pack("{s:o}", "attempts", attempts);
    if (best < 0 || !all[best].ended_well)
        snprintf(g->why, sizeof g->why, "%s",
                 best < 0 ? "no attempt could be tested" : all[best].why);
    else if (all[best].test_status != 0 || all[best].failed)
        snprintf(g->why, sizeof g->why, "no attempt passed the test; the best one is kept");
    return 0;
}

/* Usage, cost, plan, and the model's last words. */
static void goal_fill_outcome(struct goal_run *g, struct job_outcome *o)
{
    struct agent_state state;
    struct tool_session *tools = agent_tools(g->agent);
    agent_state(g->agent, &state);
    o->usage = agent_usage_json(&state.usage, &state.money);
    o->cost = state.money.known ? state.money.cost : -1;
    o->plan = tools ? tool_session_plan(tools) : NULL;
    if (json_array_size(o->plan) == 0) {
        json_decref(o->plan);
        o->plan = NULL;
    }
    if (!o->result)
        o->result = json_object();
    data_set(o->result, "text", text_json(g->words.data, g->words.len));
    data_set(o->result, "model", json_string(state.model));
}

static void goal_work(struct goal_run *g, struct job_outcome *o)
{
    struct job *j = g->job;
    struct error err = {0};
    const char *prompt = json_get_string_or(g->goal, "prompt", ""),
               *test = json_get_string(g->goal, "test");
    json_int_t n = json_get_integer(g->goal, "attempts");
    int r = test ? 0 : goal_store_resume(g, &err);
    if (r == 0 && json_get_string(j->lease.spec, "memory_from") && !g->resumed)
        r = goal_add_memory(g, &err);
    bool begun = g->resumed && history_turns(agent_history(g->agent)) > 0;
    if (r == 0)
        r = test ? goal_run_attempts(g, prompt, n < 1 ? 1 : (unsigned)n, test, o, &err)
                 : agent_turn(g->agent, begun ? CONTINUE : prompt, &err);
    goal_flush_piece(g);
    goal_fill_outcome(g, o);
    if (cancel_asked(j->lease.cancel)) {
        o->failed = true;
    } else if (r < 0) {
        job_fail(o, &err, job_error_is_fault(err.code));
    } else if (g->why[0]) {
        o->failed = true;
        o->exit_reason = "gave_up";
        error_set(&o->error, EIO, "%s", g->why);
    }
}

void job_run_goal(struct job *j, struct job_outcome *ret)
{
    struct goal_run g = {.job = j,
                         .goal = json_object_get(j->lease.spec, "goal"),
                         .words = BUF_INIT(WORDS_MAX),
                         .piece = BUF_INIT(2 * TEXT_EVENT_MAX),
                         .ended = eventfd(0, EFD_CLOEXEC)};
    struct error err = {0};
    json_int_t attempts = json_get_integer(g.goal, "attempts");
    int r = attempts < 0 || attempts > ATTEMPTS_MAX
                ? error_set(&err, EINVAL, "goal.attempts: at most %d", ATTEMPTS_MAX)
            : g.ended < 0 ? error_errno(&err, errno, "cannot create an eventfd")
                          : goal_prepare(&g, &err);
    if (r == 0 && (r = thread_start(&g.watcher, NULL, goal_watch, &g)) < 0)
        error_errno(&err, -r, "cannot start a thread");
    g.watched = r == 0;
    if (r < 0)
        job_fail(ret, &err, job_error_is_fault(err.code));
    else
        goal_work(&g, ret);
    struct tool_session *tools =
        g.watched && !ret->retry && !cancel_asked(j->lease.cancel) ? agent_tools(g.agent) : NULL;
    if (tools && job_send_files(j, tool_session_box(tools), tools, &err) < 0 && !ret->failed)
        job_fail(ret, &err, false);
    if (g.watched) {
        eventfd_write(g.ended, 1);
        pthread_join(g.watcher, NULL);
    }
    /* What the next attempt continues with stays: of a job that is given back or tried again. */
    j->keep_folder = g.agent && !j->lease.cancelled && !j->lease.lost && !j->timed_out &&
                     ret->failed && (ret->retry || cancel_asked(j->lease.cancel));
    agent_close(g.agent, j->keep_folder);
    settings_free(g.settings);
    if (g.has_spec)
        box_spec_free(&g.spec);
    cleanup_close(&g.ended);
    buf_free(&g.words);
    buf_free(&g.piece);
    free(g.workspace);
    free(g.histories);
}
