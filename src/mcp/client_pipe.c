/* A server that is a program: started by the connection's thread, one message per line on its stdin
 * and stdout. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "client.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define PIECE       (64u << 10)
#define PATIENCE_MS 2000
#define SENT_KEPT   (4u << 20)

static int pipe_open(struct client *c, const struct client_options *o, struct error *err)
{
    return child_start(o->program, &c->pipe.child, err);
}

static int pipe_send(struct client *c, const json_t *message)
{
    int r = rpc_write(&c->pipe.out, message);
    c->pipe.out.failed = false; /* nothing of it was appended */
    return r;
}

int client_take_line(struct client *c, const char *line, size_t n, struct error *err)
{
    struct error why = {0};
    json_t *value = NULL;
    /* Some servers greet on stdout, against the rules: ignore what does not even look like JSON. */
    size_t blank = 0;
    while (blank < n && (line[blank] == ' ' || line[blank] == '\t'))
        blank++;
    if (blank == n || (line[blank] != '{' && line[blank] != '[')) {
        pthread_mutex_lock(&c->lock);
        unsigned noise = ++c->pipe.noise;
        pthread_mutex_unlock(&c->lock);
        return noise > MCP_CLIENT_NOISE_MAX
                   ? error_set(err, EPROTO, "it wrote more than %d lines that are no JSON",
                               MCP_CLIENT_NOISE_MAX)
                   : 0;
    }
    if (rpc_parse(line, n, &value, &why) < 0) {
        client_take_malformed(c, why.text);
        return 0;
    }
    int r = client_take(c, value, err);
    json_decref(value);
    return r;
}

/* Returns 1 with something read, 0 if there is nothing now, -EPIPE at the end. */
static int pipe_read_stdout(struct client *c, struct error *err)
{
    char piece[PIECE];
    const char *at = piece;
    struct rpc_line line;
    ssize_t got = read(c->pipe.child.out, piece, sizeof piece);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0)
        return error_set(err, EPIPE, "it closed its output");
    size_t n = (size_t)got;
    int r = client_count(c, n, err), taken = 0;
    while (r == 0 && (taken = rpc_take(&c->pipe.reader, &at, &n, &line)) > 0)
        r = client_take_line(c, line.data, line.size, err);
    if (r < 0)
        return r;
    return taken < 0 || c->pipe.reader.lost
               ? error_set(err, EPROTO, "it sent a message of more than %u bytes", RPC_MESSAGE_MAX)
               : 1;
}

/* Bytes that were sent are dropped now and then only, since that moves the rest. */
static int pipe_write_stdin(struct client *c, struct error *err)
{
    struct client_pipe *p = &c->pipe;
    int r = 0;
    LOCKED(&c->lock);
    size_t left = p->out.len - p->sent;
    ssize_t n = left ? write(p->child.in, p->out.data + p->sent, left < PIECE ? left : PIECE) : 0;
    if (n > 0)
        p->sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        r = error_set(err, EPIPE, "it closed its input");
    if (p->sent == p->out.len || p->sent > SENT_KEPT) {
        buf_consume(&p->out, p->sent);
        p->sent = 0;
    }
    return r;
}

static int pipe_step(struct client *c, struct error *err)
{
    struct child *child = &c->pipe.child;
    pthread_mutex_lock(&c->lock);
    bool full = c->pipe.out.len > 0;
    pthread_mutex_unlock(&c->lock);
    struct pollfd fds[] = {{.fd = c->wake, .events = POLLIN},
                           {.fd = child->out, .events = POLLIN},
                           {.fd = child->err, .events = POLLIN},
                           {.fd = full ? child->in : -1, .events = POLLOUT},
                           {.fd = child->pidfd, .events = POLLIN}};
    uint64_t count;
    if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
        return errno == EINTR ? 0 : error_errno(err, errno, "cannot wait for it");
    if (fds[0].revents)
        (void)!read(c->wake, &count, sizeof count);
    if (fds[2].revents) {
        char piece[4096];
        ssize_t n = read(child->err, piece, sizeof piece);
        if (n > 0)
            client_add_said(c, piece, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close(TAKE_FD(child->err));
    }
    int r = 1;
    if (fds[4].revents) { /* it ended; what it wrote before is at most what a pipe holds */
        while (r > 0)
            r = pipe_read_stdout(c, err);
        return r == 0 ? error_set(err, EPIPE, "it ended") : r;
    }
    r = fds[1].revents ? pipe_read_stdout(c, err) : 0;
    return r >= 0 && fds[3].revents ? pipe_write_stdin(c, err) : r;
}

static void pipe_close(struct client *c, bool stop, struct error *why)
{
    char piece[4096], name[32];
    struct child *child = &c->pipe.child;
    if (child->pid <= 0)
        return; /* it did not start: `why` says so */
    ssize_t n;
    for (int i = 0; i < 64 && (n = read(child->err, piece, sizeof piece)) > 0; i++)
        client_add_said(c, piece, (size_t)n);
    /* A server that ended by itself, or that we stop, may end in its own time; one that broke the
     * protocol may not. */
    bool ended = why->code == EPIPE;
    int status = child_end(child, stop || ended ? PATIENCE_MS : 0);
    if (ended && WIFEXITED(status)) {
        error_set(why, EPIPE, "it ended (exit status %d)", WEXITSTATUS(status));
    } else if (ended && WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM) {
        signame_format(WTERMSIG(status), name, sizeof name);
        error_set(why, EPIPE, "it was ended by %s", name);
    }
}

const struct client_transport CLIENT_PIPE = {
    .open = pipe_open, .send = pipe_send, .step = pipe_step, .close = pipe_close};
