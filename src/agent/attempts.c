/*
 * --attempts N --test CMD: N conversations at the same goal, each in a thread with a history, a box
 * and a model of its own. When one has ended its work is tested in a fork of its box, so that what
 * the test leaves behind is in nobody's way. The agent goes on as the best of them; the boxes of
 * the others end, their histories stay.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent_private.h"
#include "folder_watch.h"
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
    pthread_mutex_t telling;
    int ended; /* an eventfd that counts those that have */
    struct trial *all;
    unsigned n;
};

static void relay(void *data, const struct agent_event *e)
{
    struct trial *t = data;
    if (e->kind == AGENT_DONE)
        t->result->ended_well = !e->why;
    if (e->kind == AGENT_DONE && e->why)
        snprintf(t->result->why, sizeof t->result->why, "%.150s", e->why);
    if (!t->of->sink)
        return;
    pthread_mutex_lock(&t->of->telling);
    t->of->sink->event(t->of->sink->data, t->number, e);
    pthread_mutex_unlock(&t->of->telling);
}

static uint64_t count_of(const json_t *data, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(data, name));
    return n > 0 ? (uint64_t)n : 0;
}

/* Where no report was understood there is the exit status, which is one test. */
static void take_report(const struct tool_result *result, struct attempt *ret)
{
    const json_t *status = json_object_get(result->data, "exit_code");
    if (!json_is_integer(status)) {
        snprintf(ret->why, sizeof ret->why, "the test could not be run: %.*s",
                 (int)(result->text.len < 120 ? result->text.len : 120),
                 result->text.len ? (const char *)result->text.data : "");
        return;
    }
    ret->tested = true;
    ret->test_status = (int)json_integer_value(status);
    ret->passed = count_of(result->data, "passed");
    ret->failed = count_of(result->data, "failed") + count_of(result->data, "errors");
}

static int test_in_fork(struct trial *t, struct workbox *fork, struct error *err)
{
    struct tool_session *session = NULL;
    struct tool_result result = TOOL_RESULT_INIT;
    int r = tool_session_new(workbox_tools(fork), "main", &session, err);
    if (r < 0)
        return r;
    json_t *input = json_pack("{s:s}", "command", t->of->test);
    struct tool_request q = {.tool = &TOOL_RUN_TESTS, .input = input, .cancel = t->agent->cancel};
    tool_call(session, &q, &result);
    take_report(&result, t->result);
    tool_result_free(&result);
    json_decref(input);
    tool_session_free(session);
    return 0;
}

static void test(struct trial *t)
{
    struct error err = {0};
    struct workbox *fork = NULL;
    int r = workbox_fork(t->agent->box, NULL, &fork, &err);
    if (r == 0)
        r = test_in_fork(t, fork, &err);
    workbox_free(fork, true);
    if (r < 0)
        snprintf(t->result->why, sizeof t->result->why, "%.150s", err.text);
}

static void measure(struct trial *t)
{
    struct agent_changes changes = {0};
    if (agent_changes(t->agent, &changes, NULL) == 0) {
        t->result->files = changes.count;
        t->result->added = changes.added;
        t->result->deleted = changes.deleted;
    }
    agent_changes_free(&changes);
    t->result->usage = t->agent->usage;
    t->result->money = t->agent->money;
}

static void *run(void *data)
{
    struct trial *t = data;
    struct error err = {0};
    const uint64_t one = 1;
    int r = agent_turn(t->agent, t->of->words, &err);
    if (r < 0)
        snprintf(t->result->why, sizeof t->result->why, "%.150s", err.text);
    measure(t);
    if (!t->agent->turn.interrupted)
        test(t);
    if (write(t->of->ended, &one, sizeof one) < 0) {
        /* The counter holds more than there are attempts. */
    }
    return NULL;
}

static int open_trial(struct agent *a, struct trial *t, struct error *err)
{
    struct workbox *box = NULL;
    int r = workbox_fork(a->box, NULL, &box, err);
    if (r == 0)
        r = agent_fork_with(a, box, history_turns(a->history),
                            &(struct agent_sink){.event = relay, .data = t}, &t->agent, err);
    if (r == 0 && a->aside.len)
        agent_mention(t->agent, (const char *)a->aside.data, a->aside.len);
    if (r == 0) /* one of them goes on with the watch of the agent that was forked */
        t->agent->watch = folder_watch_free(t->agent->watch);
    if (r == 0)
        t->agent->options.host.trial = true;
    if (r == 0)
        snprintf(t->result->session, sizeof t->result->session, "%s",
                 history_id(t->agent->history));
    return r;
}

/* Until all have ended; the person's wish to stop goes to each of them. */
static void wait_for_all(struct agent *a, struct attempts *s, unsigned running)
{
    bool told = false;
    while (running > 0) {
        uint64_t ended = 0;
        struct pollfd fds[] = {{.fd = s->ended, .events = POLLIN},
                               {.fd = told ? -1 : a->cancel, .events = POLLIN}};
        if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
            continue;
        if (fds[1].revents) {
            told = a->turn.interrupted = true;
            for (unsigned i = 0; i < s->n; i++)
                agent_interrupt(s->all[i].agent);
        }
        if (fds[0].revents && read(s->ended, &ended, sizeof ended) > 0)
            running -= (unsigned)ended;
    }
}

static void run_all(struct agent *a, struct attempts *s)
{
    unsigned running = 0;
    for (unsigned i = 0; i < s->n; i++) {
        struct trial *t = &s->all[i];
        t->started = pthread_create(&t->thread, NULL, run, t) == 0;
        running += t->started;
        if (!t->started)
            snprintf(t->result->why, sizeof t->result->why, "no thread could be started for it");
    }
    wait_for_all(a, s, running);
    for (unsigned i = 0; i < s->n; i++)
        if (s->all[i].started)
            pthread_join(s->all[i].thread, NULL);
}

/* The agent goes on with the conversation and the box of the winner. */
static void become(struct agent *a, struct agent *winner)
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

static void end_all(struct agent *a, struct attempts *s, int best)
{
    for (unsigned i = 0; i < s->n; i++) {
        if ((int)i == best)
            become(a, s->all[i].agent);
        agent_close(s->all[i].agent, false);
    }
}

int agent_attempts(struct agent *a, const char *words, const struct attempts_options *o,
                   const struct attempts_sink *sink, struct attempt *ret, int *ret_best,
                   struct error *err)
{
    struct attempts s = {.words = words,
                         .test = o->test,
                         .sink = sink,
                         .telling = PTHREAD_MUTEX_INITIALIZER,
                         .n = o->n,
                         .all = calloc(o->n + 1, sizeof *s.all)};
    _cleanup_fd_ int ended = s.ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = s.all && ended >= 0 ? agent_ready(a, err) : error_set(err, ENOMEM, "no memory");
    memset(ret, 0, o->n * sizeof *ret);
    if (r == 0)
        r = agent_learn_folder(a, err);
    a->turn = (struct turn){0};
    for (unsigned i = 0; r == 0 && i < s.n; i++) {
        s.all[i] = (struct trial){.of = &s, .number = i, .result = &ret[i]};
        r = open_trial(a, &s.all[i], err);
    }
    if (r == 0) {
        run_all(a, &s);
        *ret_best = a->turn.interrupted ? -1 : attempts_best(ret, s.n);
    }
    if (s.all)
        end_all(a, &s, r == 0 ? *ret_best : -1);
    free(s.all);
    return r;
}
