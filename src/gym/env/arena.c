/*
 * The template is a box that nobody plays in: it is opened, filled with the task's files, and a
 * snapshot of it is the origin of all others. Its processes then end; the snapshot keeps its files.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env_state.h"
#include "grade.h"
#include "net_policy.h"
#include "session.h"
#include "thread.h"
#include "banned.h"

#define CACHE_BYTES ((size_t)64 << 20)

static void drop_box(struct box **b)
{
    box_close(*b);
}

static void box_options_of(const struct task *t, struct box_options *o)
{
    box_options_default(o);
    o->hide_path = true; /* the path of a task's folder is no part of the task */
    o->workspace = t->root;
    o->image = t->image;
    o->mode = BOX_COW;
    o->net = &NET_OFF;
    o->limits = t->limits;
    for (; o->n_env < t->env.count && o->n_env < BOX_ENV_MAX; o->n_env++)
        o->env[o->n_env] = t->env.items[o->n_env];
    for (; o->n_links < t->n_links && o->n_links < BOX_LINKS_MAX; o->n_links++)
        o->links[o->n_links] = (struct box_link){t->links[o->n_links].at, t->links[o->n_links].to};
}

static int make_origin(struct gym_arena *a, int cancel, struct error *err)
{
    struct box_options o;
    _cleanup_(drop_box) struct box *template = NULL;
    box_options_of(a->task, &o);
    o.warm = a->task->tests.runner == TASK_PYTEST && !a->options.cold;
    int r = box_open(&o, &template, err);
    if (r == 0)
        r = grade_stage(template, cancel, &a->task->files, NULL, NULL, NULL, err);
    if (r == 0)
        r = arena_setup(a->task, template, cancel, err);
    if (r == 0)
        r = arena_check_runner(a->task, template, cancel, err);
    return r < 0 ? r : box_snapshot_until(template, cancel, &a->origin, err);
}

static size_t pool_size(const struct arena_options *o)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (o->pool)
        return o->pool;
    return processors > 2 ? (size_t)processors : 2;
}

static struct gym_arena *new_arena(const struct task *t, const struct arena_options *o)
{
    struct gym_arena *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->task = t;
    a->options = *o;
    a->warming = cancel_lock_open();
    pthread_mutex_init(&a->lock, NULL);
    if (!o->no_cache)
        a->cache = tool_cache_new(o->cache_bytes ? o->cache_bytes : CACHE_BYTES);
    return a->warming >= 0 && (a->cache || o->no_cache) ? a : arena_close(a);
}

static int prepare(struct gym_arena *a, int cancel, struct error *err)
{
    int r = make_origin(a, cancel, err);
    if (r == 0)
        r = pool_open_snapshot(a->origin, pool_size(&a->options), &a->pool, err);
    return r < 0 ? r : arena_find_expected(a, cancel, err);
}

