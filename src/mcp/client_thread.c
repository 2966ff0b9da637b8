/* The thread of a connection: starts the server, moves bytes, notices its end, ends it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "client_private.h"
#include "foreign.h"
#include "names.h"
#include "banned.h"

#define PIECE       (64u << 10)
#define PATIENCE_MS 2000
#define SENT_KEPT   (4u << 20)

void client_last_words(struct client *c, char *text, size_t size)
{
    size_t end = c->n_said;
    text[0] = 0;
    while (end > 0 && strchr("\r\n \t", c->said[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && c->said[begin - 1] != '\n')
        begin--;
    _cleanup_free_ char *line = foreign_text(c->said + begin, end - begin, 400);
    if (line && *line)
        snprintf(text, size, "; it said: %s", line);
}

/* Keeps the end of what was said. */
static void keep_said(struct client *c, const char *data, size_t n)
{
    pthread_mutex_lock(&c->lock);
    if (n > sizeof c->said) {
        data += n - sizeof c->said;
        n = sizeof c->said;
    }
    size_t room = sizeof c->said - c->n_said;
    if (n > room) {
        size_t drop = n - room;
        memmove(c->said, c->said + drop, c->n_said - drop);
        c->n_said -= drop;
    }
    memcpy(c->said + c->n_said, data, n);
    c->n_said += n;
    pthread_mutex_unlock(&c->lock);
}

/* Reads what there is on stderr, a piece at a time. False at its end. */
static bool read_stderr(struct client *c)
{
    char piece[4096];
    ssize_t n = read(c->child.err, piece, sizeof piece);
    if (n > 0)
        keep_said(c, piece, (size_t)n);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static int take_lines(struct client *c, const char *data, size_t n, struct error *err)
{
    struct rpc_line line;
    int r;
    while ((r = rpc_take(&c->reader, &data, &n, &line)) > 0) {
        r = client_take_line(c, line.data, line.size, err);
        if (r < 0)
            return r;
    }
    return r < 0 || c->reader.lost
               ? error_set(err, EPROTO, "it sent a message of more than %u bytes", RPC_MESSAGE_MAX)
               : 0;
}

/* 1 with something read, 0 if there is nothing now, -EPIPE at the end. */
static int read_stdout(struct client *c, struct error *err)
{
    char piece[PIECE];
    ssize_t n = read(c->child.out, piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return error_set(err, EPIPE, "it closed its output");
    c->unanswered += (uint64_t)n;
    int r = take_lines(c, piece, (size_t)n, err);
    if (r == 0 && c->unanswered > MCP_CLIENT_FLOOD_MAX)
        r = error_set(err, EPROTO, "it sent more than %u bytes that answer nothing",
                      MCP_CLIENT_FLOOD_MAX);
    return r < 0 ? r : 1;
}

/* Gives the server of the queue what it takes. What was sent is dropped now and then, since that
 * moves the rest. */
static int write_stdin(struct client *c, struct error *err)
{
    int r = 0;
    pthread_mutex_lock(&c->lock);
    size_t left = c->out.len - c->sent;
    ssize_t n = left ? write(c->child.in, c->out.data + c->sent, left < PIECE ? left : PIECE) : 0;
    if (n > 0)
        c->sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        r = error_set(err, EPIPE, "it closed its input");
    if (c->sent == c->out.len || c->sent > SENT_KEPT) {
        buf_consume(&c->out, c->sent);
        c->sent = 0;
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}

/* It has ended: what it had written before is still there to be read, and no more than a pipe's
 * worth. */
static int take_rest(struct client *c, struct error *err)
{
    int r = 1;
    while (r > 0)
        r = read_stdout(c, err);
    return r == 0 ? error_set(err, EPIPE, "it ended") : r;
}

static void clear_wake(struct client *c)
{
    uint64_t count;
    (void)!read(c->wake, &count, sizeof count);
}

/* One round. Negative when the connection is over. */
static int step(struct client *c, bool *stop, struct error *err)
{
    pthread_mutex_lock(&c->lock);
    bool full = c->out.len > 0;
    *stop = c->stop;
    pthread_mutex_unlock(&c->lock);
    if (*stop)
        return error_set(err, ECANCELED, "it was asked to end");
    struct pollfd fds[] = {{.fd = c->wake, .events = POLLIN},
                           {.fd = c->child.out, .events = POLLIN},
                           {.fd = c->child.err, .events = POLLIN},
                           {.fd = full ? c->child.in : -1, .events = POLLOUT},
                           {.fd = c->child.pidfd, .events = POLLIN}};
    if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
        return errno == EINTR ? 0 : error_errno(err, errno, "cannot wait for it");
    if (fds[0].revents)
        clear_wake(c);
    if (fds[2].revents && !read_stderr(c))
        close(TAKE_FD(c->child.err));
    if (fds[4].revents)
        return take_rest(c, err);
    int r = fds[1].revents ? read_stdout(c, err) : 0;
    return r >= 0 && fds[3].revents ? write_stdin(c, err) : r;
}

/* How it ended, in words, if it did so by itself. */
static void say_status(int status, struct error *why)
{
    char name[32];
    if (WIFEXITED(status)) {
        error_set(why, EPIPE, "it ended (exit status %d)", WEXITSTATUS(status));
    } else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM) {
        signame_format(WTERMSIG(status), name, sizeof name);
        error_set(why, EPIPE, "it was ended by %s", name);
    }
}

static void be_dead(struct client *c, const struct error *why)
{
    char words[600];
    pthread_mutex_lock(&c->lock);
    client_last_words(c, words, sizeof words);
    if (!c->dead)
        error_set(&c->why, why->code, "the MCP server '%s' failed: %.300s%s", c->name, why->text,
                  words);
    c->dead = true;
    struct error told = c->why;
    if (told.code == ESTALE) /* what was under way may have been done: it is not to be sent again */
        told.code = EPIPE;
    for (struct waiter *w = c->waiters; w; w = w->next)
        client_fail(w, &told);
    pthread_cond_broadcast(&c->started);
    pthread_mutex_unlock(&c->lock);
}

static void drain_stderr(struct client *c)
{
    char piece[4096];
    for (int i = 0; i < 64 && c->child.err >= 0; i++) {
        ssize_t n = read(c->child.err, piece, sizeof piece);
        if (n <= 0)
            return;
        keep_said(c, piece, (size_t)n);
    }
}

static void serve(struct client *c)
{
    struct error err = {0};
    bool stop = false;
    int r = 0;
    while (r >= 0)
        r = step(c, &stop, &err);
    drain_stderr(c);
    /* One that broke off is given no time to say good-bye in, but what ended by itself tells how.
     */
    bool ended = err.code == EPIPE;
    int left = child_end(&c->child, stop || ended ? PATIENCE_MS : 0);
    if (ended)
        say_status(left, &err);
    be_dead(c, &err);
}

/* Signals are for the threads that know about them; writing to a pipe that nobody reads is an error
 * here. */
static void block_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

void *client_thread(void *client)
{
    struct client *c = client;
    struct error err = {0};
    block_signals();
    if (child_start(&c->options->program, &c->child, &err) < 0) {
        be_dead(c, &err);
        return NULL;
    }
    pthread_mutex_lock(&c->lock);
    c->ready = true;
    pthread_cond_broadcast(&c->started);
    pthread_mutex_unlock(&c->lock);
    serve(c);
    return NULL;
}
