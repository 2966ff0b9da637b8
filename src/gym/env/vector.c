/* The life of a vector of environments: it is opened, interrupted and closed. */
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

struct slot {
    struct gym_env *env;
    enum slot_state state;
    struct slot *next; /* in the queue that it is in */
    struct vector_action action;
    char *tool;
    struct vector_result result; /* once it is done */
    bool over;                   /* the episode: what comes next is a reset */
    uint64_t seed;               /* of the episode */
};

struct slots {
    struct slot *first, **last;
    size_t count;
};

struct gym_vector {
    pthread_mutex_t lock;
    pthread_cond_t sent, changed; /* somebody waits for work; for results */
    struct slots waiting, done;
    size_t under_way; /* waiting or at work */
    struct slot *slots;
    size_t n;
    pthread_t *threads;
    size_t n_threads;
    bool autoreset;
    bool closing;
    int cancel; /* eventfd: readable while no step is wanted */
};

void slots_init(struct slots *q);
void slots_put(struct slots *q, struct slot *s);
struct slot *slots_take(struct slots *q); /* NULL: it is empty */

void slot_drop_action(struct slot *s);

/* What each thread does until the vector is closed. */
void *vector_work(void *vector);

static size_t processors(void)
{
    cpu_set_t mine;
    int n = sched_getaffinity(0, sizeof mine, &mine) < 0 ? 0 : CPU_COUNT(&mine);
    return n > 0 ? (size_t)n : 1;
}

static int start_threads(struct gym_vector *v, size_t wanted, struct error *err)
{
    size_t n = wanted ? wanted : processors() + 1;
    n = n > v->n ? v->n : n;
    v->threads = calloc(n, sizeof *v->threads);
    if (!v->threads)
        return error_errno(err, ENOMEM, "cannot make the environments");
    for (size_t i = 0; i < n; i++) {
        int r = thread_start(&v->threads[i], NULL, vector_work, v);
        if (r < 0)
            return error_errno(err, -r, "cannot start thread %zu of the environments", i + 1);
        v->n_threads++;
    }
    return 0;
}

static int open_envs(struct gym_vector *v, struct gym_arena *a, size_t n, struct error *err)
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

static struct gym_vector *new_vector(void)
{
    struct gym_vector *v = calloc(1, sizeof *v);
    pthread_condattr_t how;
    if (!v)
        return NULL;
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->sent, NULL);
    pthread_cond_init(&v->changed, &how);
    pthread_condattr_destroy(&how);
    slots_init(&v->waiting);
    slots_init(&v->done);
    v->cancel = -1;
    return v;
}

int vector_open(struct gym_arena *a, const struct vector_options *o, struct gym_vector **ret,
                struct error *err)
{
    if (o->n == 0 || o->n > VECTOR_MAX)
        return error_set(err, EINVAL, "%zu environments: must be 1 to %d", o->n, VECTOR_MAX);
    struct gym_vector *v = new_vector();
    if (!v)
        return error_errno(err, ENOMEM, "cannot make the environments");
    v->autoreset = o->autoreset;
    int r = open_envs(v, a, o->n, err);
    if (r == 0)
        r = start_threads(v, o->threads, err);
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
    pthread_mutex_lock(&v->lock);
    vector_cancel(v);
    while (v->under_way && !v->closing)
        pthread_cond_wait(&v->changed, &v->lock);
    if (!v->closing)
        eventfd_read(v->cancel, &seen);
    pthread_mutex_unlock(&v->lock);
}

