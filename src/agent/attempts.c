/*
 * --attempts N --test CMD: N conversations on the same goal, each in a thread with a history, a box
 * and a model of its own. When one has ended, its work is tested in a fork of its box, so that the
 * test leaves nothing behind in it. The agent continues as the best of them; the boxes of the
 * others are removed, their histories stay.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent_session.h"
#include "banned.h"

struct attempts;

struct trial {
    struct attempts *of;
    unsigned number;
    struct agent *agent;
    struct attempt *result;
    pthread_t thread;
    bool started;
};

struct attempts {
    const char *words, *test;
    const struct attempts_sink *sink;
    pthread_mutex_t sink_lock;
    int ended; /* an eventfd that counts those that have */
    struct trial *all;
    unsigned n;
};

static void trial_relay(void *data, const struct agent_event *e)
{
    struct trial *t = data;
    if (e->kind == AGENT_DONE)
        t->result->ended_well = !e->why;
    if (e->kind == AGENT_DONE && e->why)
        snprintf(t->result->why, sizeof t->result->why, "%.150s", e->why);
    if (!t->of->sink)
        return;
    pthread_mutex_lock(&t->of->sink_lock);
    t->of->sink->event(t->of->sink->data, t->number, e);
    pthread_mutex_unlock(&t->of->sink_lock);
}

/* Runs the test in a fork of the box. Where no report was understood, the exit status counts as one
 * test. */
static int trial_test(struct trial *t, struct error *err)
{
    struct attempt *ret = t->result;
    struct workbox *fork = NULL;
    struct tool_session *session = NULL;
    struct tool_result result = TOOL_RESULT_INIT;
    int r = workbox_fork(t->agent->box, NULL, &fork, err);
    if (r == 0)
        r = tool_session_new(fork->box, &session, err);
    if (r == 0) {
        _cleanup_json_ json_t *input = json_pack("{s:s}", "command", t->of->test);
        struct tool_request q = {
            .tool = &TOOL_RUN_TESTS, .input = input, .cancel = t->agent->cancel};
        tool_call(session, &q, &result);
        ret->tested = json_is_integer(json_object_get(result.data, "exit_code"));
        if (ret->tested) {
            ret->test_status = (int)json_get_integer(result.data, "exit_code");
            ret->passed = (uint64_t)json_get_integer(result.data, "passed");
            ret->failed = (uint64_t)(json_get_integer(result.data, "failed") +
                                     json_get_integer(result.data, "errors"));
        } else {
            r = error_set(err, EIO, "cannot run the test: %.*s",
                          (int)(result.text.len < 120 ? result.text.len : 120),
                          result.text.len ? (const char *)result.text.data : "");
        }
    }
    tool_result_free(&result);
    tool_session_free(session);
    workbox_free(fork, true);
    return r;
}

static void *trial_thread(void *data)
{
    struct trial *t = data;
    struct error err = {0};
    const uint64_t one = 1;
    int r = agent_turn(t->agent, t->of->words, &err);
    if (r < 0)
        snprintf(t->result->why, sizeof t->result->why, "%.150s", err.text);
    struct agent_changes changes = {0};
    if (agent_changes(t->agent, &changes, NULL) == 0) {
        t->result->files = changes.count;
        t->result->added = changes.added;
        t->result->deleted = changes.deleted;
    }
    agent_changes_free(&changes);
    t->result->usage = t->agent->usage;
    t->result->money = t->agent->money;
    if (!t->agent->turn.interrupted && trial_test(t, &err) < 0)
        snprintf(t->result->why, sizeof t->result->why, "%.150s", err.text);
    if (write(t->of->ended, &one, sizeof one) < 0) {
        /* The counter holds more than there are attempts. */
    }
    return NULL;
}

static int trial_open(struct agent *a, struct trial *t, struct error *err)
{
    struct workbox *box = NULL;
    int r = workbox_fork(a->box, NULL, &box, err);
    if (r == 0)
        r = agent_fork_with(a, box, history_turns(a->history),
                            &(struct agent_sink){.event = trial_relay, .data = t}, &t->agent, err);
    if (r < 0)
        return r;
    if (a->prompt_notes.len)
        prompt_note(t->agent, (const char *)a->prompt_notes.data, a->prompt_notes.len);
    /* The winner takes over the watch of the agent that was forked. */
    t->agent->watch = folder_watch_free(t->agent->watch);
    t->agent->options.host.trial = true;
    snprintf(t->result->session, sizeof t->result->session, "%s", history_id(t->agent->history));
    return 0;
}

