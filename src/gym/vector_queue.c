/* The queues of a vector: actions are sent, results are received. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "vector_private.h"
#include "banned.h"

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
        return error_set(err, EINVAL, "there is no environment %zu; there are %zu", a->env, v->n);
    struct slot *s = &v->slots[a->env];
    if (s->state != SLOT_IDLE)
        return error_set(
            err, EBUSY, "environment %zu is still at work, or its result was not received", a->env);
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
        return error_set(err, EINVAL, "there is no room for a result");
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
