/*
 * A vector of environments: actions wait in one queue, threads take them and carry them out, and
 * results wait in a second queue until they are received.
 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "thread.h"
#include "vector.h"
#include "banned.h"

enum slot_state { SLOT_IDLE, SLOT_WAITING, SLOT_WORKING, SLOT_DONE };

/* An environment of the vector. */
struct slot {
    struct gym_env *env;
    enum slot_state state;
    struct slot *next; /* in its queue */
    struct vector_action action;
    char *tool;
    struct vector_result result; /* once it is done */
    bool over;                   /* the episode: with autoreset, the next action is a reset */
    uint64_t seed;               /* of the episode */
};

struct slot_queue {
    struct slot *first, **last;
    size_t count;
};

struct gym_vector {
    pthread_mutex_t lock;
    pthread_cond_t sent, changed; /* wake threads for work; callers for results */
    struct slot_queue waiting, done;
    size_t under_way; /* waiting or at work */
    struct slot *slots;
    size_t n;
    pthread_t *threads;
    size_t n_threads;
    bool autoreset;
    bool closing;
    int cancel; /* eventfd: readable while steps are cancelled */
};

static void slot_queue_put(struct slot_queue *q, struct slot *s)
{
    s->next = NULL;
    *q->last = s;
    q->last = &s->next;
    q->count++;
}

static struct slot *slot_queue_take(struct slot_queue *q)
{
    struct slot *s = q->first;
    if (!s)
        return NULL;
    q->first = s->next;
    if (!q->first)
        q->last = &q->first;
    q->count--;
    return s;
}

static void slot_drop_action(struct slot *s)
{
    free(s->tool);
    json_decref(s->action.input);
    s->tool = NULL;
    s->action.input = NULL;
}

/* Carries the action of one environment out. */
static void slot_work(const struct gym_vector *v, struct slot *s)
{
    struct error err = {0};
    struct vector_result *r = &s->result;
    *r = (struct vector_result){.env = (size_t)(s - v->slots),
                                .reset = s->action.reset || (v->autoreset && s->over)};
    if (r->reset) {
        s->seed = s->action.reset ? s->action.seed : s->seed + 1;
        r->code = env_reset(s->env, s->seed, &r->step, &err);
    } else if (s->tool) {
        r->code = env_step(s->env, s->tool, s->action.input, &r->step, &err);
    } else {
        r->code = env_act(s->env, s->action.number, &r->step, &err);
    }
    if (r->code < 0) {
        snprintf(r->text, sizeof r->text, "%.*s", (int)sizeof r->text - 1, err.text);
        r->step = (struct gym_step){.pass_rate = NAN};
    }
    /* a mistake of the caller (-EINVAL) leaves the episode as it is; any other error ends it */
    if (r->code != -EINVAL)
        s->over = r->code < 0 || r->step.terminated || r->step.truncated;
    env_episode(s->env, &r->episode);
    slot_drop_action(s);
}

static void *vector_thread(void *data)
{
    struct gym_vector *v = data;
    uselocale(newlocale(LC_ALL_MASK, "C", NULL)); /* the program's may write numbers with a comma */
    pthread_mutex_lock(&v->lock);
    while (!v->closing) {
        struct slot *s = slot_queue_take(&v->waiting);
        if (!s) {
            pthread_cond_wait(&v->sent, &v->lock);
            continue;
        }
        s->state = SLOT_WORKING;
        pthread_mutex_unlock(&v->lock);
        slot_work(v, s);
        pthread_mutex_lock(&v->lock);
        s->state = SLOT_DONE;
        v->under_way--;
        slot_queue_put(&v->done, s);
        pthread_cond_broadcast(&v->changed);
    }
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

static int vector_open_envs(struct gym_vector *v, struct gym_arena *a, size_t n, struct error *err)
{
    v->slots = calloc(n, sizeof *v->slots);
    v->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!v->slots || v->cancel < 0)
        return error_errno(err, ENOMEM, "cannot make the environments");
    for (size_t i = 0; i < n; i++) {
        int r = env_open(a, &v->slots[i].env, err);
        if (r < 0)
            return r;
        env_cancel_on(v->slots[i].env, v->cancel);
        v->n++;
    }
    return 0;
}

static int vector_start_threads(struct gym_vector *v, size_t n, struct error *err)
{
    cpu_set_t mine;
    if (n == 0)
        n = 1 + (sched_getaffinity(0, sizeof mine, &mine) < 0 ? 1 : (size_t)CPU_COUNT(&mine));
    n = n > v->n ? v->n : n;
    v->threads = calloc(n, sizeof *v->threads);
    if (!v->threads)
        return error_errno(err, ENOMEM, "cannot make the environments");
    for (size_t i = 0; i < n; i++) {
        int r = thread_start(&v->threads[i], NULL, vector_thread, v);
        if (r < 0)
            return error_errno(err, -r, "cannot start thread %zu of the environments", i + 1);
        v->n_threads++;
    }
    return 0;
}

