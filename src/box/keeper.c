/*
 * The keeper's process: how it comes to be, and its loop.
 *
 * It is the grandchild of the command that starts it, in a session of its own, with nothing
 * inherited but one socket, on which it tells that command the new box's name or what went wrong.
 * Its first thread waits for connections, starts a thread for each, and watches the boxes' limits
 * and times to live.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "io.h"
#include "keeper.h"
#include "keeper_held.h"
#include "keeper_serve.h"
#include "sys.h"
#include "banned.h"

#define TICK_MS      250
#define REQUESTS_MAX 1024

static volatile sig_atomic_t told_to_end;

static void on_end_signal(int number)
{
    told_to_end = 1;
}

static void *request_thread(void *data)
{
    struct request *q = data;
    struct keeper *k = q->keeper;
    if (q->conn >= 0)
        keeper_serve(q);
    else
        held_remove(k, q->held);
    pthread_mutex_lock(&k->lock);
    q->held->refs--;
    q->held->used = clock_now();
    pthread_mutex_unlock(&k->lock);
    free(q);
    keeper_wake(k);
    return NULL;
}

/* Serves conn in a new thread, or with -1 removes the box there. */
static void start_request(struct keeper *k, struct held *h, int conn)
{
    pthread_t thread;
    struct request *q = malloc(sizeof *q);
    if (q) {
        *q = (struct request){.keeper = k, .held = h, .conn = conn};
        pthread_mutex_lock(&k->lock);
        h->refs++;
        pthread_mutex_unlock(&k->lock);
        if (pthread_create(&thread, NULL, request_thread, q) == 0) {
            pthread_detach(thread);
            return;
        }
        pthread_mutex_lock(&k->lock);
        h->refs--;
        pthread_mutex_unlock(&k->lock);
    }
    free(q);
    if (conn >= 0)
        close(conn); /* out of memory or threads: the client sees the end, and may try again */
}

static void accept_all(struct keeper *k, struct held *h)
{
    for (;;) {
        int conn = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC);
        if (conn < 0)
            return;
        pthread_mutex_lock(&k->lock);
        bool busy = h->refs >= REQUESTS_MAX;
        pthread_mutex_unlock(&k->lock);
        if (busy)
            close(conn);
        else
            start_request(k, h, conn);
    }
}

/* Lets the library look at a box's limits while nobody uses the box; a running command is watched
 * by itself.
 */
static void tick(struct keeper *k, struct held *h)
{
    pthread_mutex_lock(&k->lock);
    if (!h->removed && h->in && !h->in->requests)
        box_tick(h->in->box, NULL);
    pthread_mutex_unlock(&k->lock);
}

static void tick_all(struct keeper *k)
{
    int64_t now = clock_now();
    pthread_mutex_lock(&k->lock);
    struct held *first = k->boxes;
    pthread_mutex_unlock(&k->lock);
    /* Only this thread takes boxes off the list, and new ones come in front: walking it needs no
     * lock. */
    for (struct held *h = first; h; h = h->next) {
        tick(k, h);
        pthread_mutex_lock(&k->lock);
        int64_t until = held_until(h);
        pthread_mutex_unlock(&k->lock);
        bool over = told_to_end || (until && now >= until);
        if (over && !h->ending) {
            h->ending = true;
            start_request(k, h, -1);
        }
    }
}

static bool is_empty(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    bool empty = !k->boxes;
    pthread_mutex_unlock(&k->lock);
    return empty;
}

/* Until the last box is removed. */
static void loop(struct keeper *k)
{
    struct epoll_event events[64];
    int64_t next_tick = clock_now();
    while (!is_empty(k)) {
        int n = epoll_wait(k->epoll, events, ARRAY_SIZE(events), clock_poll_ms(next_tick));
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (events[i].data.ptr)
                accept_all(k, events[i].data.ptr);
            else if (read(k->wake, &count, sizeof count) < 0)
                continue; /* somebody else's wake-up was read with the one before */
        }
        if (clock_now() >= next_tick || told_to_end) {
            tick_all(k);
            next_tick = clock_now() + TICK_MS * NS_PER_MS;
        }
        held_reap(k);
    }
}

/* Leaves everything of the command that started us, but the socket to it, which becomes
 * descriptor 3. */
static int detach(int tell)
{
    struct sigaction end = {.sa_handler = on_end_signal}, plain = {.sa_handler = SIG_DFL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || chdir("/") < 0)
        return -errno;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (dup2(null, fd) < 0)
            return -errno;
    if (tell != 3 && dup3(tell, 3, O_CLOEXEC) < 0)
        return -errno;
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
    return 3;
}

/* Tells the starter the name or the error. */
static int report(int tell, const struct registry_id *id, const struct error *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX);
    size_t begin = wire_begin(&out, id ? WIRE_RESULT : WIRE_ERROR);
    if (id) {
        wire_put_str(&out, WIRE_K_NAME, id->text);
    } else {
        wire_put_u64(&out, WIRE_K_CODE, (uint64_t)err->code);
        wire_put_str(&out, WIRE_K_TEXT, err->text);
    }
    wire_end(&out, begin);
    int r = wire_send(tell, &out, NULL, 0);
    close(tell);
    return r;
}

/* The keeper's whole life. When its starter has gone before it could be told the name, nobody knows
 * the box: end. */
static void live(const struct box_options *o, const struct keeper_life *life, int tell)
{
    struct keeper k;
    struct error err = {0};
    struct box *b = NULL;
    struct registry_id id;
    tell = detach(tell);
    if (tell < 0)
        return;
    int r = keeper_init(&k, &err);
    if (r == 0)
        r = box_open(o, &b, &err);
    if (r == 0)
        r = held_add(&k, b, life, &id, &err);
    if (report(tell, r == 0 ? &id : NULL, &err) < 0)
        told_to_end = 1;
    loop(&k);
}

int keeper_hear(int from, struct registry_id *ret, struct error *err)
{
    struct wire_frame frame;
    struct wire_reader reader = WIRE_READER_INIT(from);
    int r = wire_read(&reader, &frame);
    _cleanup_free_ char *name = r > 0 ? wire_find_str(&frame, WIRE_K_NAME) : NULL;
    _cleanup_free_ char *text = r > 0 ? wire_find_str(&frame, WIRE_K_TEXT) : NULL;
    if (r <= 0)
        r = error_set(err, EPIPE, "the keeper of the box died while it made the box");
    else if (frame.type != WIRE_RESULT || !name || strlen(name) != REGISTRY_ID_LEN)
        r = error_set(err, (int)wire_find_u64(&frame, WIRE_K_CODE, EPROTO), "%s",
                      text ? text : "the box did not start");
    else
        memcpy(ret->text, name, sizeof ret->text);
    wire_reader_free(&reader);
    return r < 0 ? r : 0;
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
        live(&adjustable, life, tell);
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
