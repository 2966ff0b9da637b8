/*
 * Live jobs of kind `session`: an agent that gets messages over HTTP.
 *
 * One operation at a time uses the agent. A message that comes while another is answered is refused,
 * or waits for its place if its client asked for that; a turn goes on when its client leaves, since
 * others may follow it by the events of the job. `cancel`, `state` and `conversation` do not wait.
 *
 * The history, the workspace and the box (a kept one) outlive the worker: an attempt after a crash
 * resumes them. A member's file (live_session.h) tells it whether a message was being answered.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git_box.h"
#include "io.h"
#include "json.h"
#include "live_session.h"
#include "thread.h"
#include "tool.h"
#include "banned.h"

#define WAITING_MAX      16
#define PATHS_MAX        256
#define REPORTED_MAX     1000  /* paths of an apply */
#define OUTPUT_FOR_MODEL 16000 /* bytes of a person's command that the model sees; the tail */
#define PIECE_SIZE       (64u << 10)

enum session_use {
    SESSION_FREE,
    SESSION_BRIEF, /* an operation that others wait for */
    SESSION_LONG,  /* one that may take long: others are refused, or queue */
};

struct session {
    char job[SESSION_NAME_MAX], history[HISTORY_ID_MAX];
    struct session_home *home;
    struct agent *agent;
    struct session_events events; /* of the operation that uses the agent */
    int member;                   /* the file of this session in the home */
    int cancel;                   /* an eventfd, for what does not listen to agent_interrupt */
    unsigned commands;            /* calls of the person, to number them */
    const char *tool;             /* of the last one */
    pthread_mutex_t lock;         /* guards what follows */
    pthread_cond_t changed;
    enum session_use use;
    uint64_t next_ticket, serving; /* operations in the order in which they came */
    unsigned waiting;
    bool ending;
    json_t *state; /* what `state` answers, without "busy" and "waiting" */
};

/* --- its state, for readers beside the operation --- */

static json_t *session_state_read(struct session *s, bool plan)
{
    struct agent_state now;
    struct tool_session *tools = plan ? agent_tools(s->agent) : NULL;
    agent_state(s->agent, &now);
    json_t *usage = agent_usage_json(&now.usage, &now.money);
    return json_pack("{s:s, s:s, s:i, s:I, s:I, s:o, s:I, s:o}", "history", now.session, "model",
                     now.model, "turns", (int)now.turns, "context", (json_int_t)now.context,
                     "window", (json_int_t)now.window, "usage", usage, "background",
                     (json_int_t)now.running, "plan",
                     tools ? tool_session_plan(tools) : json_array());
}

/* By the operation that uses the agent. */
static void session_refresh(struct session *s, bool plan)
{
    json_t *now = session_state_read(s, plan);
    LOCKED(&s->lock);
    if (now) {
        json_decref(s->state);
        s->state = now;
    }
}

static void session_on_event(void *data, const struct agent_event *e)
{
    struct session *s = data;
    session_events_agent(&s->events, e);
    if (e->kind == AGENT_USAGE && s->agent)
        session_refresh(s, true);
}

/* --- opening and closing --- */

static struct session *session_free(struct session *s)
{
    if (!s)
        return NULL;
    session_home_free(s->home);
    cleanup_close(&s->member);
    cleanup_close(&s->cancel);
    buf_free(&s->events.text);
    json_decref(s->state);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
    return NULL;
}

/* Takes the reference over, also on failure. */
static struct session *session_new(const char *job, struct session_home *home,
                                   bool *ret_interrupted, struct error *err)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s) {
        session_home_free(home);
        error_set(err, ENOMEM, "no memory");
        return NULL;
    }
    snprintf(s->job, sizeof s->job, "%s", job);
    s->home = home;
    s->events.text = BUF_INIT(SESSION_TEXT_MAX);
    s->member = -1;
    s->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (s->cancel < 0)
        error_errno(err, errno, "cannot make an eventfd");
    if (s->cancel < 0 || session_home_join(home, job, &s->member, ret_interrupted, err) < 0)
        return session_free(s);
    return s;
}

