/*
 * Terminals of a live box. A shell on a terminal in the box belongs to the box and not to who looks
 * at it: viewers come, get the last megabyte of output and then what follows, and go.
 *
 * Each terminal has one thread, which moves all its bytes: between the guest's stream and the calls
 * of its viewers, without a timer and without waiting for any of them. A viewer that is slow falls
 * behind alone, and misses what has left the scrollback by then. If all viewers are slow the shell
 * waits, as on any terminal; if there is none it runs on.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io.h"
#include "json.h"
#include "live_box.h"
#include "thread.h"
#include "wire.h"
#include "banned.h"

#define SCROLLBACK    (1u << 20)
#define BEHIND_MAX    (256u << 10) /* of the fastest viewer, before the shell waits */
#define INPUT_MAX     (64u << 10)  /* that the guest did not take yet, before viewers wait */
#define VIEWERS_MAX   16
#define TERMINALS_MAX 32
#define SIZE_MOST     1000 /* rows or columns */
#define TERMINAL_ID   16
#define DEFAULT_TERM  "xterm-256color"
#define SHELL_OF_BOX  "if command -v bash >/dev/null; then exec bash; else exec sh; fi"

/* On the stack of its call's thread, which waits until it is done. */
struct viewer {
    struct viewer *next;
    struct live_call *call;
    uint64_t at;    /* what it has had of all output */
    json_t *result; /* of the terminal, if that has ended */
    bool done;
};

struct terminal {
    struct terminal *next;
    struct terminals *all;
    char id[TERMINAL_ID + 1];
    /* Its thread's: */
    struct wire_reader guest;
    uint8_t *scrollback; /* byte i of all output is at i % SCROLLBACK */
    uint64_t total;
    json_t *result; /* once it has ended */
    /* Guarded by the lock of all: */
    int wake; /* an eventfd: something here changed */
    struct buf to_guest;
    struct viewer *viewers; /* new ones at the end; only its thread takes them out */
    unsigned n_viewers;
    unsigned rows, cols;
    bool ended; /* takes no viewers any more */
};

struct terminals {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a viewer is done, a terminal is gone */
    struct terminal *list;
    unsigned count;
    bool ending;
};

static void terminal_wake(struct terminal *t)
{
    uint64_t one = 1;
    if (write(t->wake, &one, sizeof one) < 0) {
        /* The counter is full: it is readable, which is all that matters. */
    }
}

static void terminal_free(struct terminal *t)
{
    if (!t)
        return;
    cleanup_close(&t->guest.fd);
    wire_reader_free(&t->guest);
    cleanup_close(&t->wake);
    buf_free(&t->to_guest);
    json_decref(t->result);
    free(t->scrollback);
    free(t);
}

/* --- its thread --- */

static void terminal_add_output(struct terminal *t, const uint8_t *data, size_t n)
{
    while (n) {
        size_t at = t->total % SCROLLBACK, piece = SCROLLBACK - at < n ? SCROLLBACK - at : n;
        memcpy(t->scrollback + at, data, piece);
        data += piece;
        n -= piece;
        t->total += piece;
    }
}

/* `f` NULL: the stream ended without a result. */
static void terminal_set_result(struct terminal *t, const struct wire_frame *f)
{
    char name[32];
    int signal = f ? (int)(wire_find_u64(f, WIRE_K_TERM_SIGNAL, 0) % NSIG) : SIGKILL;
    int code = f ? (int)(wire_find_u64(f, WIRE_K_EXIT_CODE, 0) & 255) : 0;
    signame_format(signal, name, sizeof name);
    t->result = json_pack("{s:i, s:s?}", "exit_code", signal ? 128 + signal : code, "signal",
                          signal ? name : NULL);
}

static void terminal_read_guest(struct terminal *t)
{
    struct wire_frame f;
    struct wire_field data;
    ssize_t got = wire_fill(&t->guest);
    if (got == -EAGAIN)
        return;
    int r = got > 0 ? 1 : -EPIPE;
    while (!t->result && r > 0 && (r = wire_take(&t->guest, &f)) > 0) {
        if (f.type == WIRE_OUTPUT && wire_find(&f, WIRE_K_DATA, &data))
            terminal_add_output(t, data.data, data.size);
        else if (f.type == WIRE_RESULT)
            terminal_set_result(t, &f);
        else if (f.type == WIRE_ERROR)
            r = -EPIPE;
    }
    if (r < 0 && !t->result)
        terminal_set_result(t, NULL);
}