int arena_open(const struct task *t, const struct arena_options *o, int cancel,
               struct gym_arena **ret, struct error *err)
{
    struct gym_arena *a = new_arena(t, o);
    if (!a)
        return error_errno(err, ENOMEM, "cannot prepare the task %s", t->name);
    int r = prepare(a, cancel, err);
    if (r < 0) {
        arena_close(a);
        int unwanted = cancel_check(cancel, err); /* whatever failed did so because of that */
        return unwanted < 0 ? unwanted : error_wrap(err, "cannot prepare the task %s", t->name);
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

int arena_take(struct gym_arena *a, struct box **ret, struct error *err)
{
    atomic_fetch_add(&a->boxes, 1);
    return pool_take(a->pool, ret, err);
}

void arena_give(struct gym_arena *a, struct box *b)
{
    if (b)
        pool_give(a->pool, b);
}

void arena_counts(struct gym_arena *a, struct arena_counts *ret)
{
    pthread_mutex_lock(&a->lock);
    bool warm = a->warm != NULL;
    pthread_mutex_unlock(&a->lock);
    *ret = (struct arena_counts){.resets = atomic_load(&a->resets),
                                 .steps = atomic_load(&a->steps),
                                 .test_runs = atomic_load(&a->test_runs),
                                 .cache_hits = atomic_load(&a->cache_hits),
                                 .boxes = atomic_load(&a->boxes),
                                 .warm = warm};
}

/* The script that a task is set up by: run once, in the box that all others are forked from. */

#define SETUP_NS (600 * NS_PER_S)

/* The last line that it said, for the message. */
static const char *last_line(struct box_result *r)
{
    struct buf *b = r->out.tail.len ? &r->out.tail : &r->out.head;
    while (b->len > 0 && b->data[b->len - 1] == '\n')
        b->len--;
    const char *text = buf_cstr(b), *newline = text ? strrchr(text, '\n') : NULL;
    return newline ? newline + 1 : text ? text : "";
}

int arena_setup(const struct task *t, struct box *template, int cancel, struct error *err)
{
    char shell[] = "/bin/bash", option[] = "-c";
    char *const argv[] = {shell, option, t->setup, NULL};
    struct box_command c = {.argv = argv,
                            .timeout_ns = SETUP_NS,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .capture = true,
                            .cancel = cancel};
    struct box_result result = {0};
    if (!t->setup)
        return 0;
    int r = box_exec(template, &c, &result, err);
    if (r == 0)
        r = cancel_check(cancel, err);
    if (r == 0 && result.limit)
        r = error_set(err, EIO, "its set-up script was stopped: %s", box_limit_name(result.limit));
    else if (r == 0 && result.exit_code != 0)
        r = error_set(err, EIO, "its set-up script failed: %.400s", last_line(&result));
    box_result_free(&result);
    return r;
}

/* Whether what runs a task's tests is there at all: without it every episode would be worth
 * nothing, and nobody would be told why. */

/* Looks for pytest without loading it, which takes ten times as long. */
#define LOOK                                                                                       \
    "import importlib.util, sys; s = importlib.util.find_spec('pytest'); sys.exit(not (s and "     \
    "s.origin))"

int arena_check_runner(const struct task *t, struct box *template, int cancel, struct error *err)
{
    if (t->tests.runner != TASK_PYTEST)
        return 0;
    const char *const argv[] = {"python3", "-s", "-B", "-c", LOOK, NULL};
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

/* The warm runner of an arena: started by whoever needs it first, while the others who need it
 * wait. */

static int start(struct gym_arena *a, int cancel, struct warm **ret, struct error *err)
{
    if (a->options.cold)
        return error_set(err, EOPNOTSUPP, "the warm runner is switched off");
    _cleanup_free_ char *setup = grade_setup(a->task);
    struct warm_options o = {
        .family = a->origin, .program = GRADE_PROGRAM, .setup = setup, .cancel = cancel};
    return setup ? warm_open(&o, ret, err)
                 : error_errno(err, ENOMEM, "cannot start the warm runner");
}

/* What is known by now: 1 if that is nothing. */
static int recall(struct gym_arena *a, struct warm **ret, struct error *err)
{
    pthread_mutex_lock(&a->lock);
    int r = a->warm_tried ? -a->no_warm.code : 1;
    if (r == 0)
        *ret = a->warm;
    else if (r < 0)
        *err = a->no_warm;
    pthread_mutex_unlock(&a->lock);
    return r;
}

/* A start that its caller gave up says nothing: the next one who needs it tries again. */
static int find_out(struct gym_arena *a, int cancel, struct warm **ret, struct error *err)
{
    struct warm *w = NULL;
    int r = start(a, cancel, &w, err);
    if (r == -ECANCELED)
        return r;
    pthread_mutex_lock(&a->lock);
    a->warm_tried = true;
    a->warm = w;
    if (r < 0)
        a->no_warm = *err;
    pthread_mutex_unlock(&a->lock);
    if (r == 0)
        *ret = w;
    return r;
}

int arena_warm(struct gym_arena *a, int cancel, struct warm **ret, struct error *err)
{
    int r = recall(a, ret, err);
    if (r <= 0)
        return r;
    r = cancel_lock_take(a->warming, cancel);
    if (r < 0)
        return error_errno(err, -r, "cannot wait for the warm runner");
    r = recall(a, ret, err);
    if (r > 0)
        r = find_out(a, cancel, ret, err);
    cancel_lock_give(a->warming);
    return r;
}

/*
 * The tests that count. A task may list them; else they are those that pass once its solution is
 * there, which is found out here, in a box of its own and by the same grading as any other.
 */

static int apply_patch(struct tool_session *s, const struct task_patch *p, int cancel,
                       struct error *err)
{
    struct tool_result result;
    json_t *input = json_pack("{s:s}", "diff", p->diff);
    if (!input)
        return error_errno(err, ENOMEM, "cannot apply the solution");
    struct tool_request q = {.tool = &TOOL_APPLY_DIFF, .input = input, .cancel = cancel};
    int r = tool_call(s, &q, &result);
    if (r < 0 || result.failed)
        r = error_set(err, EINVAL, "the patch '%s' of the solution does not apply: %.300s", p->name,
                      buf_cstr(&result.text) ? (char *)result.text.data : "");
    tool_result_free(&result);
    json_decref(input);
    return r;
}

static int apply_patches(const struct task *t, struct tool_session *s, int cancel,
                         struct error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < t->solution.count; i++) {
        const struct task_patch *p = task_patch_find(t, t->solution.items[i]);
        r = p ? apply_patch(s, p, cancel, err)
              : error_set(err, EINVAL, "the solution names a patch that is not there: %s",
                          t->solution.items[i]);
    }
    return r;
}

static int run_script(const char *script, struct box *b, int cancel, struct error *err)
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

static int solve(const struct task *t, struct box *b, int cancel, struct error *err)
{
    struct tool_session *s = NULL;
    int r = tool_session_new(b, NULL, &s, err);
    if (r == 0)
        r = apply_patches(t, s, cancel, err);
    if (r == 0 && t->solution_script)
        r = run_script(t->solution_script, b, cancel, err);
    tool_session_free(s);
    return r;
}

/* What a script may have left running is not in the fork. */
static int fork_solved(struct gym_arena *a, int cancel, struct box **ret, struct error *err)
{
    struct box *b = NULL;
    struct snapshot *s = NULL;
    int r = arena_take(a, &b, err);
    if (r == 0)
        r = solve(a->task, b, cancel, err);
    if (r == 0)
        r = box_snapshot_until(b, cancel, &s, err);
    if (r == 0)
        r = box_fork(s, ret, err);
    snapshot_free(s);
    arena_give(a, b);
    return r;
}

static int take_passed(struct gym_arena *a, const struct grade *g, struct error *err)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->tests[i].outcome == GRADE_PASSED &&
            task_list_add(&a->expected, g->tests[i].name) < 0)
            return error_errno(err, ENOMEM, "cannot list the tests that count");
    if (a->expected.count)
        return 0;
    return error_set(err, EINVAL, "no test passes with the task's solution: %s",
                     g->trouble ? g->trouble : "the run reported no test");
}

static int learn(struct gym_arena *a, int cancel, struct error *err)
{
    _cleanup_grade_ struct grade g = {0};
    struct box *b = NULL;
    if (a->task->solution.count == 0 && !a->task->solution_script)
        return error_set(
            err, EINVAL,
            "it neither lists the tests that count nor has a solution to learn them from");
    int r = fork_solved(a, cancel, &b, err);
    if (r == 0)
        r = grade_box(a, b, cancel, &g, err);
    arena_give(a, b);
    return r < 0 ? r : take_passed(a, &g, err);
}

int arena_find_expected(struct gym_arena *a, int cancel, struct error *err)
{
    const struct task_list *given = &a->task->tests.expected;
    for (size_t i = 0; i < given->count; i++)
        if (task_list_add(&a->expected, given->items[i]) < 0)
            return error_errno(err, ENOMEM, "cannot list the tests that count");
    if (given->count || a->task->tests.verdict == VERDICT_REWARD)
        return 0;
    if (a->task->tests.verdict == VERDICT_EXIT)
        return task_list_add(&a->expected, "command") < 0
                   ? error_errno(err, ENOMEM, "cannot list the tests that count")
                   : 0;
    return learn(a, cancel, err);
}
