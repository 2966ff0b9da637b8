#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "background.h"
#include "command.h"
#include "conn.h"
#include "error.h"
#include "guest.h"
#include "ptree.h"
#include "banned.h"

#define OUTPUT_DIR     "/tmp/.hutch"
#define REMEMBERED_MAX 256
#define NAMES_TRIED    10000

/*
 * The folder is the agent's as much as ours, so nothing in it is trusted: only a file that did not exist is
 * used. One may exist, from the box that this one was forked off; its number is passed over.
 */
static int open_output(struct guest *g, char *path, size_t size, int *ret_fd)
{
    mkdir(OUTPUT_DIR, 0700);
    for (int i = 0; i < NAMES_TRIED; i++, g->next_handle++) {
        snprintf(path, size, OUTPUT_DIR "/%llu.out", (unsigned long long)g->next_handle);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0) {
            *ret_fd = fd;
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

int background_open_output(struct command *c, int *ret_out, int *ret_err, struct error *err)
{
    char path[64];
    _cleanup_fd_ int out = -1;
    int r = open_output(c->guest, path, sizeof path, &out);
    if (r < 0)
        return error_errno(err, -r, "cannot make a file for the output under " OUTPUT_DIR);
    int copy = fcntl(out, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return error_errno(err, errno, "cannot connect the command's output");
    c->output_path = strdup(path);
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

void background_ended(struct command *c)
{
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
    conn_error(conn, ESRCH,
               "there is no background command %llu: it is forgotten, or was started in another box",
               (unsigned long long)handle);
    return NULL;
}

int background_status_request(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = background_find(conn, f);
    if (!c)
        return 0;
    struct stat st;
    size_t at = wire_begin(&conn->out, WIRE_RESULT);
    put_handle(c, &conn->out);
    wire_put_u64(&conn->out, WIRE_K_RUNNING, c->pid != 0);
    wire_put_u64(&conn->out, WIRE_K_MARK, c->mark);
    if (c->output_path && lstat(c->output_path, &st) == 0 && S_ISREG(st.st_mode))
        wire_put_u64(&conn->out, WIRE_K_SIZE, (uint64_t)st.st_size);
    c->mark = wire_find_u64(f, WIRE_K_MARK, c->mark);
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
        conn_error(conn, known ? EBUSY : EINVAL, known ? "the box is frozen" : "there is no such signal");
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