/* Remembers the names that do not change. */
static void session_set_agent(struct session *s, struct agent *agent)
{
    struct agent_state now;
    s->agent = agent;
    agent_state(agent, &now);
    snprintf(s->history, sizeof s->history, "%s", now.session);
    session_refresh(s, false);
}

static json_t *session_resume_json(const struct session *s)
{
    return json_pack("{s:s, s:s}", "home", s->home->name, "history", s->history);
}

/* Continues the session of an earlier attempt if it said something yet. */
static int session_open_agent(struct session *s, const char *history, struct error *err)
{
    const struct agent_sink sink = {.event = session_on_event, .data = s};
    struct agent_options o = s->home->agent;
    struct agent *agent = NULL;
    o.resume = history;
    int r = agent_open(&o, &sink, &agent, err);
    if (r == -ENOENT && history) {
        o.resume = NULL;
        r = agent_open(&o, &sink, &agent, err);
    }
    if (r == -EBUSY) /* a former worker that lost the lease still has it */
        err->code = EAGAIN;
    if (r == 0)
        session_set_agent(s, agent);
    return r;
}

static int session_open(struct live_job *l, void **ret, struct error *err)
{
    const json_t *resume = live_job_resume(l);
    const char *home_name = json_get_string(resume, "home");
    struct session_home *home = NULL;
    bool interrupted = false;
    int r =
        home_name ? session_home_find(l, home_name, &home, err) : session_home_new(l, &home, err);
    if (r == -ENOENT && home_name)
        err->code = EAGAIN; /* another worker may have it */
    if (r < 0)
        return r;
    struct session *s = session_new(live_job_id(l), home, &interrupted, err);
    if (!s)
        return -err->code;
    s->events.job = l;
    r = session_open_agent(s, json_get_string(resume, "history"), err);
    if (r == 0)
        r = live_job_set_resume(l, session_resume_json(s), err);
    if (r < 0) {
        if (!home_name) {
            agent_close(s->agent, false);
            session_home_leave(home, s->job);
        } else if (s->agent) {
            agent_leave(s->agent);
        }
        session_free(s);
        return r;
    }
    if (interrupted)
        session_events_send(
            &s->events,
            json_pack("{s:s, s:s, s:b}", "type", "error", "text",
                      "the worker ended while it answered a message: what was done until then "
                      "is in the conversation and the workspace; send the message again",
                      "retrying", 0),
            true);
    if (interrupted && ftruncate(s->member, 0) < 0)
        session_events_log(&s->events, "cannot write into the folder of the session");
    *ret = s;
    return 0;
}

static void session_close(struct live_job *l, void *state, bool keep)
{
    struct session *s = state;
    s->events.job = NULL;
    if (keep) {
        agent_leave(s->agent);
    } else {
        agent_close(s->agent, false);
        session_home_leave(s->home, s->job);
    }
    session_free(s);
}

/* --- who uses the agent --- */

/* Waits for its place: `queue` also behind operations that may take long. False: the call was
 * answered with a problem. */
static bool session_begin(struct live_call *c, enum session_use use, bool queue)
{
    struct session *s = call_state(c);
    pthread_mutex_lock(&s->lock);
    bool is_busy = s->use == SESSION_LONG || s->waiting > 0;
    bool refused = s->ending || s->waiting >= WAITING_MAX || (is_busy && !queue);
    uint64_t ticket = refused ? 0 : s->next_ticket++;
    if (!refused && ticket != s->serving) {
        json_int_t before = (json_int_t)(ticket - s->serving);
        s->waiting++;
        pthread_mutex_unlock(&s->lock); /* a slow client must not hold up the others */
        if (queue && is_busy)
            call_event(c, json_pack("{s:s, s:I}", "type", "queued", "before", before));
        pthread_mutex_lock(&s->lock);
        while (ticket != s->serving && !s->ending)
            pthread_cond_wait(&s->changed, &s->lock);
        s->waiting--;
        refused = s->ending;
    }
    if (!refused) {
        eventfd_t count;
        agent_forget_interrupt(s->agent); /* one that came too late for the last operation */
        eventfd_read(s->cancel, &count);
        s->use = use;
        s->events.job = call_job(c);
        s->events.call = c;
    }
    bool ending = s->ending;
    pthread_mutex_unlock(&s->lock);
    if (ending)
        call_problem(c, 409, "ended", "the session ends");
    else if (refused)
        call_problem(c, 409, "busy",
                     queue
                         ? "%d messages wait already"
                         : "the session is busy: wait for the end, cancel it, or send the message "
                           "with \"queue\": true",
                     WAITING_MAX);
    return !refused;
}

