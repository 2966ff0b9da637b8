/*
 * What is counted in memory, on the monotonic clock: leases, backoff, the time of a job, idle live
 * jobs. A watch is there for every running and every live job, and for jobs that wait for their next
 * attempt. After a restart watches are made from the store, and every lease lasts for lease_ms.
 */
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "jobs_internal.h"
#include "banned.h"

#define LONG_ATTEMPT_NS (60 * NS_PER_S)

struct watch {
    char job[JOB_ID_LEN + 1]; /* first: watches are compared by it */
    bool leased, cancelling, expired;
    unsigned token;
    char *worker;
    int64_t leased_at, expires, cancel_by; /* by then the job ends without its worker */
    int64_t ready_at, deadline;            /* 0: none */
    int64_t ttl, used_at;
};

struct watches {
    struct jobs *jobs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *tree;
    struct waiter *waiters;
    int64_t sleeps_until; /* the reaper */
    bool stopping, has_thread;
    pthread_t reaper;
};

static int watch_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static struct watch *watch_find(struct watches *w, const char *job)
{
    void *at = tfind(job, &w->tree, watch_compare);
    return at ? *(struct watch **)at : NULL;
}

static void watch_free(void *data)
{
    struct watch *watch = data;
    free(watch->worker);
    free(watch);
}

static void watch_remove(struct watches *w, const char *job)
{
    struct watch *watch = watch_find(w, job);
    if (!watch)
        return;
    tdelete(job, &w->tree, watch_compare);
    watch_free(watch);
}

/* NULL without memory: then the job runs without its timers until the next restart. */
static struct watch *watch_make(struct watches *w, const char *job)
{
    struct watch *watch = watch_find(w, job);
    if (watch || !(watch = calloc(1, sizeof *watch)))
        return watch;
    snprintf(watch->job, sizeof watch->job, "%s", job);
    if (!tsearch(watch, &w->tree, watch_compare)) {
        free(watch);
        return NULL;
    }
    return watch;
}

/* The kind of what is due now; -1: nothing, and then *ret_next is brought forward. */
static int watch_due(const struct watch *watch, int64_t now, int64_t *ret_next)
{
    int64_t idle = watch->ttl ? watch->used_at + watch->ttl : 0;
    const struct {
        int64_t at;
        enum due_kind kind;
    } times[] = {
        {watch->leased ? watch->expires : 0, DUE_LOST},
        {watch->leased && watch->cancelling ? watch->cancel_by : 0, DUE_FORCE},
        {watch->cancelling ? 0 : watch->deadline, DUE_TIMEOUT},
        {watch->cancelling ? 0 : idle, DUE_IDLE},
        {watch->leased ? 0 : watch->ready_at, DUE_READY},
    };
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        if (times[i].at && times[i].at <= now)
            return (int)times[i].kind;
        if (times[i].at && times[i].at < *ret_next)
            *ret_next = times[i].at;
    }
    return -1;
}

/* Brings *ret_next forward to when the watch is due. */
static void watch_apply(struct watches *w, const struct effect *e, int64_t now, int64_t *ret_next)
{
    int64_t lease = w->jobs->lease_ms * NS_PER_MS;
    if (e->kind == EFFECT_ENDED) {
        watch_remove(w, e->job);
        return;
    }
    if (e->kind == EFFECT_CHANGED || e->kind == EFFECT_READY)
        return;
    struct watch *watch = e->kind == EFFECT_CANCEL ? watch_find(w, e->job) : watch_make(w, e->job);
    if (!watch)
        return;
    switch (e->kind) {
    case EFFECT_LIVE:
        watch->ttl = e->ms * NS_PER_MS;
        watch->used_at = now;
        break;
    case EFFECT_LEASED:
        watch->leased = true;
        watch->expired = watch->cancelling = false;
        watch->token = e->token;
        free(watch->worker);
        watch->worker = strdup(e->worker);
        watch->leased_at = now;
        watch->expires = now + lease;
        watch->ready_at = 0;
        if (e->deadline_ms > 0 && watch->deadline == 0)
            watch->deadline = now + e->deadline_ms * NS_PER_MS;
        break;
    case EFFECT_WAITING:
        watch->leased = watch->expired = watch->cancelling = false;
        watch->ready_at = e->ms > 0 ? now + e->ms * NS_PER_MS : 0;
        if (!watch->ready_at && !watch->deadline && !watch->ttl) {
            watch_remove(w, e->job);
            return;
        }
        break;
    case EFFECT_CANCEL:
        watch->cancelling = true;
        watch->cancel_by = now + 2 * lease;
        break;
    default:
        break;
    }
    if (watch_due(watch, now, ret_next) >= 0)
        *ret_next = now;
}