/* The lock is held. */
static void terminal_write_guest(struct terminal *t)
{
    while (t->to_guest.len) {
        ssize_t n =
            send(t->guest.fd, t->to_guest.data, t->to_guest.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        buf_consume(&t->to_guest,
                    n < 0 ? t->to_guest.len : (size_t)n); /* broken: reading says so */
    }
}

static void terminal_put_input(struct terminal *t, const struct buf *data)
{
    for (size_t at = 0; at < data->len;) {
        size_t left = data->len - at, n = left < WIRE_DATA_MAX ? left : WIRE_DATA_MAX;
        size_t begin = wire_begin(&t->to_guest, WIRE_STDIN);
        wire_put(&t->to_guest, WIRE_K_DATA, data->data + at, n);
        wire_end(&t->to_guest, begin);
        at += n;
    }
}

/* Gives a viewer what it has credit for. False: it has gone. The lock is held. */
static bool viewer_send(struct terminal *t, struct viewer *v)
{
    if (t->total - v->at > SCROLLBACK)
        v->at = t->total - SCROLLBACK;
    while (v->at < t->total) {
        size_t from = v->at % SCROLLBACK, room = SCROLLBACK - from;
        size_t n = t->total - v->at < room ? (size_t)(t->total - v->at) : room;
        ssize_t sent = call_send_now(v->call, t->scrollback + from, n);
        if (sent < 0)
            return false;
        v->at += (size_t)sent;
        if ((size_t)sent < n)
            break;
    }
    return true;
}

/* Takes what a viewer typed. False: it has gone. The lock is held. */
static bool viewer_receive(struct terminal *t, struct viewer *v)
{
    _cleanup_buf_ struct buf data = BUF_INIT(1u << 20);
    bool end = false;
    int r = call_receive(v->call, &data, 0, &end);
    if (r > 0)
        terminal_put_input(t, &data);
    return r >= 0 && !end;
}

/* The lock is held. */
static void viewer_done(struct terminal *t, struct viewer **at)
{
    struct viewer *v = *at;
    *at = v->next;
    t->n_viewers--;
    v->result = json_deep_copy(t->result);
    v->done = true;
    pthread_cond_broadcast(&t->all->changed);
}

/* Is there room for more output: because nobody looks, or the fastest viewer keeps up? */
static bool terminal_has_room(const struct terminal *t)
{
    for (const struct viewer *v = t->viewers; v; v = v->next)
        if (t->total - v->at < BEHIND_MAX)
            return true;
    return !t->viewers;
}

enum { POLL_WAKE, POLL_GUEST, POLL_VIEWERS, POLL_MAX = POLL_VIEWERS + 2 * VIEWERS_MAX };

/* What to wait for; the number of it. Each viewer has two: its data and its credit. The lock is
 * held. */
static nfds_t terminal_poll_set(const struct terminal *t, struct pollfd p[POLL_MAX])
{
    short events = (short)((!t->result && terminal_has_room(t) ? POLLIN : 0) |
                           (t->to_guest.len ? POLLOUT : 0));
    bool takes_input = t->to_guest.len < INPUT_MAX;
    nfds_t n = POLL_VIEWERS;
    p[POLL_WAKE] = (struct pollfd){.fd = t->wake, .events = POLLIN};
    p[POLL_GUEST] = (struct pollfd){.fd = events ? t->guest.fd : -1, .events = events};
    for (const struct viewer *v = t->viewers; v && n < POLL_MAX; v = v->next) {
        p[n++] = (struct pollfd){.fd = takes_input ? call_fd(v->call) : call_cancel(v->call),
                                 .events = POLLIN};
        p[n++] = (struct pollfd){.fd = call_credit_fd(v->call), .events = POLLIN};
    }
    return n;
}

/* One round for the n viewers that were waited for, and those that came since. The lock is held. */
static void terminal_serve_viewers(struct terminal *t, const struct pollfd *p, nfds_t n)
{
    nfds_t i = 0;
    for (struct viewer **at = &t->viewers; *at; i += 2) {
        struct viewer *v = *at;
        bool there = i >= n || !p[i].revents || viewer_receive(t, v);
        there = there && viewer_send(t, v);
        if (!there || (t->result && v->at == t->total))
            viewer_done(t, at);
        else
            at = &v->next;
    }
    terminal_write_guest(t);
}

static void *terminal_thread(void *data)
{
    struct terminal *t = data;
    struct terminals *all = t->all;
    struct pollfd p[POLL_MAX];
    pthread_mutex_lock(&all->lock);
    while (!all->ending && (!t->result || t->viewers)) {
        nfds_t n = terminal_poll_set(t, p);
        pthread_mutex_unlock(&all->lock);
        if (poll(p, n, -1) < 0)
            memset(p, 0, sizeof p);
        uint64_t count;
        if (p[POLL_WAKE].revents && read(t->wake, &count, sizeof count) < 0) {
            /* Nothing else reads it. */
        }
        pthread_mutex_lock(&all->lock);
        if (p[POLL_GUEST].revents & ~POLLOUT)
            terminal_read_guest(t);
        t->ended = t->result != NULL;
        terminal_serve_viewers(t, p + POLL_VIEWERS, n - POLL_VIEWERS);
    }
    t->ended = true;
    while (t->viewers)
        viewer_done(t, &t->viewers);
    struct terminal **at = &all->list;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    all->count--;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    terminal_free(t);
    return NULL;
}

/* --- calls --- */

struct terminals *terminals_new(void)
{
    struct terminals *all = calloc(1, sizeof *all);
    if (all) {
        pthread_mutex_init(&all->lock, NULL);
        pthread_cond_init(&all->changed, NULL);
    }
    return all;
}

struct terminals *terminals_free(struct terminals *all)
{
    if (!all)
        return NULL;
    pthread_mutex_lock(&all->lock);
    all->ending = true;
    for (struct terminal *t = all->list; t; t = t->next)
        terminal_wake(t);
    while (all->list)
        pthread_cond_wait(&all->changed, &all->lock);
    pthread_mutex_unlock(&all->lock);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    free(all);
    return NULL;
}

json_t *terminals_json(struct terminals *all)
{
    LOCKED(&all->lock);
    json_t *list = json_array();
    for (const struct terminal *t = all->list; t; t = t->next)
        if (!t->ended)
            json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:i}", "id", t->id, "rows",
                                                  (int)t->rows, "cols", (int)t->cols, "viewers",
                                                  (int)t->n_viewers));
    return list;
}