static void session_end(struct session *s)
{
    session_refresh(s, s->agent != NULL);
    LOCKED(&s->lock);
    s->events.call = NULL;
    s->use = SESSION_FREE;
    s->serving++;
    pthread_cond_broadcast(&s->changed);
}

/* While a long operation runs: interrupts it when the job is to end. */
struct session_watch {
    struct session *session;
    struct live_job *job;
    int done;
    pthread_t thread;
    bool started;
};

static void session_interrupt(struct session *s)
{
    agent_interrupt(s->agent);
    eventfd_write(s->cancel, 1);
}

static void *session_watch_thread(void *data)
{
    struct session_watch *w = data;
    if (cancel_wait(w->done, POLLIN, -1, live_job_cancel(w->job)) != -ECANCELED)
        return NULL;
    pthread_mutex_lock(&w->session->lock);
    w->session->ending = true;
    pthread_cond_broadcast(&w->session->changed);
    pthread_mutex_unlock(&w->session->lock);
    session_interrupt(w->session);
    return NULL;
}

static int session_watch_begin(struct session_watch *w, struct live_call *c, struct error *err)
{
    *w = (struct session_watch){.session = call_state(c), .job = call_job(c)};
    w->done = eventfd(0, EFD_CLOEXEC);
    if (w->done < 0)
        return error_errno(err, errno, "cannot make an eventfd");
    int r = thread_start(&w->thread, NULL, session_watch_thread, w);
    w->started = r == 0;
    return r < 0 ? error_errno(err, -r, "cannot start a thread") : 0;
}

static void session_watch_end(struct session_watch *w)
{
    if (w->started) {
        eventfd_write(w->done, 1);
        pthread_join(w->thread, NULL);
    }
    cleanup_close(&w->done);
}

static bool session_is_ending(struct session *s)
{
    LOCKED(&s->lock);
    return s->ending;
}

/* --- messages --- */

/* What is pending is an event after whatever may have changed it. */
static int session_send_changes(struct session *s, struct error *err)
{
    struct agent_changes changes = {0};
    int r = agent_changes(s->agent, &changes, err);
    if (r == 0)
        session_events_send(&s->events, agent_changes_json(&changes), true);
    agent_changes_free(&changes);
    return r;
}

static void session_send_error(struct session *s, const char *text)
{
    session_events_send(&s->events,
                        json_pack("{s:s, s:o, s:b}", "type", "error", "text",
                                  text_json(text, strlen(text)), "retrying", 0),
                        true);
}

static void session_send_done(struct session *s)
{
    struct agent_state now;
    agent_state(s->agent, &now);
    const char *why = s->events.why;
    session_events_send(&s->events,
                        json_pack("{s:s, s:s, s:s, s:s*, s:i, s:o, s:i}", "type", "done", "session",
                                  s->job, "stop", model_stop_name(s->events.stop), "why",
                                  *why ? why : NULL, "turn", (int)now.turns, "cost",
                                  now.money.known ? json_real(now.money.cost) : json_null(),
                                  "status", *why ? 1 : 0),
                        true);
}