void watches_apply(struct watches *w, const struct effect *effects, size_t n)
{
    int64_t now = clock_now(), next = INT64_MAX;
    bool for_lease = false, for_renew = false;
    LOCKED(&w->lock);
    for (size_t i = 0; i < n; i++) {
        watch_apply(w, &effects[i], now, &next);
        for_lease |= effects[i].kind == EFFECT_READY ||
                     (effects[i].kind == EFFECT_WAITING && effects[i].ms == 0) ||
                     effects[i].kind == EFFECT_ENDED; /* a user may run another one */
        for_renew |= effects[i].kind == EFFECT_CANCEL || effects[i].kind == EFFECT_ENDED ||
                     effects[i].kind == EFFECT_WAITING;
    }
    for (struct waiter *one = w->waiters; one; one = one->next)
        if (one->for_lease ? for_lease : for_renew)
            eventfd_write(one->fd, 1);
    if (next < w->sleeps_until)
        pthread_cond_signal(&w->changed);
}

int waiter_begin(struct watches *w, struct waiter *ret, bool for_lease, struct error *err)
{
    *ret = (struct waiter){.for_lease = for_lease};
    ret->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ret->fd < 0)
        return error_errno(err, errno, "cannot wait for jobs");
    LOCKED(&w->lock);
    ret->next = w->waiters;
    ret->prev = &w->waiters;
    if (ret->next)
        ret->next->prev = &ret->next;
    w->waiters = ret;
    return 0;
}

void waiter_end(struct watches *w, struct waiter *waiter)
{
    pthread_mutex_lock(&w->lock);
    *waiter->prev = waiter->next;
    if (waiter->next)
        waiter->next->prev = waiter->prev;
    pthread_mutex_unlock(&w->lock);
    close(waiter->fd);
}

enum lease_state watch_renew(struct watches *w, const char *job, unsigned token, const char *worker)
{
    LOCKED(&w->lock);
    struct watch *watch = watch_find(w, job);
    if (!watch || !watch->leased || watch->expired || watch->token != token || !watch->worker ||
        strcmp(watch->worker, worker) != 0)
        return LEASE_LOST;
    watch->expires = clock_now() + w->jobs->lease_ms * NS_PER_MS;
    return watch->cancelling ? LEASE_CANCEL : LEASE_HELD;
}

int64_t watch_deadline_ms(struct watches *w, const char *job)
{
    LOCKED(&w->lock);
    struct watch *watch = watch_find(w, job);
    if (!watch || !watch->deadline)
        return INT64_MAX;
    int64_t left = (watch->deadline - clock_now()) / NS_PER_MS;
    return left > 0 ? left : 0;
}

int watch_touch(struct watches *w, const char *job)
{
    LOCKED(&w->lock);
    struct watch *watch = watch_find(w, job);
    if (watch)
        watch->used_at = clock_now();
    return watch ? 0 : -ENOENT;
}

bool watch_ran_long(struct watches *w, const char *job)
{
    LOCKED(&w->lock);
    struct watch *watch = watch_find(w, job);
    return watch && watch->leased && clock_now() - watch->leased_at >= LONG_ATTEMPT_NS;
}

static void watch_lose_worker(const void *node, VISIT order, void *data)
{
    struct watch *watch = *(struct watch *const *)node;
    if ((order == postorder || order == leaf) && watch->leased && watch->worker &&
        strcmp(watch->worker, data) == 0)
        watch->expires = clock_now();
}

void watches_lose_worker(struct watches *w, const char *worker)
{
    LOCKED(&w->lock);
    twalk_r(w->tree, watch_lose_worker, (void *)worker);
    pthread_cond_signal(&w->changed);
}

/* --- what is due --- */

struct due_walk {
    struct due *ret;
    size_t n, max;
    int64_t now, next;
};

static void due_visit(const void *node, VISIT order, void *data)
{
    const struct watch *watch = *(const struct watch *const *)node;
    struct due_walk *walk = data;
    if ((order != postorder && order != leaf) || walk->n == walk->max)
        return;
    int kind = watch_due(watch, walk->now, &walk->next);
    if (kind < 0)
        return;
    struct due *d = &walk->ret[walk->n++];
    *d = (struct due){.token = watch->token, .kind = (enum due_kind)kind};
    memcpy(d->job, watch->job, sizeof d->job);
}

