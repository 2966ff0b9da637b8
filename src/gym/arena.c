/*
 * The template is a box that nobody plays in: it is opened, filled with the task's files, and a
 * snapshot of it is the origin of all others. Its processes then end; the snapshot keeps its files.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena_private.h"
#include "thread.h"
#include "grade.h"
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
    o->net = BOX_NET_OFF;
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