static void session_message(struct live_call *c)
{
    struct session *s = call_state(c);
    const char *text = json_get_string_or(call_input(c), "text", "");
    struct session_watch watch;
    struct agent_state now;
    struct error err = {0};
    if (!session_begin(c, SESSION_LONG, json_get_bool(call_input(c), "queue")))
        return;
    int r = session_watch_begin(&watch, c, &err);
    if (r == 0 && pwrite(s->member, "1", 1, 0) != 1)
        r = error_errno(&err, errno, "cannot write into the folder of the session");
    agent_state(s->agent, &now);
    session_events_send(&s->events,
                        json_pack("{s:s, s:s, s:s, s:b}", "type", "session", "session", s->job,
                                  "model", now.model, "resumed", now.turns > 0),
                        false);
    session_events_send(
        &s->events,
        json_pack("{s:s, s:s, s:i}", "type", "message", "text", text, "turn", (int)now.turns + 1),
        true);
    s->events.stop = 0;
    s->events.why[0] = 0;
    if (r == 0)
        r = agent_turn(s->agent, text, &err);
    session_watch_end(&watch);
    if (session_is_ending(s)) {
        session_end(s); /* the next attempt says that the message was lost */
        return;
    }
    if (r < 0)
        session_send_error(s, err.text);
    else
        session_send_done(s);
    if (ftruncate(s->member, 0) < 0)
        session_events_log(&s->events, "cannot write into the folder of the session");
    session_end(s);
}

static void session_cancel(struct live_call *c)
{
    struct session *s = call_state(c);
    LOCKED(&s->lock);
    bool running = s->use == SESSION_LONG;
    if (running)
        session_interrupt(s);
    call_end(c, json_pack("{s:b}", "cancelled", running));
}

/* --- reading --- */

static void session_state(struct live_call *c)
{
    struct session *s = call_state(c);
    LOCKED(&s->lock);
    json_t *state = json_copy(s->state);
    json_object_set_new(state, "busy", json_boolean(s->use == SESSION_LONG));
    json_object_set_new(state, "waiting", json_integer(s->waiting));
    call_end(c, state);
}

static void session_conversation_op(struct live_call *c)
{
    struct session *s = call_state(c);
    struct error err = {0};
    json_t *page = NULL;
    json_int_t from = json_get_integer(call_input(c), "from");
    if (session_conversation(s->home, s->history, from > 0 ? (size_t)from : 0, &page, &err) < 0)
        call_fail(c, &err);
    else
        call_end(c, page);
}

static void session_changes(struct live_call *c)
{
    struct session *s = call_state(c);
    struct agent_changes changes = {0};
    struct error err = {0};
    if (!session_begin(c, SESSION_BRIEF, false))
        return;
    int r = agent_changes(s->agent, &changes, &err);
    session_end(s);
    if (r < 0) {
        call_fail(c, &err);
        return;
    }
    json_t *body = agent_changes_json(&changes);
    json_object_del(body, "type");
    call_end(c, body);
    agent_changes_free(&changes);
}

/* {"size": N}, then the bytes. */
static void session_send_file(struct live_call *c, int fd)
{
    struct stat st;
    _cleanup_free_ char *piece = malloc(PIECE_SIZE);
    if (!piece || fstat(fd, &st) < 0) {
        call_problem(c, 500, "worker-failed", "cannot read a temporary file");
        return;
    }
    int r = call_event(c, json_pack("{s:I}", "size", (json_int_t)st.st_size));
    for (uint64_t at = 0; r == 0 && at < (uint64_t)st.st_size;) {
        ssize_t n = io_read_at(fd, piece, PIECE_SIZE, at);
        if (n <= 0) {
            call_problem(c, 500, "worker-failed", "cannot read a temporary file");
            return;
        }
        r = call_send(c, piece, (size_t)n);
        at += (uint64_t)n;
    }
    if (r == 0)
        call_send(c, NULL, 0);
}

static void session_diff(struct live_call *c)
{
    struct session *s = call_state(c);
    struct error err = {0};
    _cleanup_fd_ int fd = io_unnamed_file();
    if (!session_begin(c, SESSION_BRIEF, false))
        return;
    int r = fd < 0 ? error_errno(&err, -fd, "cannot make a file for the diff")
                   : agent_diff(s->agent, fd, &err);
    session_end(s);
    if (r < 0)
        call_fail(c, &err);
    else
        session_send_file(c, fd);
}

