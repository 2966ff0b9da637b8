/* The life of a vector of environments: it is opened, interrupted and closed. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "thread.h"
#include "vector_private.h"
#include "banned.h"

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
        return error_set(err, EINVAL, "%zu environments: it is 1 to %d", o->n, VECTOR_MAX);
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
