/*
 * The life of an arena. Its template is a box in which no episode is played: it is opened, gets the
 * task's files and runs the task's set-up script; a snapshot of it is the origin of all other
 * boxes. Its processes then end; the snapshot keeps its files.
 *
 * A task may list the tests that count. If it does not, they are those that pass with its solution:
 * the solution is applied in a box and graded like any other state.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena.h"
#include "thread.h"
#include "grade.h"
#include "net_policy.h"
#include "session.h"
#include "tool.h"
#include "banned.h"

#define CACHE_BYTES      ((size_t)64 << 20)
#define SETUP_TIMEOUT_NS (600 * NS_PER_S)

/* Finds pytest without importing it, which takes ten times as long. */
#define FIND_PYTEST                                                                                \
    "import importlib.util, sys; s = importlib.util.find_spec('pytest'); sys.exit(not (s and "     \
    "s.origin))"

struct gym_arena {
    const struct task *task;
    struct arena_options options;
    struct snapshot *origin; /* what every reset starts from */
    struct pool *pool;       /* of boxes forked from it */
    struct task_list expected;
    struct tool_cache *cache; /* NULL: off */
    int warming;              /* cancel_lock: held by the thread that starts the warm runner */
    pthread_mutex_t lock;     /* of the next three */
    bool warm_tried;
    struct warm *warm;
    struct error no_warm; /* why there is none */
    atomic_uint_fast64_t counts[ARENA_EVENTS];
};

const struct task *arena_task(const struct gym_arena *a)
{
    return a->task;
}

enum gym_clock arena_clock(const struct gym_arena *a)
{
    return a->options.clock;
}

const struct task_list *arena_expected(const struct gym_arena *a)
{
    return &a->expected;
}

struct tool_cache *arena_cache(const struct gym_arena *a)
{
    return a->cache;
}

void arena_count(struct gym_arena *a, enum arena_event event)
{
    atomic_fetch_add(&a->counts[event], 1);
}

void arena_counts(struct gym_arena *a, struct arena_counts *ret)
{
    LOCKED(&a->lock);
    *ret = (struct arena_counts){.resets = atomic_load(&a->counts[ARENA_RESET]),
                                 .steps = atomic_load(&a->counts[ARENA_STEP]),
                                 .test_runs = atomic_load(&a->counts[ARENA_TEST_RUN]),
                                 .cache_hits = atomic_load(&a->counts[ARENA_CACHE_HIT]),
                                 .boxes = atomic_load(&a->counts[ARENA_BOX]),
                                 .warm = a->warm != NULL};
}

int arena_take(struct gym_arena *a, struct box **ret, struct error *err)
{
    arena_count(a, ARENA_BOX);
    return pool_take(a->pool, ret, err);
}

void arena_give(struct gym_arena *a, struct box *b)
{
    if (b)
        pool_give(a->pool, b);
}

/* The warm runner, if it is known whether there is one: 0, or the error of its start; else 1. */
static int warm_recall(struct gym_arena *a, struct warm **ret, struct error *err)
{
    LOCKED(&a->lock);
    if (!a->warm_tried)
        return 1;
    *ret = a->warm;
    if (!a->warm)
        *err = a->no_warm;
    return -a->no_warm.code;
}

/* The warm runner, started by the first thread that needs it while the others wait. A start that
 * its caller cancelled proves nothing: the next thread that needs it tries again. */
static int arena_warm(struct gym_arena *a, int cancel, struct warm **ret, struct error *err)
{
    int r = warm_recall(a, ret, err);
    if (r <= 0)
        return r;
    r = cancel_lock_take(a->warming, cancel);
    if (r < 0)
        return error_errno(err, -r, "cannot wait for the warm runner");
    r = warm_recall(a, ret, err);
    if (r > 0) {
        _cleanup_free_ char *setup = grade_setup(a->task);
        struct warm_options o = {
            .family = a->origin, .program = GRADE_PROGRAM, .setup = setup, .cancel = cancel};
        struct warm *w = NULL;
        if (a->options.cold)
            r = error_set(err, EOPNOTSUPP, "the warm runner is switched off");
        else
            r = setup ? warm_open(&o, &w, err)
                      : error_errno(err, ENOMEM, "cannot start the warm runner");
        if (r != -ECANCELED) {
            LOCKED(&a->lock);
            a->warm_tried = true;
            *ret = a->warm = w;
            if (r < 0)
                a->no_warm = *err;
        }
    }
    cancel_lock_give(a->warming);
    return r;
}

int arena_grade(struct gym_arena *a, struct box *b, bool as_is, int cancel, struct grade *ret,
                struct error *err)
{
    struct error why = {0};
    struct grade_options o = {
        .task = a->task, .expected = &a->expected, .as_is = as_is, .cancel = cancel};
    if (a->task->tests.runner == TASK_PYTEST && arena_warm(a, cancel, &o.warm, &why) == -ECANCELED)
        return error_set(err, ECANCELED, "%s", why.text);
    return grade_box(&o, b, ret, err);
}