static void session_workspace(struct live_call *c)
{
    struct session *s = call_state(c);
    struct error err = {0};
    _cleanup_fd_ int fd = -1;
    if (!session_begin(c, SESSION_BRIEF, false)) /* nobody applies meanwhile */
        return;
    int r = session_home_tar(s->home, &fd, &err);
    session_end(s);
    if (r < 0)
        call_fail(c, &err);
    else
        session_send_file(c, fd);
}

/* --- changing --- */

static void session_undo(struct live_call *c)
{
    static const char *const FILES[] = {
        [UNDO_NO_CHANGES] = "unchanged", [UNDO_RESTORED] = "restored", [UNDO_STATE_GONE] = "gone"};
    struct session *s = call_state(c);
    struct agent_undone undone;
    struct error err = {0};
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    json_int_t turns = json_get_integer(call_input(c), "turns");
    if (!session_begin(c, SESSION_BRIEF, false))
        return;
    int r = agent_undo(s->agent, turns > 0 ? (unsigned)turns : 1, &undone, &err);
    json_t *body = NULL;
    if (r == 0 && agent_undone_text(&undone, &text) == 0) {
        body = json_pack("{s:s, s:o, s:i, s:i, s:s, s:I, s:I, s:I}", "type", "undo", "text",
                         text_json(text.data, text.len), "first", (int)undone.first, "last",
                         (int)undone.last, "files", FILES[undone.files], "restored",
                         (json_int_t)undone.restored, "applied", (json_int_t)undone.applied,
                         "failed", (json_int_t)undone.failed);
        session_events_send(&s->events, json_incref(body), true);
        session_send_changes(s, NULL);
        json_object_del(body, "type");
    }
    session_end(s);
    if (r < 0)
        call_fail(c, &err);
    else
        call_end(c, body);
}

/* The new session; its agent and its box are there already. */
static int session_fork_agent(struct session *s, struct live_call *c, struct session **ret,
                              struct error *err)
{
    bool interrupted;
    struct agent *agent = NULL;
    struct session *fork = session_new(json_get_string_or(call_input(c), "job", ""),
                                       session_home_ref(s->home), &interrupted, err);
    json_int_t turn = json_get_integer(call_input(c), "turn");
    if (!fork)
        return -err->code;
    const struct agent_sink sink = {.event = session_on_event, .data = fork};
    int r = agent_fork(s->agent, turn > 0 ? (unsigned)turn : 0, &sink, &agent, err);
    if (r < 0) {
        session_home_leave(fork->home, fork->job);
        session_free(fork);
        return r;
    }
    session_set_agent(fork, agent);
    *ret = fork;
    return 0;
}

static void session_fork(struct live_call *c)
{
    struct session *s = call_state(c), *fork = NULL;
    struct error err = {0};
    unsigned token = (unsigned)json_get_integer(call_input(c), "token");
    if (!session_begin(c, SESSION_BRIEF, false))
        return;
    int r = session_fork_agent(s, c, &fork, &err);
    session_end(s);
    if (r == 0)
        r = live_job_adopt(call_job(c), fork->job, token, json_object_get(call_input(c), "spec"),
                           session_resume_json(fork), fork, &err);
    if (r == 0)
        return;
    if (fork)
        session_close(NULL, fork, false);
    call_fail(c, &err);
}

struct session_tally {
    json_t *paths, *notes;
    size_t applied, merged, conflicts, refused;
};

static void session_on_path(void *data, const char *path, enum apply_outcome outcome,
                            const char *why)
{
    static const char *const NAMES[] = {[APPLY_DONE] = "applied",
                                        [APPLY_SAME] = "same",
                                        [APPLY_MERGED] = "merged",
                                        [APPLY_CONFLICT] = "conflict",
                                        [APPLY_REFUSED] = "refused"};
    struct session_tally *t = data;
    t->applied += outcome == APPLY_DONE;
    t->merged += outcome == APPLY_MERGED;
    t->conflicts += outcome == APPLY_CONFLICT;
    t->refused += outcome == APPLY_REFUSED;
    if (json_array_size(t->paths) < REPORTED_MAX)
        json_array_append_new(t->paths,
                              json_pack("{s:o, s:s, s:o}", "path", text_json(path, strlen(path)),
                                        "outcome", NAMES[outcome], "why",
                                        why ? text_json(why, strlen(why)) : json_null()));
}

