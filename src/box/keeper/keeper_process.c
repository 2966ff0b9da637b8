/*
 * The keeper's process: how it comes to be, the boxes that it holds, and its loop.
 *
 * It is the grandchild of the command that starts it, in a session of its own, with nothing
 * inherited but one socket, on which it sends that command the new box's name or the error. Its
 * first thread waits for connections, starts a thread for each, and watches the boxes' limits and
 * times to live.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box_internal.h"
#include "io.h"
#include "keeper_internal.h"
#include "sys.h"
#include "thread.h"
#include "banned.h"

#define TICK_MS      250
#define REQUESTS_MAX 1024

static volatile sig_atomic_t keeper_ends;

static void keeper_on_signal(int number)
{
    keeper_ends = 1;
}

static void keeper_wake(struct keeper *k)
{
    uint64_t one = 1;
    if (write(k->wake, &one, sizeof one) < 0) {
        /* The counter is full: it is readable, which is all that matters. */
    }
}

/* data is NULL for the wake descriptor, else the held box. */
static int keeper_watch(struct keeper *k, int fd, void *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    return epoll_ctl(k->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int64_t held_until(const struct held *h)
{
    if (!h->life.ttl_ns)
        return 0;
    if (h->life.idle && h->refs)
        return clock_now() + h->life.ttl_ns;
    return (h->life.idle ? h->used : h->born) + h->life.ttl_ns;
}

static void held_drop_snapshots(struct held *h)
{
    for (size_t i = 0; i < h->n_snapshots; i++)
        snapshot_free(h->snapshots[i].snapshot);
    free(h->snapshots);
    h->snapshots = NULL;
    h->n_snapshots = 0;
}

int held_add(struct keeper *k, struct box *b, const struct keeper_life *life,
             const struct held *parent, struct held **ret, struct error *err)
{
    struct instance *instance = calloc(1, sizeof *instance);
    struct held *h = calloc(1, sizeof *h);
    /* The newest snapshots of the parent, if there are more than a box may have; then the origin.
     * */
    size_t theirs = parent ? parent->n_snapshots : 0;
    size_t skip = theirs > KEEPER_SNAPSHOTS_MAX ? theirs - KEEPER_SNAPSHOTS_MAX : 0;
    struct kept_snapshot *snapshots = calloc(theirs - skip + 1, sizeof *snapshots);
    struct snapshot *origin = NULL;
    int r = instance && h && snapshots ? box_template(b, &origin, err)
                                       : error_set(err, ENOMEM, "no memory");
    if (r < 0) {
        free(h);
        free(instance);
        free(snapshots);
        box_close(b);
        return r;
    }
    int64_t now = clock_now();
    *instance = (struct instance){.box = b};
    *h = (struct held){.born = now, .used = now, .life = *life, .refs = 1, .snapshots = snapshots};
    pthread_mutex_init(&h->owner, NULL);
    for (size_t i = skip; i < theirs; i++) {
        const struct kept_snapshot *from = &parent->snapshots[i];
        struct kept_snapshot *to = &snapshots[h->n_snapshots++];
        bool own = !strchr(from->name, ':');
        snprintf(to->name, sizeof to->name, "%s%s%.*s", own ? parent->id.text : "", own ? ":" : "",
                 own ? 6 : KEEPER_SNAPSHOT_NAME - 1, from->name);
        to->snapshot = snapshot_ref(from->snapshot);
    }
    snapshots[h->n_snapshots++] = (struct kept_snapshot){KEEPER_ORIGIN, origin};
    box_track(b);

    /* Under the lock, so that a client that connects at once finds it in the list. */
    pthread_mutex_lock(&k->lock);
    r = registry_add(k->registry, &h->id, &h->listener, err);
    if (r == 0 && (r = keeper_watch(k, h->listener, h)) < 0) {
        registry_remove(k->registry, h->id.text);
        close(h->listener);
        error_errno(err, -r, "cannot wait for events");
    }
    if (r == 0) {
        h->instance = instance;
        h->next = k->boxes;
        k->boxes = *ret = h;
    }
    pthread_mutex_unlock(&k->lock);
    if (r < 0) {
        held_drop_snapshots(h);
        free(h);
        free(instance);
        box_close(b);
    }
    return r;
}

void held_unref(struct keeper *k, struct held *h)
{
    pthread_mutex_lock(&k->lock);
    h->refs--;
    pthread_mutex_unlock(&k->lock);
    keeper_wake(k);
}

int held_enter(struct request *q, struct error *err)
{
    int r = 0;
    pthread_mutex_lock(&q->keeper->lock);
    if (q->held->removed) {
        r = error_set(err, ENOENT, "the box '%s' has been removed", q->held->id.text);
    } else {
        q->instance = q->held->instance;
        q->next = q->instance->requests;
        q->instance->requests = q;
    }
    pthread_mutex_unlock(&q->keeper->lock);
    return r;
}

void held_leave(struct request *q)
{
    if (!q->instance)
        return;
    pthread_mutex_lock(&q->keeper->lock);
    struct request **at = &q->instance->requests;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->instance = NULL;
    pthread_cond_broadcast(&q->keeper->left);
    pthread_mutex_unlock(&q->keeper->lock);
}

/* Asks the commands in an instance, which no request can enter any more, to end: each sees its
 * client's end. Waits for them and closes the box. */
static void instance_retire(struct keeper *k, struct instance *i)
{
    pthread_mutex_lock(&k->lock);
    for (struct request *q = i->requests; q; q = q->next)
        shutdown(q->conn, SHUT_RD);
    while (i->requests)
        pthread_cond_wait(&k->left, &k->lock);
    pthread_mutex_unlock(&k->lock);
    box_close(i->box);
    free(i);
}

int held_replace(struct keeper *k, struct held *h, struct box *b, struct error *err)
{
    struct instance *fresh = calloc(1, sizeof *fresh);
    if (!fresh) {
        box_close(b);
        return error_set(err, ENOMEM, "no memory");
    }
    fresh->box = b;
    pthread_mutex_lock(&k->lock);
    bool removed = h->removed;
    struct instance *old = removed ? fresh : h->instance;
    if (!removed)
        h->instance = fresh;
    pthread_mutex_unlock(&k->lock);
    instance_retire(k, old);
    return removed ? error_set(err, ENOENT, "the box '%s' has been removed", h->id.text) : 0;
}

bool held_remove(struct keeper *k, struct held *h)
{
    pthread_mutex_lock(&k->lock);
    bool first = !h->removed;
    h->removed = true;
    /* Now, not only once the owner's call has ended: that may wait for long. */
    for (struct request *q = first ? h->instance->requests : NULL; q; q = q->next)
        shutdown(q->conn, SHUT_RD);
    pthread_mutex_unlock(&k->lock);
    if (!first)
        return false;
    registry_remove(k->registry, h->id.text);
    pthread_mutex_lock(&h->owner);
    instance_retire(k, h->instance);
    held_drop_snapshots(h);
    pthread_mutex_lock(&k->lock);
    h->instance = NULL;
    pthread_mutex_unlock(&k->lock);
    pthread_mutex_unlock(&h->owner);
    keeper_wake(k);
    return true;
}

static void *request_thread(void *data)
{
    struct request *q = data;
    if (q->conn >= 0)
        keeper_serve(q);
    else
        held_remove(q->keeper, q->held);
    pthread_mutex_lock(&q->keeper->lock);
    q->held->used = clock_now();
    pthread_mutex_unlock(&q->keeper->lock);
    held_unref(q->keeper, q->held);
    free(q);
    return NULL;
}

/* Serves conn in a new thread, or with -1 removes the box there. */
static void request_start(struct keeper *k, struct held *h, int conn)
{
    pthread_t thread;
    struct request *q = malloc(sizeof *q);
    pthread_mutex_lock(&k->lock);
    bool busy = h->refs >= REQUESTS_MAX && conn >= 0;
    h->refs++;
    pthread_mutex_unlock(&k->lock);
    if (q && !busy) {
        *q = (struct request){.keeper = k, .held = h, .conn = conn};
        if (pthread_create(&thread, NULL, request_thread, q) == 0) {
            pthread_detach(thread);
            return;
        }
    }
    free(q);
    held_unref(k, h);
    if (conn >= 0)
        close(conn); /* out of memory or threads: the client sees the end, and may try again */
}

/* Frees the removed boxes without requests; false if no box is left. */
static bool keeper_reap(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    for (struct held **at = &k->boxes; *at;) {
        struct held *h = *at;
        if (!h->removed || h->instance || h->refs) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        close(h->listener);
        pthread_mutex_destroy(&h->owner);
        free(h);
    }
    bool any = k->boxes;
    pthread_mutex_unlock(&k->lock);
    return any;
}

/* Until the last box is removed. */
static void keeper_loop(struct keeper *k)
{
    struct epoll_event events[64];
    int64_t next_tick = clock_now();
    while (keeper_reap(k)) {
        int n = epoll_wait(k->epoll, events, ARRAY_SIZE(events), clock_poll_ms(next_tick));
        for (int i = 0; i < n; i++) {
            struct held *h = events[i].data.ptr;
            uint64_t count;
            int conn;
            if (!h && read(k->wake, &count, sizeof count) < 0)
                continue; /* another wake-up was read with the one before */
            while (h && (conn = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
                request_start(k, h, conn);
        }
        int64_t now = clock_now();
        if (now < next_tick && !keeper_ends)
            continue;
        next_tick = now + TICK_MS * NS_PER_MS;

        /* Watches limits and times to live. Only this thread takes boxes off the list, and new ones
         * come in front: walking it needs no lock. */
        pthread_mutex_lock(&k->lock);
        struct held *first = k->boxes;
        pthread_mutex_unlock(&k->lock);
        for (struct held *h = first; h; h = h->next) {
            pthread_mutex_lock(&k->lock);
            /* A running command is watched by its own request. */
            if (!h->removed && h->instance && !h->instance->requests)
                box_tick(h->instance->box, NULL);
            int64_t until = held_until(h);
            pthread_mutex_unlock(&k->lock);
            if ((keeper_ends || (until && now >= until)) && !h->ending) {
                h->ending = true;
                request_start(k, h, -1);
            }
        }
    }
}

/* Leaves everything of the command that started us but the socket to it, which becomes descriptor
 * 3; then opens the box and serves it. */
static void keeper_run(const struct box_options *o, const struct keeper_life *life, int tell)
{
    struct sigaction end = {.sa_handler = keeper_on_signal}, plain = {.sa_handler = SIG_DFL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || chdir("/") < 0)
        return;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (dup2(null, fd) < 0)
            return;
    if (tell != 3 && dup3(tell, 3, O_CLOEXEC) < 0)
        return;
    tell = 3;
    sys_close_range(4, ~0u, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < SIGRTMIN; number++)
        sigaction(number, &plain, NULL);
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "hutch-keeper");

    struct error err = {0};
    struct box *b = NULL;
    struct held *h = NULL;
    struct keeper k = {.registry = -1,
                       .epoll = epoll_create1(EPOLL_CLOEXEC),
                       .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pthread_mutex_init(&k.lock, NULL);
    pthread_cond_init(&k.left, NULL);
    int r = k.epoll < 0 || k.wake < 0 ? -errno : keeper_watch(&k, k.wake, NULL);
    r = r < 0 ? error_errno(&err, -r, "cannot wait for events")
              : registry_open(true, &k.registry, &err);
    if (r == 0)
        r = box_open(o, &b, &err);
    if (r == 0)
        r = held_add(&k, b, life, NULL, &h, &err);

    /* If the command that started us has gone, it cannot tell anyone the box's name: end. */
    _cleanup_buf_ struct buf out = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX);
    size_t begin = wire_begin(&out, h ? WIRE_RESULT : WIRE_ERROR);
    if (h) {
        wire_put_str(&out, WIRE_K_NAME, h->id.text);
        held_unref(&k, h);
    } else {
        wire_put_u64(&out, WIRE_K_CODE, (uint64_t)err.code);
        wire_put_str(&out, WIRE_K_TEXT, err.text);
    }
    if (wire_end_send(tell, &out, begin) < 0)
        keeper_ends = 1;
    close(tell);
    keeper_loop(&k);
}

int keeper_hear(int from, struct registry_id *ret, struct error *err)
{
    struct wire_frame frame;
    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT(from);
    if (wire_read(&reader, &frame) <= 0)
        return error_set(err, EPIPE, "the keeper of the box died while it made the box");
    _cleanup_free_ char *name = wire_find_str(&frame, WIRE_K_NAME);
    if (frame.type != WIRE_RESULT || !name || strlen(name) != REGISTRY_ID_LEN)
        return wire_error(&frame, "the box did not start", err);
    memcpy(ret->text, name, sizeof ret->text);
    return 0;
}

int keeper_begin(const struct box_options *o, const struct keeper_life *life, int *ret_fd,
                 struct error *err)
{
    int ends[2];
    struct box_options adjustable = *o;
    adjustable.adjustable = true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return error_errno(err, errno, "cannot make a socket");
    _cleanup_fd_ int from = ends[0];
    _cleanup_fd_ int tell = ends[1];
    pid_t child = fork();
    if (child < 0)
        return error_errno(err, errno, "cannot start a keeper for the box");
    if (child == 0) {
        if (setsid() < 0 || fork() != 0)
            _exit(0);
        keeper_run(&adjustable, life, tell);
        _exit(0);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    *ret_fd = TAKE_FD(from);
    return 0;
}

int keeper_start(const struct box_options *o, const struct keeper_life *life,
                 struct registry_id *ret, struct error *err)
{
    _cleanup_fd_ int from = -1;
    int r = keeper_begin(o, life, &from, err);
    return r < 0 ? r : keeper_hear(from, ret, err);
}
