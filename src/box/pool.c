#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "local_box.h"
#include "pool.h"
#include "thread.h"
#include "banned.h"

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t worker;
    struct box *template;
    struct snapshot *origin;
    bool own_origin;
    struct box **ready; /* `size` places, n_ready of them full */
    struct box **ended; /* given back, not closed yet; grows */
    size_t size, n_ready, n_ended, room_ended;
    bool stopping;
    bool failed; /* the last fork: not tried again before somebody takes a box, who is told why if
                    it fails again */
};

/* The lock is held on entry and exit, not while a box is made or ended. */
static void refill(struct pool *p)
{
    struct box *b = NULL;
    pthread_mutex_unlock(&p->lock);
    int r = box_fork(p->origin, &b, NULL);
    pthread_mutex_lock(&p->lock);
    p->failed = r < 0;
    if (r == 0)
        p->ready[p->n_ready++] = b;
}

static void end_one(struct pool *p)
{
    struct box *b = p->ended[--p->n_ended];
    pthread_mutex_unlock(&p->lock);
    box_close(b);
    pthread_mutex_lock(&p->lock);
}

/* Filling goes before ending: somebody may be waiting for a box, nobody for an end (but see
 * pool_give). */
static void *work(void *data)
{
    struct pool *p = data;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        if (p->n_ready < p->size && !p->failed)
            refill(p);
        else if (p->n_ended)
            end_one(p);
        else
            pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int start(struct pool *p, struct error *err)
{
    p->ready = calloc(p->size, sizeof(struct box *));
    if (!p->ready)
        return error_errno(err, ENOMEM, "cannot make a pool of boxes");
    int r = thread_start(&p->worker, NULL, work, p);
    return r < 0 ? error_errno(err, -r, "cannot start the pool's thread") : 0;
}

static struct pool *new_pool(size_t size)
{
    struct pool *p = calloc(1, sizeof *p);
    if (p) {
        p->size = size ? size : 1;
        pthread_mutex_init(&p->lock, NULL);
        pthread_cond_init(&p->changed, NULL);
    }
    return p;
}

static void free_pool(struct pool *p)
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

int pool_open_snapshot(struct snapshot *s, size_t size, struct pool **ret, struct error *err)
{
    struct pool *p = new_pool(size);
    if (!p)
        return error_errno(err, ENOMEM, "cannot make a pool of boxes");
    p->origin = s;
    int r = start(p, err);
    if (r < 0)
        free_pool(p);
    else
        *ret = p;
    return r;
}

int pool_open(const struct box_options *o, size_t size, struct pool **ret, struct error *err)
{
    struct pool *p = new_pool(size);
    if (!p)
        return error_errno(err, ENOMEM, "cannot make a pool of boxes");
    p->own_origin = true;
    int r = box_open(o, &p->template, err);
    if (r == 0)
        r = box_template(p->template, &p->origin, err);
    if (r == 0)
        r = start(p, err);
    if (r < 0)
        free_pool(p);
    else
        *ret = p;
    return r;
}

/* Whoever finds none ready makes one: under steady load the taker is as good a worker as the
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

static bool make_room(struct pool *p)
{
    if (p->n_ended < p->room_ended)
        return true;
    size_t room = p->room_ended ? 2 * p->room_ended : 16;
    struct box **more = realloc(p->ended, room * sizeof(struct box *));
    if (!more)
        return false;
    p->ended = more;
    p->room_ended = room;
    return true;
}

/* What the thread does not keep up with is ended by its users: boxes must not pile up. */
void pool_give(struct pool *p, struct box *b)
{
    pthread_mutex_lock(&p->lock);
    bool kept = p->n_ended < p->size && make_room(p);
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
    free_pool(p);
    return NULL;
}