static void session_on_note(void *data, const char *line)
{
    struct session_tally *t = data;
    if (json_array_size(t->notes) < REPORTED_MAX)
        json_array_append_new(t->notes, text_json(line, strlen(line)));
}

static enum apply_choice session_choice(const json_t *input)
{
    static const char *const NAMES[] = {[APPLY_REPORT] = "report",
                                        [APPLY_MINE] = "mine",
                                        [APPLY_THEIRS] = "theirs",
                                        [APPLY_MARKERS] = "markers"};
    const char *given = json_get_string_or(input, "on_conflict", "report");
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (strcmp(NAMES[i], given) == 0)
            return (enum apply_choice)i;
    return APPLY_REPORT;
}

/* Of apply and sync: both bring the box and the workspace together. */
static void session_merge(struct live_call *c, bool apply)
{
    struct session *s = call_state(c);
    const json_t *given = json_object_get(call_input(c), "paths");
    const char *paths[PATHS_MAX];
    struct session_watch watch;
    struct session_tally t = {.paths = json_array(), .notes = json_array()};
    struct error err = {0};
    struct tool_apply_options o = {
        .files = {.on_conflict = session_choice(call_input(c)), .paths = given ? paths : NULL},
        .cancel = s->cancel,
        .report = {.say = session_on_path, .data = &t},
        .note = session_on_note,
        .data = &t};
    for (size_t i = 0; i < json_array_size(given) && o.files.n_paths < PATHS_MAX; i++)
        paths[o.files.n_paths++] = json_string_value(json_array_get(given, i));
    if (session_begin(c, SESSION_LONG, false)) {
        int r = session_watch_begin(&watch, c, &err);
        if (r == 0)
            r = apply ? agent_apply(s->agent, &o, &err)
                      : agent_sync(s->agent, &o.files, &o.report, &err);
        session_watch_end(&watch);
        json_t *body =
            json_pack("{s:I, s:I, s:I, s:I, s:O, s:O}", "applied", (json_int_t)t.applied, "merged",
                      (json_int_t)t.merged, "conflicts", (json_int_t)t.conflicts, "refused",
                      (json_int_t)t.refused, "paths", t.paths, "notes", t.notes);
        if (r >= 0) {
            json_t *event = json_copy(body);
            json_object_set_new(event, "type", json_string(apply ? "applied" : "synced"));
            session_events_send(&s->events, event, true);
            session_send_changes(s, NULL);
        }
        session_end(s);
        if (r < 0) {
            json_decref(body);
            call_fail(c, &err);
        } else {
            call_end(c, body);
        }
    }
    json_decref(t.paths);
    json_decref(t.notes);
}

static void session_apply(struct live_call *c)
{
    session_merge(c, true);
}

static void session_sync(struct live_call *c)
{
    session_merge(c, false);
}

static void session_model(struct live_call *c)
{
    struct session *s = call_state(c);
    struct error err = {0};
    if (!session_begin(c, SESSION_BRIEF, false))
        return;
    int r = agent_set_model(s->agent, json_get_string_or(call_input(c), "model", ""), &err);
    session_end(s);
    if (r < 0)
        call_problem(c, 400, "invalid", "%s", err.text); /* no such model, or no key for it */
    else
        session_state(c);
}

static void session_compact(struct live_call *c)
{
    struct session *s = call_state(c);
    struct session_watch watch;
    struct error err = {0};
    if (!session_begin(c, SESSION_LONG, false))
        return;
    int r = session_watch_begin(&watch, c, &err);
    if (r == 0)
        r = agent_compact(s->agent, &err);
    session_watch_end(&watch);
    session_end(s);
    if (r < 0)
        call_fail(c, &err);
    else
        session_state(c);
}

/* --- the tools --- */

static void session_tools_add(void *data, const struct tool *t)
{
    json_array_append_new(data, tool_describe(t));
}