static void attempts_run(struct agent *a, struct attempts *s)
{
    unsigned running = 0;
    for (unsigned i = 0; i < s->n; i++) {
        struct trial *t = &s->all[i];
        t->started = pthread_create(&t->thread, NULL, trial_thread, t) == 0;
        running += t->started;
        if (!t->started)
            snprintf(t->result->why, sizeof t->result->why, "cannot start a thread");
    }
    for (bool stopped = false; running > 0;) { /* an interrupt goes to each of them */
        uint64_t ended = 0;
        struct pollfd fds[] = {{.fd = s->ended, .events = POLLIN},
                               {.fd = stopped ? -1 : a->cancel, .events = POLLIN}};
        if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
            continue;
        if (fds[1].revents) {
            stopped = a->turn.interrupted = true;
            for (unsigned i = 0; i < s->n; i++)
                agent_interrupt(s->all[i].agent);
        }
        if (fds[0].revents && read(s->ended, &ended, sizeof ended) > 0)
            running -= (unsigned)ended;
    }
    for (unsigned i = 0; i < s->n; i++)
        if (s->all[i].started)
            pthread_join(s->all[i].thread, NULL);
}

/* The agent continues with the conversation and the box of the winner. */
static void agent_become(struct agent *a, struct agent *winner)
{
    struct agent_sink sink = a->sink;
    struct agent_options options = a->options;
    int cancel = a->cancel;
    struct agent old = *a;
    *a = *winner;
    *winner = old;
    winner->cancel = a->cancel;
    winner->watch = NULL;
    a->watch = old.watch;
    a->watch_begun = old.watch_begun;
    a->watch_since = old.watch_since;
    a->sink = sink;
    a->options = options;
    a->cancel = cancel;
    winner->pending = 0;
    if (a->tools)
        agent_set_host(a, NULL); /* it is no trial any more */
}

/* Most tests passed, then a test command that succeeded, then the fewest failures, then the
 * smallest diff. */
int attempts_best(const struct attempt *all, unsigned n)
{
    int best = -1;
    for (unsigned i = 0; i < n; i++) {
        const struct attempt *x = &all[i], *y = best < 0 ? NULL : &all[best];
        if (x->tested && (!y                                               ? true
                          : x->passed != y->passed                         ? x->passed > y->passed
                          : (x->test_status == 0) != (y->test_status == 0) ? x->test_status == 0
                          : x->failed != y->failed                         ? x->failed < y->failed
                                                   : x->added + x->deleted < y->added + y->deleted))
            best = (int)i;
    }
    return best;
}

int agent_attempts(struct agent *a, const char *words, const struct attempts_options *o,
                   const struct attempts_sink *sink, struct attempt *ret, int *ret_best,
                   struct error *err)
{
    struct attempts s = {.words = words,
                         .test = o->test,
                         .sink = sink,
                         .sink_lock = PTHREAD_MUTEX_INITIALIZER,
                         .n = o->n,
                         .all = calloc(o->n + 1, sizeof *s.all)};
    _cleanup_fd_ int ended = s.ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = s.all && ended >= 0 ? agent_ready(a, err) : error_set(err, ENOMEM, "out of memory");
    memset(ret, 0, o->n * sizeof *ret);
    if (r == 0)
        agent_learn_folder(a);
    a->turn = (struct turn){0};
    for (unsigned i = 0; r == 0 && i < s.n; i++) {
        s.all[i] = (struct trial){.of = &s, .number = i, .result = &ret[i]};
        r = trial_open(a, &s.all[i], err);
    }
    if (r == 0) {
        attempts_run(a, &s);
        *ret_best = a->turn.interrupted ? -1 : attempts_best(ret, s.n);
    }
    for (unsigned i = 0; s.all && i < s.n; i++) {
        if (r == 0 && (int)i == *ret_best)
            agent_become(a, s.all[i].agent);
        agent_close(s.all[i].agent, false);
    }
    free(s.all);
    return r;
}
