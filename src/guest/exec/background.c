/* Background commands: their output, what the guest remembers of them, STATUS and SIGNAL. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "error.h"
#include "io.h"
#include "banned.h"

#define OUTPUT_DIR     "/tmp/.hutch"
#define REMEMBERED_MAX 256
#define NAMES_TRIED    10000
#define DRAIN_MAX      (4u << 20) /* more than a pipe holds */

static void background_log_ready(struct loop_source *s, short events)
{
    struct command *c = CONTAINER_OF(s, struct command, log.pipe);
    struct guest *g = c->guest;
    if (g->freeze.state !=
        FREEZE_OFF) { /* a frozen box is being copied: its files stay as they are */
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
    struct guest *g = c->guest;
    char path[64];
    int ends[2];

    /* The agent can write the folder, so only a file that did not exist is used. One may exist,
     * from the box that this one was forked off; its number is skipped. */
    mkdir(OUTPUT_DIR, 0700);
    errno = EEXIST;
    for (int i = 0; i < NAMES_TRIED && c->log.file < 0 && errno == EEXIST; i++) {
        if (i > 0)
            g->next_handle++;
        snprintf(path, sizeof path, OUTPUT_DIR "/%llu.out", (unsigned long long)g->next_handle);
        c->log.file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (c->log.file < 0)
        return error_errno(err, errno, "cannot make a file for the output under " OUTPUT_DIR);
    c->output_path = strdup(path);

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot connect the command's output");
    _cleanup_fd_ int out = ends[1], copy = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    c->log.pipe = (struct loop_source){.fd = ends[0], .ready = background_log_ready};
    if (copy < 0 || io_set_nonblock(ends[0], true) < 0 ||
        loop_watch(&g->loop, &c->log.pipe, POLLIN) < 0)
        return error_errno(err, errno, "cannot connect the command's output");
    *ret_out = TAKE_FD(out);
    *ret_err = TAKE_FD(copy);
    return 0;
}

static void background_put_handle(struct command *c, struct buf *b)
{
    wire_put_u64(b, WIRE_K_HANDLE, c->handle);
    if (c->output_path)
        wire_put_str(b, WIRE_K_OUTPUT_PATH, c->output_path);
}

void background_answer(struct command *c, struct conn *conn)
{
    c->handle = c->guest->next_handle++;
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    background_put_handle(c, &conn->out);
    wire_end(&conn->out, at);
    conn_finish(conn);
}

void background_ended(struct command *c)
{
    struct guest *g = c->guest;
    /* What the process wrote is in the log before its end is reported. Its tree may write on: only
     * what is there now counts. */
    uint64_t most = c->log.total + DRAIN_MAX;
    c->log.keep = c->limits.log;
    while (g->freeze.state == FREEZE_OFF && c->log.total < most &&
           output_log_step(&c->log, &g->loop, g->scratch, sizeof g->scratch))
        ;

    /* The newest come first in the list, so the last one seen is the oldest. */
    struct command *each, *oldest = NULL;
    unsigned ended = 0;
    LIST_FOREACH(each, &g->commands, link)
    if (each->background && !each->pid) {
        ended++;
        if (each != c)
            oldest = each;
    }
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
        "there is no background command %llu: it ended long ago, or was started in another box",
        (unsigned long long)handle);
    return NULL;
}

int background_status_request(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = background_find(conn, f);
    struct buf *b = &conn->out;
    if (!c)
        return 0;
    size_t at = wire_begin(b, WIRE_RESULT);
    background_put_handle(c, b);
    /* One that is being killed runs until its tree is gone, too. */
    wire_put_u64(b, WIRE_K_RUNNING, c->pid != 0 || c->sweep.at != 0);
    wire_put_u64(b, WIRE_K_MARK, c->mark);
    if (c->output_path)
        wire_put_u64(b, WIRE_K_SIZE, c->log.total);

    /* New output, up to the wanted size: the mark moves past what is returned. */
    c->mark = wire_find_u64(f, WIRE_K_MARK, c->mark);
    uint64_t most = wire_find_u64(f, WIRE_K_LIMIT_BYTES, 0);
    if (most) {
        size_t half = sizeof c->guest->scratch / 2;
        uint8_t *first = c->guest->scratch, *last = first + half;
        struct output_log_news news;
        output_log_read(&c->log, c->mark, first, last, most / 2 < half ? (size_t)(most / 2) : half,
                        &news);
        wire_put(b, WIRE_K_DATA, first, news.first);
        wire_put(b, WIRE_K_TAIL, last, news.last);
        wire_put_u64(b, WIRE_K_DROPPED, news.dropped);
        c->mark = c->log.total;
    }
    command_put_result(c, b);
    wire_end(b, at);
    conn_finish(conn);
    return 0;
}

int background_signal_request(struct conn *conn, const struct wire_frame *f)
{
    struct guest *g = conn->guest;
    uint64_t sig = wire_find_u64(f, WIRE_K_SIGNAL, 0);
    struct command *c = background_find(conn, f);
    if (!c)
        return 0;
    if (sig == 0 || sig >= NSIG) {
        conn_error(conn, EINVAL, "there is no signal %llu", (unsigned long long)sig);
        return 0;
    }
    if (sig == SIGCONT && g->freeze.state != FREEZE_OFF) {
        conn_error(conn, EBUSY, "the box is frozen while a snapshot is taken");
        return 0;
    }
    unsigned count = g->has_children ? ptree_signal(g, c->tag, (int)sig) : 0;
    if (sig == SIGKILL)
        command_kill(c, WIRE_LIMIT_NONE);
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    wire_put_u64(&conn->out, WIRE_K_COUNT, count);
    wire_end(&conn->out, at);
    conn_finish(conn);
    return 0;
}