static unsigned terminal_size(const json_t *input, const char *name, unsigned fallback)
{
    json_int_t n = json_get_integer(input, name);
    return n < 1 || n > SIZE_MOST ? fallback : (unsigned)n;
}

/* The program and the stream to it. */
static int terminal_start_shell(struct live_call *c, struct terminal *t, struct error *err)
{
    const json_t *input = call_input(c);
    const char *command = json_get_string_or(input, "command", SHELL_OF_BOX);
    const char *term = json_get_string_or(input, "term", DEFAULT_TERM);
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)command, NULL};
    char variable[80];
    snprintf(variable, sizeof variable, "TERM=%.64s", term);
    char *env[] = {variable, NULL};
    const struct box_command shell = {
        .argv = argv, .env = env, .cwd = json_get_string(input, "cwd"), .timeout_ns = -1};
    int fd;
    int r = box_terminal(call_box(c)->box, &shell, t->rows, t->cols, &fd, err);
    if (r < 0)
        return r;
    t->guest = WIRE_READER_INIT(fd);
    io_set_nonblock(fd, true);
    return 0;
}

static int terminal_new(struct live_call *c, struct terminal **ret, struct error *err)
{
    uint64_t random;
    struct terminals *all = call_box(c)->terminals;
    struct terminal *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ENOMEM, "no memory");
    *t = (struct terminal){.all = all,
                           .guest = WIRE_READER_INIT(-1),
                           .scrollback = malloc(SCROLLBACK),
                           .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                           .to_guest = BUF_INIT(16u << 20),
                           .rows = terminal_size(call_input(c), "rows", 24),
                           .cols = terminal_size(call_input(c), "cols", 80)};
    int r = t->scrollback && t->wake >= 0 && getrandom(&random, sizeof random, 0) == sizeof random
                ? terminal_start_shell(c, t, err)
                : error_set(err, ENOMEM, "no memory");
    if (r < 0) {
        terminal_free(t);
        return r;
    }
    snprintf(t->id, sizeof t->id, "%016" PRIx64, random);
    *ret = t;
    return 0;
}

/* Adds it to the list and starts its thread. The lock is held. */
static int terminal_add(struct terminals *all, struct terminal *t, struct error *err)
{
    pthread_t thread;
    int r = thread_start(&thread, NULL, terminal_thread, t);
    if (r < 0)
        return error_errno(err, -r, "cannot start a thread");
    pthread_detach(thread); /* it waits for the lock */
    t->next = all->list;
    all->list = t;
    all->count++;
    return 0;
}

