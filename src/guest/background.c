#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "background.h"
#include "command.h"
#include "conn.h"
#include "error.h"
#include "guest.h"
#include "io.h"
#include "ptree.h"
#include "banned.h"

#define OUTPUT_DIR     "/tmp/.hutch"
#define REMEMBERED_MAX 256
#define NAMES_TRIED    10000
#define DRAIN_MAX      (4u << 20) /* more than a pipe holds */

/*
 * The folder is the agent's as much as ours, so nothing in it is trusted: only a file that did not
 * exist is used. One may exist, from the box that this one was forked off; its number is passed
 * over.
 */
static int open_output(struct guest *g, char *path, size_t size, int *ret_fd)
{
    mkdir(OUTPUT_DIR, 0700);
    for (int i = 0; i < NAMES_TRIED; i++, g->next_handle++) {
        snprintf(path, size, OUTPUT_DIR "/%llu.out", (unsigned long long)g->next_handle);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0) {
            *ret_fd = fd;
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

/* A box that stands still is being copied: its files must not change. */
static void log_ready(struct loop_source *s, short events)
{
    struct command *c = CONTAINER_OF(s, struct command, log.pipe);
    struct guest *g = c->guest;
    if (g->freeze.state != FREEZE_OFF) {
        loop_watch(&g->loop, s, 0);
        return;
    }
    c->log.keep = c->limits.log;
    output_log_step(&c->log, &g->loop, g->scratch, sizeof g->scratch);
    if (c->limits.output_total && c->log.total > c->limits.output_total && !c->limit)
        command_kill(c, WIRE_LIMIT_OUTPUT);
}

void background_thaw(struct guest *g)
{
    struct command *c;
    LIST_FOREACH(c, &g->commands, link)
    if (c->log.pipe.fd >= 0 && loop_watch(&g->loop, &c->log.pipe, POLLIN) < 0)
        loop_close(&g->loop, &c->log.pipe);
}

int background_open_output(struct command *c, int *ret_out, int *ret_err, struct error *err)
{
    char path[64];
    int ends[2];
    int r = open_output(c->guest, path, sizeof path, &c->log.file);
    if (r < 0)
        return error_errno(err, -r, "cannot make a file for the output under " OUTPUT_DIR);
    c->output_path = strdup(path);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot connect the command's output");
    _cleanup_fd_ int out = ends[1];
    c->log.pipe = (struct loop_source){.fd = ends[0], .ready = log_ready};
    int copy = fcntl(out, F_DUPFD_CLOEXEC, 3);
    if (copy < 0 || io_set_nonblock(ends[0], true) < 0 ||
        loop_watch(&c->guest->loop, &c->log.pipe, POLLIN) < 0) {
        r = errno;
        cleanup_close(&copy);
        return error_errno(err, r, "cannot connect the command's output");
    }
    *ret_out = TAKE_FD(out);
    *ret_err = copy;
    return 0;
}

static void put_handle(struct command *c, struct buf *b)
{
    wire_put_u64(b, WIRE_K_HANDLE, c->handle);
    if (c->output_path)
        wire_put_str(b, WIRE_K_OUTPUT_PATH, c->output_path);
}

void background_answer(struct command *c, struct conn *conn)
{
    c->handle = c->guest->next_handle++;
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    put_handle(c, &conn->out);
    wire_end(&conn->out, at);
    conn_finish(conn);
}

/* What the process wrote is in the log before its end is reported. Its tree may write on: only what
 * is there now counts. */
static void drain_log(struct command *c)
{
    uint64_t most = c->log.total + DRAIN_MAX;
    c->log.keep = c->limits.log;
    while (c->guest->freeze.state == FREEZE_OFF && c->log.total < most &&
           output_log_step(&c->log, &c->guest->loop, c->guest->scratch, sizeof c->guest->scratch))
        ;
}

void background_ended(struct command *c)
{
    drain_log(c);
    struct command *each, *oldest = NULL;
    unsigned ended = 0;
    LIST_FOREACH(each, &c->guest->commands, link)
    if (each->background && !each->pid) {
        ended++;
        if (each != c)
            oldest = each;
    }
    /* The newest come first in the list, so the last one seen is the oldest. */
    if (ended > REMEMBERED_MAX && oldest)
        command_free(oldest);
}

struct command *background_find(struct conn *conn, const struct wire_frame *f)
{
    uint64_t handle = wire_find_u64(f, WIRE_K_HANDLE, 0);
    struct command *c;
    LIST_FOREACH(c, &conn->guest->commands, link)
    if (c->background && c->handle == handle)
        return c;
    conn_error(
        conn, ESRCH,
        "there is no background command %llu: it is forgotten, or was started in another box",
        (unsigned long long)handle);
    return NULL;
}

/* New output, up to the wanted size: the mark moves past what is returned. */
static void put_news(struct command *c, struct buf *b, uint64_t most)
{
    uint8_t *first = c->guest->scratch, *last = first + sizeof c->guest->scratch / 2;
    size_t half = sizeof c->guest->scratch / 2;
    struct output_log_news news;
    output_log_read(&c->log, c->mark, first, last, most / 2 < half ? (size_t)(most / 2) : half,
                    &news);
    wire_put(b, WIRE_K_DATA, first, news.first);
    wire_put(b, WIRE_K_TAIL, last, news.last);
    wire_put_u64(b, WIRE_K_DROPPED, news.dropped);
    c->mark = c->log.total;
}

int background_status_request(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = background_find(conn, f);
    if (!c)
        return 0;
    uint64_t most = wire_find_u64(f, WIRE_K_LIMIT_BYTES, 0);
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    put_handle(c, &conn->out);
    /* One that is being killed runs until its tree is gone, too. */
    wire_put_u64(&conn->out, WIRE_K_RUNNING, c->pid != 0 || c->sweep.at != 0);
    wire_put_u64(&conn->out, WIRE_K_MARK, c->mark);
    if (c->output_path)
        wire_put_u64(&conn->out, WIRE_K_SIZE, c->log.total);
    c->mark = wire_find_u64(f, WIRE_K_MARK, c->mark);
    if (most)
        put_news(c, &conn->out, most);
    command_put_result(c, &conn->out);
    wire_end(&conn->out, at);
    conn_finish(conn);
    return 0;
}

int background_signal_request(struct conn *conn, const struct wire_frame *f)
{
    uint64_t sig = wire_find_u64(f, WIRE_K_SIGNAL, 0);
    struct command *c = background_find(conn, f);
    if (!c)
        return 0;
    if (sig == 0 || sig >= NSIG || !freeze_lets_pass(conn->guest, (int)sig)) {
        bool known = sig > 0 && sig < NSIG;
        conn_error(conn, known ? EBUSY : EINVAL,
                   known ? "the box is frozen" : "there is no such signal");
        return 0;
    }
    unsigned count = conn->guest->has_children ? ptree_signal(conn->guest, c->tag, (int)sig) : 0;
    if (sig == SIGKILL)
        command_kill(c, WIRE_LIMIT_NONE);
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    wire_put_u64(&conn->out, WIRE_K_COUNT, count);
    wire_end(&conn->out, at);
    conn_finish(conn);
    return 0;
}
