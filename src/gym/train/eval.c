/*
 * Tasks are evaluated in parallel, one thread each; the agents of a task one after the other, so
 * that they share its arena and cache.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval.h"
#include "policy.h"
#include "thread.h"
#include "train.h"
#include "banned.h"

#define BOOTSTRAP_SEED  1
#define BOOTSTRAP_DRAWS 2000

enum { RETURN, PASS_RATE, SOLVED, CALLS, MEASURES };

/* The measurements of one row, a number per episode that was played. */
struct sample {
    double *values[MEASURES];
    size_t n;
};

struct evaluation {
    const struct eval_options *options;
    struct eval_row *rows;
    struct sample *samples; /* for each row of a task and an agent */
    pthread_mutex_t lock;
    size_t next; /* the first task that no thread has taken */
    int code;    /* the first error, which ends it */
    struct error error;
    size_t unprepared; /* tasks that could not be prepared, */
    struct error why;  /* and why the last of them could not */
};

size_t eval_rows(const struct eval_options *o)
{
    return o->n_tasks * o->n_agents + (o->n_tasks > 1 ? o->n_agents : 0);
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The bootstrap: means of values drawn with replacement; the interval is that of the middle 95 % of
 * them. It assumes nothing about the distribution. */
struct eval_stat eval_stat_of(const double *values, size_t n, uint64_t seed)
{
    struct dice dice;
    double means[BOOTSTRAP_DRAWS], total = 0;
    if (n == 0)
        return (struct eval_stat){.mean = NAN, .low = NAN, .high = NAN};
    dice_seed(&dice, seed);
    for (size_t i = 0; i < BOOTSTRAP_DRAWS; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += values[dice_below(&dice, n)];
        means[i] = sum / (double)n;
    }
    qsort(means, BOOTSTRAP_DRAWS, sizeof *means, double_compare);
    for (size_t i = 0; i < n; i++)
        total += values[i];
    return (struct eval_stat){.mean = total / (double)n,
                              .low = means[BOOTSTRAP_DRAWS * 25 / 1000],
                              .high = means[BOOTSTRAP_DRAWS - 1 - BOOTSTRAP_DRAWS * 25 / 1000],
                              .n = n};
}

static int sample_init(struct sample *s, size_t room, struct error *err)
{
    for (size_t i = 0; i < MEASURES; i++) {
        s->values[i] = calloc(room + 1, sizeof(double));
        if (!s->values[i])
            return error_set(err, ENOMEM, "no memory for the evaluation");
    }
    return 0;
}

static void sample_free(struct sample *s)
{
    for (size_t i = 0; i < MEASURES; i++)
        free(s->values[i]);
}

static void row_set_stats(struct eval_row *row, const struct sample *s)
{
    struct eval_stat *const stats[MEASURES] = {[RETURN] = &row->ret,
                                               [PASS_RATE] = &row->pass_rate,
                                               [SOLVED] = &row->solved,
                                               [CALLS] = &row->calls};
    for (size_t i = 0; i < MEASURES; i++)
        *stats[i] = eval_stat_of(s->values[i], s->n, BOOTSTRAP_SEED);
}

/* Opens an agent, and trains one that learns unless it has a checkpoint. */
static int agent_open(struct evaluation *v, struct gym_env *e, const struct policy_kind *k,
                      uint64_t seed, struct policy **ret, uint64_t *ret_played, struct error *err)
{
    const struct eval_options *o = v->options;
    struct policy_options with = o->policy;
    struct policy *p = NULL;
    struct train_result trained = {0};
    with.seed = seed;
    pthread_mutex_lock(&v->lock); /* settings are for one thread at a time */
    int r = policy_open(k, env_task(e), &with, &p, err);
    pthread_mutex_unlock(&v->lock);
    if (r == 0 && k->learns && !with.checkpoint) {
        struct train_options t = {.episodes = o->episodes, .seed = seed, .no_search = true};
        r = train(e, p, &t, NULL, &trained, err);
        *ret_played += trained.played;
        if (r == 0 && trained.cancelled)
            r = error_set(err, ECANCELED, "interrupted");
        train_result_free(&trained);
    }
    if (r < 0)
        policy_free(p);
    else
        *ret = p;
    return r;
}

/* An episode with each seed. One that fails is counted, and the next one is played. */
static int agent_play(struct evaluation *v, struct gym_env *e, const struct policy_kind *k,
                      struct sample *s, struct eval_row *row, struct error *err)
{
    struct policy *p = NULL;
    bool retrain = k->learns && !v->options->policy.checkpoint;
    int r = 0;
    for (uint64_t seed = 1; r == 0 && seed <= v->options->seeds; seed++) {
        struct gym_episode episode;
        struct error why = {0};
        if (retrain)
            p = policy_free(p);
        if (!p)
            r = agent_open(v, e, k, seed, &p, &row->played, err);
        if (r < 0)
            break;
        int played = policy_play(p, e, seed, false, NULL, NULL, &episode, &why);
        r = cancel_check(v->options->cancel, err);
        if (r == 0 && played < 0) {
            row->failed++;
            snprintf(row->why, sizeof row->why, "%.*s", (int)sizeof row->why - 1, why.text);
        } else if (r == 0) {
            double rate = isnan(episode.pass_rate) ? 0 : episode.pass_rate;
            s->values[RETURN][s->n] = episode.total;
            s->values[PASS_RATE][s->n] = rate;
            s->values[SOLVED][s->n] = rate >= 1;
            s->values[CALLS][s->n++] = episode.calls;
        }
    }
    policy_free(p);
    return r;
}

static int eval_agent(struct evaluation *v, struct gym_env *e, const struct policy_kind *k,
                      struct sample *s, struct eval_row *row, struct error *err)
{
    const struct task *t = env_task(e);
    int r = 0;
    if (k->discrete && task_actions(t) == 0)
        snprintf(row->why, sizeof row->why, "the task has no patches to choose from");
    else
        r = sample_init(s, v->options->seeds, err);
    if (r == 0 && !row->why[0])
        r = agent_play(v, e, k, s, row, err);
    if (r < 0)
        return r;
    row_set_stats(row, s);
    LOCKED(&v->lock);
    if (v->options->done)
        v->options->done(v->options->data, row);
    return 0;
}

/* A task that cannot be prepared fails its own rows, not the whole evaluation. */
static void eval_fail_task(struct evaluation *v, size_t number, const struct error *why)
{
    const struct eval_options *o = v->options;
    LOCKED(&v->lock);
    v->unprepared++;
    v->why = *why;
    for (size_t i = 0; i < o->n_agents; i++) {
        struct eval_row *row = &v->rows[number * o->n_agents + i];
        row->failed = o->seeds;
        snprintf(row->why, sizeof row->why, "%.*s", (int)sizeof row->why - 1, why->text);
        if (o->done)
            o->done(o->data, row);
    }
}

static int eval_task(struct evaluation *v, size_t number, struct error *err)
{
    const struct eval_options *o = v->options;
    size_t first = number * o->n_agents;
    struct gym_arena *arena = NULL;
    struct gym_env *env = NULL;
    for (size_t i = 0; i < o->n_agents; i++) {
        v->rows[first + i] = (struct eval_row){.agent = o->agents[i]->name};
        memcpy(v->rows[first + i].task, o->tasks[number]->name, TASK_NAME_MAX);
    }
    int r = arena_open(o->tasks[number], &o->arena, o->cancel, &arena, err);
    if (r < 0 && r != -ENOMEM && r != -ECANCELED) {
        eval_fail_task(v, number, err);
        return 0;
    }
    if (r == 0)
        r = env_open(arena, &env, err);
    if (r == 0)
        env_cancel_on(env, o->cancel);
    for (size_t i = 0; r == 0 && i < o->n_agents; i++)
        r = eval_agent(v, env, o->agents[i], &v->samples[first + i], &v->rows[first + i], err);
    env_close(env);
    arena_close(arena);
    return r;
}

static void *eval_thread(void *data)
{
    struct evaluation *v = data;
    for (;;) {
        struct error err = {0};
        pthread_mutex_lock(&v->lock);
        size_t mine = v->code < 0 ? v->options->n_tasks : v->next++;
        pthread_mutex_unlock(&v->lock);
        if (mine >= v->options->n_tasks)
            return NULL;
        int r = eval_task(v, mine, &err);
        LOCKED(&v->lock);
        if (r < 0 && v->code == 0) {
            v->code = r;
            v->error = err;
        }
    }
}

/* Runs on as many threads as there are jobs; this thread is one of them. */
static void eval_run_threads(struct evaluation *v)
{
    cpu_set_t set;
    size_t n = v->options->jobs, started = 0;
    if (n == 0)
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
    n = n < v->options->n_tasks ? n : v->options->n_tasks;
    pthread_t *threads = calloc(n + 1, sizeof *threads);
    while (threads && started + 1 < n &&
           pthread_create(&threads[started], NULL, eval_thread, v) == 0)
        started++;
    eval_thread(v);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

/* The row of one agent over all tasks. */
static int eval_sum_agent(struct evaluation *v, size_t agent, struct error *err)
{
    const struct eval_options *o = v->options;
    struct eval_row *row = &v->rows[o->n_tasks * o->n_agents + agent];
    struct sample all = {0};
    *row = (struct eval_row){.task = "all", .agent = o->agents[agent]->name};
    int r = sample_init(&all, o->n_tasks * o->seeds, err);
    for (size_t t = 0; r == 0 && t < o->n_tasks; t++) {
        const struct sample *s = &v->samples[t * o->n_agents + agent];
        for (size_t i = 0; i < MEASURES && s->n; i++)
            memcpy(all.values[i] + all.n, s->values[i], s->n * sizeof(double));
        all.n += s->n;
        row->failed += v->rows[t * o->n_agents + agent].failed;
        row->played += v->rows[t * o->n_agents + agent].played;
    }
    if (r == 0)
        row_set_stats(row, &all);
    sample_free(&all);
    return r;
}

int eval(const struct eval_options *o, struct eval_row *ret, struct error *err)
{
    size_t n = o->n_tasks * o->n_agents;
    struct evaluation v = {.options = o,
                           .rows = ret,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .samples = calloc(n + 1, sizeof *v.samples)};
    if (!v.samples)
        return error_set(err, ENOMEM, "no memory for the evaluation");
    eval_run_threads(&v);
    if (v.code == 0 && v.unprepared == o->n_tasks) {
        v.code = -v.why.code;
        v.error = v.why;
    }
    if (v.code < 0 && err)
        *err = v.error;
    for (size_t i = 0; v.code == 0 && o->n_tasks > 1 && i < o->n_agents; i++)
        v.code = eval_sum_agent(&v, i, err);
    for (size_t i = 0; i < n; i++)
        sample_free(&v.samples[i]);
    free(v.samples);
    return v.code;
}
