/* The boxes of one keeper: a box and its forks, each behind a socket of its own (keeper_held.h). */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local_box.h"
#include "clock.h"
#include "keeper_held.h"
#include "banned.h"

/* data is NULL for the wake descriptor, else the held box. */
static int watch(struct keeper *k, int fd, void *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    return epoll_ctl(k->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int keeper_init(struct keeper *k, struct error *err)
{
    *k = (struct keeper){.registry = -1};
    k->epoll = epoll_create1(EPOLL_CLOEXEC);
    k->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->left, NULL);
    if (k->epoll < 0 || k->wake < 0 || watch(k, k->wake, NULL) < 0)
        return error_errno(err, errno, "cannot wait for events");
    return registry_open(true, &k->registry, err);
}

void keeper_wake(struct keeper *k)
{
    uint64_t one = 1;
    if (write(k->wake, &one, sizeof one) < 0) {
        /* The counter is full: it is readable, which is all that matters. */
    }
}

static struct innards *innards_new(struct box *b)
{
    struct innards *in = calloc(1, sizeof *in);
    if (in)
        in->box = b;
    else
        box_close(b);
    return in;
}

/* A name and a listener for a box that is otherwise complete. */
static int publish(struct keeper *k, struct held *h, struct error *err)
{
    int r = registry_add(k->registry, &h->id, &h->listener, err);
    if (r < 0)
        return r;
    r = watch(k, h->listener, h);
    if (r == 0)
        return 0;
    registry_remove(k->registry, h->id.text);
    close(h->listener);
    return error_errno(err, -r, "cannot wait for events");
}

int64_t held_until(const struct held *h)
{
    if (!h->life.ttl_ns)
        return 0;
    if (h->life.idle && h->refs)
        return clock_now() + h->life.ttl_ns;
    return (h->life.idle ? h->used : h->born) + h->life.ttl_ns;
}

int held_add(struct keeper *k, struct box *b, const struct keeper_life *life,
             struct registry_id *ret, struct error *err)
{
    struct innards *in = innards_new(b);
    struct held *h = calloc(1, sizeof *h);
    struct snapshot *origin = NULL;
    int r = in && h ? box_template(b, &origin, err) : error_set(err, ENOMEM, "no memory");
    if (r == 0) {
        int64_t now = clock_now();
        *h = (struct held){.born = now, .used = now, .life = *life, .in = in, .origin = origin};
        pthread_mutex_init(&h->owner, NULL);
        box_track(b);
        /* Under the lock, so that whoever connects at once finds it in the list. */
        pthread_mutex_lock(&k->lock);
        r = publish(k, h, err);
        if (r == 0) {
            *ret = h->id;
            h->next = k->boxes;
            k->boxes = h;
        }
        pthread_mutex_unlock(&k->lock);
    }
    if (r < 0) {
        snapshot_free(origin);
        if (in)
            box_close(in->box);
        free(in);
        free(h);
    }
    return r;
}

int held_enter(struct request *q, struct error *err)
{
    int r = 0;
    pthread_mutex_lock(&q->keeper->lock);
    if (q->held->removed) {
        r = error_set(err, ENOENT, "the box '%s' has been removed", q->held->id.text);
    } else {
        q->in = q->held->in;
        q->next = q->in->requests;
        q->in->requests = q;
    }
    pthread_mutex_unlock(&q->keeper->lock);
    return r;
}

void held_leave(struct request *q)
{
    if (!q->in)
        return;
    pthread_mutex_lock(&q->keeper->lock);
    struct request **at = &q->in->requests;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->in = NULL;
    pthread_cond_broadcast(&q->keeper->left);
    pthread_mutex_unlock(&q->keeper->lock);
}

/* Asks the commands in these innards to end: each sees its client's end. */
static void ask_to_end(struct innards *in)
{
    for (struct request *q = in->requests; q; q = q->next)
        shutdown(q->conn, SHUT_RD);
}

/* Nobody enters these innards any more. */
static void innards_retire(struct keeper *k, struct innards *in)
{
    pthread_mutex_lock(&k->lock);
    ask_to_end(in);
    while (in->requests)
        pthread_cond_wait(&k->left, &k->lock);
    pthread_mutex_unlock(&k->lock);
    box_close(in->box);
    free(in);
}

int held_replace(struct keeper *k, struct held *h, struct box *b, struct error *err)
{
    struct innards *fresh = innards_new(b);
    if (!fresh)
        return error_set(err, ENOMEM, "no memory");
    pthread_mutex_lock(&k->lock);
    bool removed = h->removed;
    struct innards *old = removed ? fresh : h->in;
    if (!removed)
        h->in = fresh;
    pthread_mutex_unlock(&k->lock);
    innards_retire(k, old);
    return removed ? error_set(err, ENOENT, "the box '%s' has been removed", h->id.text) : 0;
}

bool held_remove(struct keeper *k, struct held *h)
{
    pthread_mutex_lock(&k->lock);
    bool first = !h->removed;
    h->removed = true;
    if (first)
        ask_to_end(h->in);
    pthread_mutex_unlock(&k->lock);
    if (!first)
        return false;
    registry_remove(k->registry, h->id.text);
    pthread_mutex_lock(&h->owner);
    innards_retire(k, h->in);
    for (size_t i = 0; i < h->n_snapshots; i++)
        snapshot_free(h->snapshots[i].snapshot);
    free(h->snapshots);
    h->snapshots = NULL;
    h->n_snapshots = 0;
    for (size_t i = 0; i < h->n_inherited; i++)
        snapshot_free(h->inherited[i].snapshot);
    free(h->inherited);
    h->inherited = NULL;
    h->n_inherited = 0;
    h->origin = snapshot_free(h->origin);
    pthread_mutex_lock(&k->lock);
    h->in = NULL;
    pthread_mutex_unlock(&k->lock);
    pthread_mutex_unlock(&h->owner);
    keeper_wake(k);
    return true;
}

void held_reap(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    for (struct held **at = &k->boxes; *at;) {
        struct held *h = *at;
        if (!h->removed || h->in || h->refs) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        close(h->listener);
        pthread_mutex_destroy(&h->owner);
        free(h);
    }
    pthread_mutex_unlock(&k->lock);
}
