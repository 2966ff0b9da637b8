/*
 * Tasks are evaluated side by side, one thread each; the agents of a task one after the other, so
 * that they share what its arena finds out.
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

#define BOOTSTRAP_SEED 1

enum { RETURN, PASS_RATE, SOLVED, CALLS, MEASURES };

/* What was measured for one row, a number per episode that was played. */
struct sample {
    double *values[MEASURES];
    size_t n;
};

struct evaluation {
    const struct eval_options *options;
    struct eval_row *rows;
    struct sample *samples; /* for each row of a task and an agent */
    pthread_mutex_t lock;
    size_t next; /* task that nobody has taken yet */
    int code;    /* the first error, which ends it */
    struct error error;
    size_t unprepared; /* tasks that could not be made ready, */
    struct error why;  /* and why the last of them could not */
};

size_t eval_rows(const struct eval_options *o)
{
    return o->n_tasks * o->n_agents + (o->n_tasks > 1 ? o->n_agents : 0);
}

static int no_memory(struct error *err)
{
    return error_set(err, ENOMEM, "no memory for the evaluation");
}

static int sample_init(struct sample *s, size_t room)
{
    for (size_t i = 0; i < MEASURES; i++) {
        s->values[i] = calloc(room + 1, sizeof(double));
        if (!s->values[i])
            return -ENOMEM;
    }
    return 0;
}

static void sample_free(struct sample *s)
{
    for (size_t i = 0; i < MEASURES; i++)
        free(s->values[i]);
}

static void sample_add(struct sample *s, const struct gym_episode *e)
{
    double rate = isnan(e->pass_rate) ? 0 : e->pass_rate;
    s->values[RETURN][s->n] = e->total;
    s->values[PASS_RATE][s->n] = rate;
    s->values[SOLVED][s->n] = rate >= 1;
    s->values[CALLS][s->n++] = e->calls;
}

static void sum_up(const struct sample *s, struct eval_row *row)
{
    struct eval_stat *const stats[MEASURES] = {[RETURN] = &row->ret,
                                               [PASS_RATE] = &row->pass_rate,
                                               [SOLVED] = &row->solved,
                                               [CALLS] = &row->calls};
    for (size_t i = 0; i < MEASURES; i++)
        *stats[i] = eval_stat_of(s->values[i], s->n, BOOTSTRAP_SEED);
}