/* The lock is held. */
static int terminal_find(struct terminals *all, const char *id, struct terminal **ret,
                         struct error *err)
{
    struct terminal *t = all->list;
    while (t && (t->ended || strcmp(t->id, id) != 0))
        t = t->next;
    if (!t)
        return error_set(err, ENOENT, "the box has no terminal '%.40s', or it has ended", id);
    *ret = t;
    return 0;
}

/* Adds a viewer and waits until it has gone or the terminal has ended. The lock is held. */
static int terminal_view(struct terminal *t, struct live_call *c, json_t **ret_result,
                         struct error *err)
{
    struct viewer v = {.call = c, .at = t->total > SCROLLBACK ? t->total - SCROLLBACK : 0};
    if (t->n_viewers >= VIEWERS_MAX)
        return error_set(err, EBUSY, "the terminal has %d viewers already", VIEWERS_MAX);
    struct viewer **at = &t->viewers;
    while (*at)
        at = &(*at)->next;
    *at = &v;
    t->n_viewers++;
    terminal_wake(t);
    while (!v.done)
        pthread_cond_wait(&t->all->changed, &t->all->lock);
    *ret_result = v.result;
    return 0;
}

/* What the client sees first. Without the lock: it may have to wait. */
static void terminal_announce(struct live_call *c, const char *id, unsigned rows, unsigned cols)
{
    call_event(c,
               json_pack("{s:s, s:i, s:i}", "terminal", id, "rows", (int)rows, "cols", (int)cols));
}

static int terminal_attach(struct live_call *c, const char *id, json_t **ret_result,
                           struct error *err)
{
    struct terminals *all = call_box(c)->terminals;
    struct terminal *t;
    pthread_mutex_lock(&all->lock);
    int r = terminal_find(all, id, &t, err);
    unsigned rows = r == 0 ? t->rows : 0, cols = r == 0 ? t->cols : 0;
    pthread_mutex_unlock(&all->lock);
    if (r < 0)
        return r;
    terminal_announce(c, id, rows, cols);
    LOCKED(&all->lock);
    r = terminal_find(all, id, &t, err);
    return r < 0 ? r : terminal_view(t, c, ret_result, err);
}

static int terminal_begin(struct live_call *c, json_t **ret_result, struct error *err)
{
    struct terminals *all = call_box(c)->terminals;
    struct terminal *t = NULL;
    pthread_mutex_lock(&all->lock);
    bool full = all->count >= TERMINALS_MAX;
    pthread_mutex_unlock(&all->lock);
    if (full)
        return error_set(err, EBUSY, "the box has %d terminals already", TERMINALS_MAX);
    int r = terminal_new(c, &t, err);
    if (r < 0)
        return r;
    terminal_announce(c, t->id, t->rows, t->cols);
    LOCKED(&all->lock);
    r = terminal_add(all, t, err);
    if (r < 0) {
        terminal_free(t);
        return r;
    }
    return terminal_view(t, c, ret_result, err);
}

void box_call_terminal(struct live_call *c)
{
    struct error err = {0};
    const char *id = json_get_string(call_input(c), "id");
    json_t *result = NULL;
    int r = id ? terminal_attach(c, id, &result, &err) : terminal_begin(c, &result, &err);
    if (r < 0)
        call_fail(c, &err);
    else
        call_end(c, result);
}

void box_call_terminal_resize(struct live_call *c)
{
    struct error err = {0};
    struct terminals *all = call_box(c)->terminals;
    struct terminal *t;
    const json_t *input = call_input(c);
    pthread_mutex_lock(&all->lock);
    int r = terminal_find(all, json_get_string_or(input, "id", ""), &t, &err);
    if (r == 0 && t->to_guest.len > INPUT_MAX)
        r = error_set(&err, EBUSY, "the terminal takes no input");
    if (r == 0) {
        t->rows = terminal_size(input, "rows", t->rows);
        t->cols = terminal_size(input, "cols", t->cols);
        size_t begin = wire_begin(&t->to_guest, WIRE_RESIZE);
        wire_put_u64(&t->to_guest, WIRE_K_ROWS, t->rows);
        wire_put_u64(&t->to_guest, WIRE_K_COLS, t->cols);
        wire_end(&t->to_guest, begin);
        terminal_write_guest(t);
        terminal_wake(t);
    }
    pthread_mutex_unlock(&all->lock);
    if (r < 0)
        call_fail(c, &err);
    else
        call_end(c, NULL);
}