static void session_tools(struct live_call *c)
{
    struct session *s = call_state(c);
    if (!session_begin(c, SESSION_BRIEF, false))
        return;
    struct tool_session *tools = agent_tools(s->agent);
    json_t *list = json_array();
    if (tools)
        tool_session_list(tools, session_tools_add, NULL, list);
    session_end(s);
    if (tools)
        call_end(c, json_pack("{s:O}", "tools", list));
    else
        call_problem(c, 500, "worker-failed", "the box of this session could not be started");
    json_decref(list);
}

static void session_on_progress(void *data, double seconds, const char *message)
{
    struct session *s = data;
    char id[24];
    snprintf(id, sizeof id, "!%u", s->commands);
    session_events_agent(&s->events, &(struct agent_event){.kind = AGENT_PROGRESS,
                                                           .id = id,
                                                           .name = s->tool,
                                                           .text = message,
                                                           .n = message ? strlen(message) : 0,
                                                           .seconds = seconds});
}

/* The model sees a command of the person, too: the tail of its output. */
static void session_tell_model(struct session *s, const char *command, const struct buf *output)
{
    _cleanup_buf_ struct buf note = BUF_INIT(8 * OUTPUT_FOR_MODEL);
    size_t n = output->len, skip = n > OUTPUT_FOR_MODEL ? n - OUTPUT_FOR_MODEL : 0;
    const char *text = n ? (const char *)output->data + skip : "";
    size_t cut = skip ? utf8_cut_start((const uint8_t *)text, n - skip) : 0;
    buf_printf(&note, "[I ran this in the box myself: %s\n%s%.*s]", command, skip ? "…" : "",
               (int)(n - skip - cut), text + cut);
    if (!note.failed)
        prompt_note(s->agent, (const char *)note.data, note.len);
}

/* A call of the person's own, like `!COMMAND` of the chat. */
static void session_tool(struct live_call *c)
{
    struct session *s = call_state(c);
    const char *name = json_get_string_or(call_input(c), "name", "");
    json_t *input = json_object_get(call_input(c), "input");
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    struct tool_progress progress = {.say = session_on_progress, .data = s};
    struct session_watch watch;
    struct error err = {0};
    char id[24];
    if (!session_begin(c, SESSION_LONG, false))
        return;
    snprintf(id, sizeof id, "!%u", ++s->commands);
    s->tool = name;
    int r = session_watch_begin(&watch, c, &err);
    struct tool_session *tools = r == 0 ? agent_tools(s->agent) : NULL;
    if (r == 0 && !tools)
        r = error_set(&err, EIO, "the box of this session could not be started");
    if (r == 0) {
        int64_t begin = clock_now();
        struct agent_event e = {.kind = AGENT_CALL, .id = id, .name = name, .input = input};
        session_events_agent(&s->events, &e);
        tool_call(tools,
                  &(struct tool_request){
                      .name = name, .input = input, .cancel = s->cancel, .progress = &progress},
                  &result);
        e.kind = AGENT_RESULT;
        e.result = &result;
        e.seconds = (double)(clock_now() - begin) / NS_PER_S;
        session_events_agent(&s->events, &e);
        if (strcmp(name, TOOL_BASH.name) == 0 && json_get_string(input, "command"))
            session_tell_model(s, json_get_string(input, "command"), &result.text);
        session_send_changes(s, NULL);
    }
    session_watch_end(&watch);
    session_end(s);
    if (r < 0)
        call_fail(c, &err);
    else
        call_end(c, tool_result_json(&result));
}

static const struct live_op SESSION_OPS[] = {
    {"message", session_message},     {"cancel", session_cancel},
    {"state", session_state},         {"conversation", session_conversation_op},
    {"changes", session_changes},     {"diff", session_diff},
    {"workspace", session_workspace}, {"undo", session_undo},
    {"fork", session_fork},           {"apply", session_apply},
    {"sync", session_sync},           {"model", session_model},
    {"compact", session_compact},     {"tools", session_tools},
    {"tool", session_tool},           {0},
};

const struct live_kind LIVE_SESSION = {
    .name = "session", .open = session_open, .close = session_close, .ops = SESSION_OPS};