/* An agent that learns begins with each seed anew, or all of them go by one checkpoint. */
static int open_agent(struct evaluation *v, struct gym_env *e, const struct policy_kind *k,
                      uint64_t seed, struct policy **ret, uint64_t *ret_played, struct error *err)
{
    const struct eval_options *o = v->options;
    struct policy_options with = o->policy;
    struct policy *p = NULL;
    struct train_result learnt = {0};
    with.seed = seed;
    pthread_mutex_lock(&v->lock); /* settings are not made for several threads */
    int r = policy_open(k, env_task(e), &with, &p, err);
    pthread_mutex_unlock(&v->lock);
    if (r == 0 && k->learns && !with.checkpoint) {
        struct train_options t = {.episodes = o->episodes, .seed = seed, .no_search = true};
        r = train(e, p, &t, NULL, &learnt, err);
        *ret_played += learnt.played;
        if (r == 0 && learnt.cancelled)
            r = error_set(err, ECANCELED, "interrupted");
        train_result_free(&learnt);
    }
    if (r < 0) {
        policy_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

/* One episode. What goes wrong in it is counted and told, and the next one is played. */
static int play(struct evaluation *v, struct gym_env *e, struct policy *p, uint64_t seed,
                struct sample *s, struct eval_row *row, struct error *err)
{
    struct gym_episode episode;
    struct error why = {0};
    int r = policy_play(p, e, seed, false, NULL, NULL, &episode, &why);
    if (cancel_check(v->options->cancel, err) < 0)
        return -ECANCELED;
    if (r == 0)
        sample_add(s, &episode);
    else {
        row->failed++;
        snprintf(row->why, sizeof row->why, "%.*s", (int)sizeof row->why - 1, why.text);
    }
    return 0;
}

static int run_row(struct evaluation *v, struct gym_env *e, const struct policy_kind *k,
                   struct sample *s, struct eval_row *row, struct error *err)
{
    struct policy *p = NULL;
    bool anew = k->learns && !v->options->policy.checkpoint;
    int r = 0;
    for (uint64_t seed = 1; r == 0 && seed <= v->options->seeds; seed++) {
        if (anew)
            p = policy_free(p);
        if (!p)
            r = open_agent(v, e, k, seed, &p, &row->played, err);
        if (r == 0)
            r = play(v, e, p, seed, s, row, err);
    }
    policy_free(p);
    return r;
}

static void begin_row(struct eval_row *row, const struct task *t, const struct policy_kind *k)
{
    *row = (struct eval_row){.agent = k->name};
    memcpy(row->task, t->name, sizeof row->task);
}

/* The lock is held. */
static void tell_row(struct evaluation *v, const struct eval_row *row)
{
    if (v->options->done)
        v->options->done(v->options->data, row);
}

static int run_agent(struct evaluation *v, struct gym_env *e, const struct policy_kind *k,
                     struct sample *s, struct eval_row *row, struct error *err)
{
    const struct task *t = env_task(e);
    int r = 0;
    begin_row(row, t, k);
    if (k->discrete && task_actions(t) == 0)
        snprintf(row->why, sizeof row->why, "the task has no patches to choose from");
    else
        r = sample_init(s, v->options->seeds) < 0 ? no_memory(err) : run_row(v, e, k, s, row, err);
    if (r < 0)
        return r;
    sum_up(s, row);
    pthread_mutex_lock(&v->lock);
    tell_row(v, row);
    pthread_mutex_unlock(&v->lock);
    return 0;
}

/* One task of many that is not in order here does not undo what the others have shown. */
static void give_up(struct evaluation *v, size_t number, const struct error *why)
{
    const struct eval_options *o = v->options;
    pthread_mutex_lock(&v->lock);
    v->unprepared++;
    v->why = *why;
    for (size_t i = 0; i < o->n_agents; i++) {
        struct eval_row *row = &v->rows[number * o->n_agents + i];
        begin_row(row, o->tasks[number], o->agents[i]);
        row->failed = o->seeds;
        snprintf(row->why, sizeof row->why, "%.*s", (int)sizeof row->why - 1, why->text);
        tell_row(v, row);
    }
    pthread_mutex_unlock(&v->lock);
}

static int run_task(struct evaluation *v, size_t number, struct error *err)
{
    const struct eval_options *o = v->options;
    struct gym_arena *arena = NULL;
    struct gym_env *env = NULL;
    int r = arena_open(o->tasks[number], &o->arena, o->cancel, &arena, err);
    if (r < 0 && r != -ENOMEM && r != -ECANCELED) {
        give_up(v, number, err);
        return 0;
    }
    if (r == 0)
        r = env_open(arena, &env, err);
    if (r == 0)
        env_cancel_on(env, o->cancel);
    for (size_t i = 0; r == 0 && i < o->n_agents; i++) {
        size_t at = number * o->n_agents + i;
        r = run_agent(v, env, o->agents[i], &v->samples[at], &v->rows[at], err);
    }
    env_close(env);
    arena_close(arena);
    return r;
}

static void *work(void *data)
{
    struct evaluation *v = data;
    for (;;) {
        struct error err = {0};
        pthread_mutex_lock(&v->lock);
        size_t mine = v->code < 0 ? v->options->n_tasks : v->next++;
        pthread_mutex_unlock(&v->lock);
        if (mine >= v->options->n_tasks)
            return NULL;
        int r = run_task(v, mine, &err);
        pthread_mutex_lock(&v->lock);
        if (r < 0 && v->code == 0) {
            v->code = r;
            v->error = err;
        }
        pthread_mutex_unlock(&v->lock);
    }
}

static size_t count_jobs(const struct eval_options *o)
{
    cpu_set_t set;
    size_t jobs = o->jobs;
    if (jobs == 0)
        jobs = sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
    return jobs < o->n_tasks ? jobs : o->n_tasks;
}

/* This thread is one of them. */
static void work_together(struct evaluation *v)
{
    size_t n = count_jobs(v->options), started = 0;
    pthread_t *threads = calloc(n + 1, sizeof *threads);
    while (threads && started + 1 < n && pthread_create(&threads[started], NULL, work, v) == 0)
        started++;
    work(v);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

/* One agent over all tasks. */
static int sum_up_agent(struct evaluation *v, size_t agent, struct error *err)
{
    const struct eval_options *o = v->options;
    struct eval_row *row = &v->rows[o->n_tasks * o->n_agents + agent];
    struct sample all = {0};
    *row = (struct eval_row){.task = "all", .agent = o->agents[agent]->name};
    int r = sample_init(&all, o->n_tasks * o->seeds) < 0 ? no_memory(err) : 0;
    for (size_t t = 0; r == 0 && t < o->n_tasks; t++) {
        const struct sample *s = &v->samples[t * o->n_agents + agent];
        for (size_t i = 0; i < MEASURES && s->n; i++)
            memcpy(all.values[i] + all.n, s->values[i], s->n * sizeof(double));
        all.n += s->n;
        row->failed += v->rows[t * o->n_agents + agent].failed;
        row->played += v->rows[t * o->n_agents + agent].played;
    }
    if (r == 0)
        sum_up(&all, row);
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
        return no_memory(err);
    work_together(&v);
    if (v.code == 0 && v.unprepared == o->n_tasks) {
        v.code = -v.why.code;
        v.error = v.why;
    }
    if (v.code < 0 && err)
        *err = v.error;
    for (size_t i = 0; v.code == 0 && o->n_tasks > 1 && i < o->n_agents; i++)
        v.code = sum_up_agent(&v, i, err);
    for (size_t i = 0; i < n; i++)
        sample_free(&v.samples[i]);
    free(v.samples);
    return v.code;
}

/* Means and how sure they are: the bootstrap. The values are drawn from with replacement, again and
 * again, and the interval is that of the middle 95 % of the means. It assumes nothing about how
 * they are distributed. */

#define DRAWS 2000

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double mean_of(const double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

static double drawn_mean(const double *values, size_t n, struct dice *dice)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[dice_below(dice, n)];
    return sum / (double)n;
}

struct eval_stat eval_stat_of(const double *values, size_t n, uint64_t seed)
{
    struct dice dice;
    double means[DRAWS];
    if (n == 0)
        return (struct eval_stat){.mean = NAN, .low = NAN, .high = NAN};
    dice_seed(&dice, seed);
    for (size_t i = 0; i < DRAWS; i++)
        means[i] = drawn_mean(values, n, &dice);
    qsort(means, DRAWS, sizeof *means, by_size);
    return (struct eval_stat){.mean = mean_of(values, n),
                              .low = means[DRAWS * 25 / 1000],
                              .high = means[DRAWS - 1 - DRAWS * 25 / 1000],
                              .n = n};
}
