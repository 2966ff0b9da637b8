/* The environments of a live job: made, found, held, ended. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gym_envs.h"
#include "thread.h"
#include "banned.h"

static size_t entry_place(const struct gym_job *g, uint64_t number)
{
    size_t low = 0, high = g->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (g->entries[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void gym_env_name(const struct gym_job *g, const struct gym_entry *e, char name[80])
{
    if (e->number == 0)
        snprintf(name, 80, "%s", GYM_SHARED_ENV);
    else
        snprintf(name, 80, "%s%" PRIu64, g->prefix, e->number);
}

/* The number in an ID; false: it is no ID of this attempt. */
static bool entry_number(const struct gym_job *g, const char *id, uint64_t *ret)
{
    size_t n = strlen(g->prefix);
    *ret = 0;
    if (strcmp(id, GYM_SHARED_ENV) == 0)
        return true;
    const char *digits = id + n;
    if (strncmp(id, g->prefix, n) != 0 || *digits < '1' || *digits > '9' || strlen(digits) > 18 ||
        digits[strspn(digits, "0123456789")])
        return false;
    *ret = strtoull(digits, NULL, 10);
    return true;
}

/* Takes over an environment, which the caller then holds. `shared`: as GYM_SHARED_ENV. */
int gym_env_add(struct gym_job *g, bool shared, struct gym_env *env, struct gym_entry **ret,
                struct error *err)
{
    _cleanup_free_ struct gym_entry *e = calloc(1, sizeof *e);
    LOCKED(&g->lock);
    if (g->count >= VECTOR_MAX)
        return error_set(err, EDQUOT,
                         "there are %d environments of the task %s already; close some", VECTOR_MAX,
                         g->task->name);
    if (!e || !list_grow(&g->entries, g->count, sizeof(struct gym_entry *)))
        return error_errno(err, ENOMEM, "cannot make an environment");
    *e = (struct gym_entry){.number = shared ? 0 : ++g->last, .env = env, .busy = true};
    size_t at = entry_place(g, e->number);
    if (at < g->count && g->entries[at]->number == e->number)
        return error_set(err, EBUSY, "environment " GYM_SHARED_ENV " is busy with another request");
    memmove(g->entries + at + 1, g->entries + at, (g->count - at) * sizeof *g->entries);
    g->count++;
    *ret = g->entries[at] = TAKE_PTR(e);
    return 0;
}

int gym_env_new(struct gym_job *g, bool shared, struct gym_entry **ret, struct error *err)
{
    struct gym_env *env = NULL;
    int r = env_open(g->arena, &env, err);
    if (r == 0)
        r = gym_env_add(g, shared, env, ret, err);
    if (r < 0)
        env_close(env);
    return r;
}

/* With the lock held: the environment with that ID; NULL with the reason. */
static struct gym_entry *entry_find(const struct gym_job *g, const char *id, struct error *err)
{
    uint64_t number;
    size_t at = entry_number(g, id, &number) ? entry_place(g, number) : g->count;
    if (at < g->count && g->entries[at]->number == number && !g->entries[at]->closing)
        return g->entries[at];
    error_set(
        err, ENOENT,
        "there is no environment %.80s of the task %s (any more): it was closed, or its worker "
        "was lost; reset without env begins a new one",
        id, g->task->name);
    return NULL;
}

/* Holds the environment with that ID: -ENOENT, -EBUSY. */
int gym_env_hold(struct gym_job *g, const char *id, struct gym_entry **ret, struct error *err)
{
    LOCKED(&g->lock);
    struct gym_entry *e = entry_find(g, id, err);
    if (!e)
        return -ENOENT;
    if (e->busy)
        return error_set(err, EBUSY, "environment %.80s is busy with another request", id);
    e->busy = true;
    *ret = e;
    return 0;
}

void gym_env_release(struct gym_job *g, struct gym_entry *e)
{
    env_cancel_on(e->env, -1);
    {
        LOCKED(&g->lock);
        e->busy = false;
        if (!e->closing)
            return;
        size_t at = entry_place(g, e->number);
        memmove(g->entries + at, g->entries + at + 1, (--g->count - at) * sizeof *g->entries);
    }
    env_close(e->env);
    free(e);
}

/* Ends an environment once no call holds it. */
int gym_env_close(struct gym_job *g, const char *id, struct error *err)
{
    struct gym_entry *e;
    {
        LOCKED(&g->lock);
        e = entry_find(g, id, err);
        if (!e)
            return -ENOENT;
        e->closing = true;
        if (e->busy)
            return 0;
        e->busy = true;
    }
    gym_env_release(g, e);
    return 0;
}

json_t *gym_env_features(const struct gym_entry *e)
{
    int64_t values[TASK_PATCHES_MAX + TASK_READS_MAX + 1];
    const struct task *t = env_task(e->env);
    size_t n = t->n_patches ? env_features(e->env, values, ARRAY_SIZE(values)) : 0;
    if (n == 0)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < n && i < ARRAY_SIZE(values); i++)
        json_array_append_new(list, json_integer(values[i]));
    return list;
}

json_t *gym_env_state(const struct gym_job *g, const struct gym_entry *e)
{
    struct gym_episode sums;
    char name[80];
    gym_env_name(g, e, name);
    env_episode(e->env, &sums);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:f, s:o, s:f, s:b, s:o*}", "env", name,
                     "task", g->task->name, "episode_id", e->episode, "clock",
                     env_clock(e->env) == CLOCK_VIRTUAL ? "virtual" : "wall", "seed",
                     (json_int_t)sums.seed, "calls", (int)sums.calls, "seconds", sums.seconds,
                     "pass_rate", isnan(sums.pass_rate) ? json_null() : json_real(sums.pass_rate),
                     "return", sums.total, "over", sums.over, "features", gym_env_features(e));
}