int vector_open(struct gym_arena *a, const struct vector_options *o, struct gym_vector **ret,
                struct error *err)
{
    pthread_condattr_t monotonic;
    if (o->n == 0 || o->n > VECTOR_MAX)
        return error_set(err, EINVAL, "%zu environments: must be 1 to %d", o->n, VECTOR_MAX);
    struct gym_vector *v = calloc(1, sizeof *v);
    if (!v)
        return error_errno(err, ENOMEM, "cannot make the environments");
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->sent, NULL);
    pthread_cond_init(&v->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    v->waiting.last = &v->waiting.first;
    v->done.last = &v->done.first;
    v->autoreset = o->autoreset;
    int r = vector_open_envs(v, a, o->n, err);
    if (r == 0)
        r = vector_start_threads(v, o->threads, err);
    if (r < 0)
        vector_close(v);
    else
        *ret = v;
    return r;
}

void vector_cancel(struct gym_vector *v)
{
    if (v->cancel >= 0)
        eventfd_write(v->cancel, 1);
}

void vector_interrupt(struct gym_vector *v)
{
    eventfd_t seen;
    LOCKED(&v->lock);
    vector_cancel(v);
    while (v->under_way && !v->closing)
        pthread_cond_wait(&v->changed, &v->lock);
    if (!v->closing)
        eventfd_read(v->cancel, &seen);
}

void vector_stop(struct gym_vector *v)
{
    LOCKED(&v->lock);
    v->closing = true;
    vector_cancel(v);
    pthread_cond_broadcast(&v->sent);
    pthread_cond_broadcast(&v->changed);
}

struct gym_vector *vector_close(struct gym_vector *v)
{
    if (!v)
        return NULL;
    vector_stop(v);
    for (size_t i = 0; i < v->n_threads; i++)
        pthread_join(v->threads[i], NULL);
    for (size_t i = 0; i < v->n; i++) {
        slot_drop_action(&v->slots[i]);
        vector_result_free(&v->slots[i].result);
        env_close(v->slots[i].env);
    }
    cleanup_close(&v->cancel);
    pthread_cond_destroy(&v->sent);
    pthread_cond_destroy(&v->changed);
    pthread_mutex_destroy(&v->lock);
    free(v->threads);
    free(v->slots);
    free(v);
    return NULL;
}

size_t vector_size(const struct gym_vector *v)
{
    return v->n;
}

struct gym_env *vector_env(struct gym_vector *v, size_t env)
{
    return env < v->n ? v->slots[env].env : NULL;
}

void vector_result_free(struct vector_result *r)
{
    gym_step_free(&r->step);
    *r = (struct vector_result){0};
}

/* Gives an action to its environment, which is busy from then on: so a second action for it in the
 * same call is refused. */
static int vector_accept(struct gym_vector *v, const struct vector_action *a, struct error *err)
{
    if (v->closing)
        return error_set(err, ECANCELED, "the environments are being closed");
    if (a->env >= v->n)
        return error_set(err, EINVAL, "no environment %zu; there are %zu", a->env, v->n);
    struct slot *s = &v->slots[a->env];
    if (s->state != SLOT_IDLE)
        return error_set(err, EBUSY, "environment %zu is busy, or its last result was not received",
                         a->env);
    s->tool = a->tool ? strdup(a->tool) : NULL;
    if (a->tool && !s->tool)
        return error_errno(err, ENOMEM, "cannot send an action");
    s->action = *a;
    json_incref(s->action.input);
    s->state = SLOT_WAITING;
    return 0;
}

int vector_send(struct gym_vector *v, const struct vector_action *a, size_t n, struct error *err)
{
    size_t taken = 0;
    LOCKED(&v->lock);
    int r = 0;
    for (; taken < n && r == 0; taken += r == 0)
        r = vector_accept(v, &a[taken], err);
    for (size_t i = 0; i < taken; i++) {
        struct slot *s = &v->slots[a[i].env];
        if (r == 0) {
            slot_queue_put(&v->waiting, s);
            v->under_way++;
        } else {
            slot_drop_action(s);
            s->state = SLOT_IDLE;
        }
    }
    if (r == 0 && taken == 1)
        pthread_cond_signal(&v->sent);
    else if (r == 0)
        pthread_cond_broadcast(&v->sent);
    return r;
}

ssize_t vector_recv(struct gym_vector *v, size_t min, size_t max, int timeout_ms,
                    struct vector_result *ret, struct error *err)
{
    int64_t until = clock_now() + (timeout_ms > 0 ? timeout_ms : 0) * NS_PER_MS;
    struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    size_t n = 0;
    int r = 0;
    if (max == 0)
        return error_set(err, EINVAL, "the result buffer has no room");
    min = min < max ? min : max;
    LOCKED(&v->lock);
    while (v->done.count < min && v->under_way && !v->closing && r != ETIMEDOUT)
        r = timeout_ms < 0 ? pthread_cond_wait(&v->changed, &v->lock)
                           : pthread_cond_timedwait(&v->changed, &v->lock, &t);
    if (v->closing)
        return error_set(err, ECANCELED, "the environments are being closed");
    for (; n < max && v->done.first; n++) {
        struct slot *s = slot_queue_take(&v->done);
        ret[n] = s->result;
        s->result = (struct vector_result){0};
        s->state = SLOT_IDLE;
    }
    return (ssize_t)n;
}
