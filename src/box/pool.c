#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "box.h"
#include "box_internal.h"
#include "thread.h"
#include "banned.h"

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t worker;
    struct box *template;
    struct snapshot *origin;
    bool own_origin;
    struct box **ready; /* room for `size`, n_ready of them are there */
    struct box **ended; /* given back, not closed yet; likewise */
    size_t size, n_ready, n_ended;
    bool stopping;
    /* the last fork: not tried again before a caller takes a box, which gets the error if it fails
     * again */
    bool failed;
};

/* Filling goes before closing: a caller may be waiting for a box, none for an end (but see
 * pool_give). The lock is not held while a box is made or closed. */
static void *pool_work(void *data)
{
    struct pool *p = data;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        struct box *b = NULL;
        if (p->n_ready < p->size && !p->failed) {
            pthread_mutex_unlock(&p->lock);
            int r = box_fork(p->origin, &b, NULL);
            pthread_mutex_lock(&p->lock);
            p->failed = r < 0;
            if (r == 0)
                p->ready[p->n_ready++] = b;
        } else if (p->n_ended) {
            b = p->ended[--p->n_ended];
            pthread_mutex_unlock(&p->lock);
            box_close(b);
            pthread_mutex_lock(&p->lock);
        } else
            pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void pool_free(struct pool *p)
{
    for (size_t i = 0; i < p->n_ready; i++)
        box_close(p->ready[i]);
    for (size_t i = 0; i < p->n_ended; i++)
        box_close(p->ended[i]);
    if (p->own_origin)
        snapshot_free(p->origin);
    box_close(p->template);
    free(p->ready);
    free(p->ended);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Of the options, or of the snapshot if they are NULL. */
static int pool_new(const struct box_options *o, struct snapshot *s, size_t size, struct pool **ret,
                    struct error *err)
{
    struct pool *p = calloc(1, sizeof *p);
    if (!p)
        return error_errno(err, ENOMEM, "cannot make a pool of boxes");
    p->size = size ? size : 1;
    p->origin = s;
    p->own_origin = o != NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->ready = calloc(p->size, sizeof(struct box *));
    p->ended = calloc(p->size, sizeof(struct box *));
    int r = p->ready && p->ended ? 0 : error_errno(err, ENOMEM, "cannot make a pool of boxes");
    if (r == 0 && o)
        r = box_open(o, &p->template, err);
    if (r == 0 && o)
        r = box_template(p->template, &p->origin, err);
    if (r == 0 && (r = thread_start(&p->worker, NULL, pool_work, p)) < 0)
        r = error_errno(err, -r, "cannot start the pool's thread");
    if (r < 0)
        pool_free(p);
    else
        *ret = p;
    return r;
}

int pool_open(const struct box_options *o, size_t size, struct pool **ret, struct error *err)
{
    return pool_new(o, NULL, size, ret, err);
}

int pool_open_snapshot(struct snapshot *s, size_t size, struct pool **ret, struct error *err)
{
    return pool_new(NULL, s, size, ret, err);
}

/* A caller that finds none ready makes one: under steady load it is as good a worker as the
 * thread. */
int pool_take(struct pool *p, struct box **ret, struct error *err)
{
    struct box *b = NULL;
    pthread_mutex_lock(&p->lock);
    if (p->n_ready)
        b = p->ready[--p->n_ready];
    p->failed = false;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (!b)
        return box_fork(p->origin, ret, err);
    box_begin_now(b);
    *ret = b;
    return 0;
}

/* What the thread does not keep up with is ended by its users: boxes must not pile up. */
void pool_give(struct pool *p, struct box *b)
{
    pthread_mutex_lock(&p->lock);
    bool kept = p->n_ended < p->size;
    if (kept)
        p->ended[p->n_ended++] = b;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (!kept)
        box_close(b);
}

struct pool *pool_close(struct pool *p)
{
    if (!p)
        return NULL;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->worker, NULL);
    pool_free(p);
    return NULL;
}