/* What waits is not begun any more; what is under way is told that nobody wants it. */
void vector_stop(struct gym_vector *v)
{
    pthread_mutex_lock(&v->lock);
    v->closing = true;
    vector_cancel(v);
    pthread_cond_broadcast(&v->sent);
    pthread_cond_broadcast(&v->changed);
    pthread_mutex_unlock(&v->lock);
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

/* The queues of a vector: actions are sent, results are received. */

void slots_init(struct slots *q)
{
    *q = (struct slots){.last = &q->first};
}

void slots_put(struct slots *q, struct slot *s)
{
    s->next = NULL;
    *q->last = s;
    q->last = &s->next;
    q->count++;
}

struct slot *slots_take(struct slots *q)
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

void slot_drop_action(struct slot *s)
{
    free(s->tool);
    json_decref(s->action.input);
    s->tool = NULL;
    s->action.input = NULL;
}

void vector_result_free(struct vector_result *r)
{
    gym_step_free(&r->step);
    *r = (struct vector_result){0};
}

static int refuse_if_closing(const struct gym_vector *v, struct error *err)
{
    return v->closing ? error_set(err, ECANCELED, "the environments are being closed") : 0;
}

/* Takes the action for its environment, which is then no longer free: so an action too many is
 * seen, too. */
static int accept(struct gym_vector *v, const struct vector_action *a, struct error *err)
{
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
    pthread_mutex_lock(&v->lock);
    int r = refuse_if_closing(v, err);
    for (; taken < n && r == 0; taken += r == 0)
        r = accept(v, &a[taken], err);
    for (size_t i = 0; i < taken; i++) {
        struct slot *s = &v->slots[a[i].env];
        if (r == 0) {
            slots_put(&v->waiting, s);
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
    pthread_mutex_unlock(&v->lock);
    return r;
}

/* Until enough is done, or nothing more can come, or the time is over. */
static void wait_for(struct gym_vector *v, size_t min, int timeout_ms)
{
    int64_t until = clock_now() + (timeout_ms > 0 ? timeout_ms : 0) * NS_PER_MS;
    struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    int r = 0;
    while (v->done.count < min && v->under_way && !v->closing && r != ETIMEDOUT)
        r = timeout_ms < 0 ? pthread_cond_wait(&v->changed, &v->lock)
                           : pthread_cond_timedwait(&v->changed, &v->lock, &t);
}

ssize_t vector_recv(struct gym_vector *v, size_t min, size_t max, int timeout_ms,
                    struct vector_result *ret, struct error *err)
{
    size_t n = 0;
    if (max == 0)
        return error_set(err, EINVAL, "the result buffer has no room");
    pthread_mutex_lock(&v->lock);
    wait_for(v, min < max ? min : max, timeout_ms);
    int r = refuse_if_closing(v, err);
    for (; r == 0 && n < max && v->done.first; n++) {
        struct slot *s = slots_take(&v->done);
        ret[n] = s->result;
        s->result = (struct vector_result){0};
        s->state = SLOT_IDLE;
    }
    pthread_mutex_unlock(&v->lock);
    return r < 0 ? r : (ssize_t)n;
}

/* What the threads of a vector do: an action of an environment, and the next one. */

/* An episode that ended begins again with the next action, which is not carried out; its seed is
 * the next one. */
static bool is_reset(const struct gym_vector *v, const struct slot *s)
{
    return s->action.reset || (v->autoreset && s->over);
}

static int carry_out(const struct gym_vector *v, struct slot *s, struct gym_step *step,
                     struct error *err)
{
    if (is_reset(v, s)) {
        s->seed = s->action.reset ? s->action.seed : s->seed + 1;
        return env_reset(s->env, s->seed, step, err);
    }
    if (s->tool)
        return env_step(s->env, s->tool, s->action.input, step, err);
    return env_act(s->env, s->action.number, step, err);
}

/* A mistake of the caller's (-EINVAL) leaves the episode as it is; after any other error there is
 * none. */
static bool ends(const struct slot *s, const struct vector_result *r)
{
    if (r->code == -EINVAL)
        return s->over;
    return r->code < 0 || r->step.terminated || r->step.truncated;
}

static void work_on(struct gym_vector *v, struct slot *s)
{
    struct error err = {0};
    struct vector_result *r = &s->result;
    *r = (struct vector_result){.env = (size_t)(s - v->slots), .reset = is_reset(v, s)};
    r->code = carry_out(v, s, &r->step, &err);
    if (r->code < 0) {
        snprintf(r->text, sizeof r->text, "%.*s", (int)sizeof r->text - 1, err.text);
        r->step = (struct gym_step){.pass_rate = NAN};
    }
    s->over = ends(s, r);
    env_episode(s->env, &r->episode);
    slot_drop_action(s);
}

void *vector_work(void *data)
{
    struct gym_vector *v = data;
    uselocale(newlocale(LC_ALL_MASK, "C", NULL)); /* the program's may write numbers with a comma */
    pthread_mutex_lock(&v->lock);
    while (!v->closing) {
        struct slot *s = slots_take(&v->waiting);
        if (!s) {
            pthread_cond_wait(&v->sent, &v->lock);
            continue;
        }
        s->state = SLOT_WORKING;
        pthread_mutex_unlock(&v->lock);
        work_on(v, s);
        pthread_mutex_lock(&v->lock);
        s->state = SLOT_DONE;
        v->under_way--;
        slots_put(&v->done, s);
        pthread_cond_broadcast(&v->changed);
    }
    pthread_mutex_unlock(&v->lock);
    return NULL;
}