bool watches_due(struct watches *w, struct due *ret, size_t max, int64_t timeout_ms, size_t *ret_n)
{
    int64_t until = clock_now() + timeout_ms * NS_PER_MS;
    LOCKED(&w->lock);
    while (!w->stopping) {
        struct due_walk walk = {.ret = ret, .max = max, .now = clock_now(), .next = until};
        twalk_r(w->tree, due_visit, &walk);
        *ret_n = walk.n;
        if (walk.n > 0 || walk.now >= until)
            return true;
        w->sleeps_until = walk.next;
        struct timespec at = {.tv_sec = walk.next / NS_PER_S, .tv_nsec = walk.next % NS_PER_S};
        pthread_cond_timedwait(&w->changed, &w->lock, &at);
    }
    return false;
}

bool watches_pause(struct watches *w, int64_t ms)
{
    int64_t until = clock_now() + ms * NS_PER_MS;
    struct timespec at = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    LOCKED(&w->lock);
    w->sleeps_until = 0;
    while (!w->stopping && pthread_cond_timedwait(&w->changed, &w->lock, &at) == 0) {
    }
    return !w->stopping;
}

bool watch_is_due(struct watches *w, const struct due *d)
{
    int64_t next = INT64_MAX;
    LOCKED(&w->lock);
    struct watch *watch = watch_find(w, d->job);
    if (!watch || watch->token != d->token || watch_due(watch, clock_now(), &next) != (int)d->kind)
        return false;
    watch->expired |= d->kind == DUE_LOST || d->kind == DUE_FORCE;
    return true;
}

/* --- from the store --- */

static int watches_load(struct watches *w, struct db *db, struct error *err)
{
    _cleanup_rows_ struct db_rows rows = {0};
    int64_t now = clock_now(), now_ms = jobs_now(), next = INT64_MAX;
    int r = db_query(db, &rows,
                     "SELECT id, state, attempt, worker, ttl_ms, timeout_ms, started_at,"
                     " backoff_ms, ending FROM jobs WHERE state = 'running' OR"
                     " (state = 'scheduled' AND (backoff_ms > 0 OR ttl_ms > 0 OR"
                     " (timeout_ms > 0 AND started_at > 0)))",
                     NULL, 0, err);
    while (r == 0 && (r = db_next(&rows, err)) > 0) {
        struct effect e = {.kind = EFFECT_LIVE, .ms = db_column_int(&rows, 4)};
        int64_t timeout = db_column_int(&rows, 5), started = db_column_int(&rows, 6);
        snprintf(e.job, sizeof e.job, "%s", db_column_text(&rows, 0));
        watch_apply(w, &e, now, &next);
        struct watch *watch = watch_find(w, e.job);
        if (!watch)
            return error_set(err, ENOMEM, "out of memory");
        if (timeout > 0 && started > 0)
            watch->deadline = now + (started + timeout - now_ms) * NS_PER_MS;
        e.token = (unsigned)db_column_int(&rows, 2);
        e.worker = db_column_text(&rows, 3) ? db_column_text(&rows, 3) : "";
        e.kind = EFFECT_WAITING;
        e.ms = db_column_int(&rows, 7);
        if (strcmp(db_column_text(&rows, 1), "running") == 0)
            e.kind = EFFECT_LEASED;
        watch_apply(w, &e, now, &next);
        e.kind = EFFECT_CANCEL;
        if (db_column_text(&rows, 8))
            watch_apply(w, &e, now, &next);
        r = 0;
    }
    return r;
}

int watches_start(struct jobs *j, struct db *db, struct error *err)
{
    pthread_condattr_t monotonic;
    struct watches *w = j->watches = calloc(1, sizeof *w);
    if (!w)
        return error_set(err, ENOMEM, "out of memory");
    w->jobs = j;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int r = watches_load(w, db, err);
    if (r == 0 && (r = thread_start(&w->reaper, NULL, reaper_main, j)) < 0)
        error_errno(err, -r, "cannot start the thread of leases");
    w->has_thread = r == 0;
    return r;
}

void watches_stop(struct watches *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->has_thread)
        pthread_join(w->reaper, NULL);
}

struct watches *watches_free(struct watches *w)
{
    if (!w)
        return NULL;
    tdestroy(w->tree, watch_free);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}