/* Runs the task's set-up script in the template. */
static int template_setup(const struct task *t, struct box *template, int cancel, struct error *err)
{
    char shell[] = "/bin/bash", option[] = "-c";
    char *const argv[] = {shell, option, t->setup, NULL};
    struct box_command c = {.argv = argv,
                            .timeout_ns = SETUP_TIMEOUT_NS,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .capture = true,
                            .cancel = cancel};
    struct box_result result = {0};
    int r = box_exec(template, &c, &result, err);
    if (r == 0)
        r = cancel_check(cancel, err);
    if (r == 0 && result.limit)
        r = error_set(err, EIO, "its set-up script was stopped: %s", box_limit_name(result.limit));
    else if (r == 0 && result.exit_code != 0) {
        struct buf *b = result.out.tail.len ? &result.out.tail : &result.out.head;
        while (b->len > 0 && b->data[b->len - 1] == '\n')
            b->len--;
        const char *text = buf_cstr(b), *newline = text ? strrchr(text, '\n') : NULL;
        r = error_set(err, EIO, "its set-up script failed: %.400s",
                      newline ? newline + 1
                      : text  ? text
                              : "");
    }
    box_result_free(&result);
    return r;
}

/* Fails early if python3 or pytest is missing: every episode would have the reward 0 without a
 * reason. */
static int template_check_pytest(const struct task *t, struct box *template, int cancel,
                                 struct error *err)
{
    const char *const argv[] = {"python3", "-s", "-B", "-c", FIND_PYTEST, NULL};
    struct box_command c = {.argv = (char *const *)argv,
                            .env = (char *const *)GRADE_PYTHON_ENV,
                            .timeout_ns = 60 * NS_PER_S,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .cancel = cancel};
    struct box_result result = {0};
    int r = box_exec(template, &c, &result, err);
    if (r == 0)
        r = cancel_check(cancel, err);
    const char *where = t->image ? "in its image" : "on this host";
    if (r == 0 && result.failure[0])
        r = error_set(err, ENOENT, "its tests need python3, which cannot be started %s: %s", where,
                      result.failure);
    else if (r == 0 && result.exit_code == 1)
        r = error_set(err, ENOENT,
                      "its tests are run by pytest, which python3 does not have %s; Debian's "
                      "package is python3-pytest",
                      where);
    box_result_free(&result);
    return r;
}

static int arena_make_origin(struct gym_arena *a, int cancel, struct error *err)
{
    const struct task *t = a->task;
    bool pytest = t->tests.runner == TASK_PYTEST;
    struct box_options o;
    struct box *template = NULL;
    box_options_default(&o);
    o.hide_path = true; /* the path of a task's folder is not part of the task */
    o.workspace = t->root;
    o.image = t->image;
    o.mode = BOX_COW;
    o.net = &NET_OFF;
    o.limits = t->limits;
    o.warm = pytest && !a->options.cold;
    for (; o.n_env < t->env.count && o.n_env < BOX_ENV_MAX; o.n_env++)
        o.env[o.n_env] = t->env.items[o.n_env];
    for (; o.n_links < t->n_links && o.n_links < BOX_LINKS_MAX; o.n_links++)
        o.links[o.n_links] = (struct box_link){t->links[o.n_links].at, t->links[o.n_links].to};

    int r = box_open(&o, &template, err);
    if (r == 0)
        r = grade_stage(template, cancel, &t->files, NULL, NULL, NULL, err);
    if (r == 0 && t->setup)
        r = template_setup(t, template, cancel, err);
    if (r == 0 && pytest)
        r = template_check_pytest(t, template, cancel, err);
    if (r == 0)
        r = box_snapshot_until(template, cancel, &a->origin, err);
    box_close(template);
    return r;
}

static int solution_apply_patches(const struct task *t, struct box *b, int cancel,
                                  struct error *err)
{
    struct tool_session *s = NULL;
    int r = tool_session_new(b, &s, err);
    for (size_t i = 0; r == 0 && i < t->solution.count; i++) {
        struct tool_result result;
        const struct task_patch *p = task_patch_find(t, t->solution.items[i]);
        json_t *input = p ? json_pack("{s:s}", "diff", p->diff) : NULL;
        struct tool_request q = {.tool = &TOOL_APPLY_DIFF, .input = input, .cancel = cancel};
        if (!p) {
            r = error_set(err, EINVAL, "the solution names a patch that does not exist: %s",
                          t->solution.items[i]);
            break;
        }
        if (!input) {
            r = error_errno(err, ENOMEM, "cannot apply the solution");
            break;
        }
        r = tool_call(s, &q, &result);
        if (r < 0 || result.failed)
            r = error_set(err, EINVAL, "the patch '%s' of the solution does not apply: %.300s",
                          p->name, buf_cstr(&result.text) ? (char *)result.text.data : "");
        tool_result_free(&result);
        json_decref(input);
    }
    tool_session_free(s);
    return r;
}

static int solution_run_script(const char *script, struct box *b, int cancel, struct error *err)
{
    char shell[] = "/bin/sh", option[] = "-c";
    char *const argv[] = {shell, option, (char *)script, NULL};
    struct box_command c = {
        .argv = argv, .in = -1, .out = -1, .err = -1, .capture = true, .cancel = cancel};
    struct box_result result = {0};
    int r = box_exec(b, &c, &result, err);
    if (r == 0 && result.exit_code != 0)
        r = error_set(err, EINVAL, "the solution's script failed with exit code %d",
                      result.exit_code);
    box_result_free(&result);
    return r;
}

/* The tests that pass with the solution. They run in a fork of its box: processes that the
 * solution's script left behind are not there. */
static int expected_from_solution(struct gym_arena *a, int cancel, struct error *err)
{
    const struct task *t = a->task;
    _cleanup_grade_ struct grade g = {0};
    struct box *solved = NULL, *b = NULL;
    struct snapshot *s = NULL;
    if (t->solution.count == 0 && !t->solution_script)
        return error_set(err, EINVAL,
                         "it lists neither the tests that count nor a solution to find them with");
    int r = arena_take(a, &solved, err);
    if (r == 0)
        r = solution_apply_patches(t, solved, cancel, err);
    if (r == 0 && t->solution_script)
        r = solution_run_script(t->solution_script, solved, cancel, err);
    if (r == 0)
        r = box_snapshot_until(solved, cancel, &s, err);
    if (r == 0)
        r = box_fork(s, &b, err);
    if (r == 0)
        r = arena_grade(a, b, false, cancel, &g, err);
    snapshot_free(s);
    arena_give(a, solved);
    arena_give(a, b);
    for (size_t i = 0; r == 0 && i < g.count; i++)
        if (g.tests[i].outcome == GRADE_PASSED && task_list_add(&a->expected, g.tests[i].name) < 0)
            r = error_errno(err, ENOMEM, "cannot list the tests that count");
    if (r == 0 && a->expected.count == 0)
        r = error_set(err, EINVAL, "no test passes with the task's solution: %s",
                      g.trouble ? g.trouble : "the run reported no test");
    return r;
}

static int arena_find_expected(struct gym_arena *a, int cancel, struct error *err)
{
    const struct task_tests *tests = &a->task->tests;
    int r = 0;
    for (size_t i = 0; r == 0 && i < tests->expected.count; i++)
        r = task_list_add(&a->expected, tests->expected.items[i]);
    if (tests->expected.count == 0 && tests->verdict == VERDICT_EXIT)
        r = task_list_add(&a->expected, "command");
    if (r < 0)
        return error_errno(err, ENOMEM, "cannot list the tests that count");
    return a->expected.count || tests->verdict == VERDICT_REWARD
               ? 0
               : expected_from_solution(a, cancel, err);
}

int arena_open(const struct task *t, const struct arena_options *o, int cancel,
               struct gym_arena **ret, struct error *err)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t pool = o->pool ? o->pool : processors > 2 ? (size_t)processors : 2;
    struct gym_arena *a = calloc(1, sizeof *a);
    if (!a)
        return error_errno(err, ENOMEM, "cannot prepare the task %s", t->name);
    a->task = t;
    a->options = *o;
    a->warming = cancel_lock_open();
    pthread_mutex_init(&a->lock, NULL);
    if (!o->no_cache)
        a->cache = tool_cache_new(o->cache_bytes ? o->cache_bytes : CACHE_BYTES);
    int r = a->warming < 0 || (!a->cache && !o->no_cache)
                ? error_errno(err, ENOMEM, "no cache or lock")
                : arena_make_origin(a, cancel, err);
    if (r == 0)
        r = pool_open_snapshot(a->origin, pool, &a->pool, err);
    if (r == 0)
        r = arena_find_expected(a, cancel, err);
    if (r < 0) {
        arena_close(a);
        int cancelled = cancel_check(cancel, err); /* the cause of any other error */
        return cancelled < 0 ? cancelled : error_wrap(err, "cannot prepare the task %s", t->name);
    }
    *ret = a;
    return 0;
}

struct gym_arena *arena_close(struct gym_arena *a)
{
    if (!a)
        return NULL;
    pool_close(a->pool);
    warm_close(a->warm);
    cleanup_close(&a->warming);
    snapshot_free(a->origin);
    tool_cache_free(a->cache);
    task_list_free(&a->expected);
    pthread_mutex_destroy(&a->lock);
    free(a);
    return NULL;
}
