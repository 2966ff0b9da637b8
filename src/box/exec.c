/*
 * box_exec: one command from request to result.
 *
 * The request goes out with the ends of fresh pipes; then one poll loop (exec_loop.c) moves bytes,
 * watches limits and waits for the RESULT. The command has ended when its process has, which is
 * what the guest reports; by then its whole tree is dead, so what is left in the pipes is drained
 * and nothing is waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box_private.h"
#include "exec.h"
#include "io.h"
#include "banned.h"

#define REQUEST_MAX WIRE_BODY_MAX
#define PIPE_SIZE   (1 << 20)

int call_pipe(bool into_command, int *ret_ours, int *ret_theirs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_ours = ends[into_command ? 1 : 0];
    *ret_theirs = ends[into_command ? 0 : 1];
    return io_set_nonblock(*ret_ours, true);
}

static int open_null(int *ret_fd)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

static int make_pipes(struct call *c, int theirs[3])
{
    int r = c->in.from >= 0 ? call_pipe(true, &c->in.to, &theirs[0]) : open_null(&theirs[0]);
    if (r == 0)
        r = call_pipe(false, &c->out.from, &theirs[1]);
    if (r == 0)
        r = call_pipe(false, &c->err.from, &theirs[2]);
    if (r == 0)
        fcntl(c->out.from, F_SETPIPE_SZ, PIPE_SIZE); /* a wish: users have a quota of pipe memory */
    return r;
}

static int send_request(struct call *c, struct error *err)
{
    _cleanup_buf_ struct buf request = BUF_INIT(REQUEST_MAX);
    int theirs[3] = {-1, -1, -1};
    bool frames = c->command->tty || c->command->shell;
    int r = call_build_request(&request, c, c->command->tty ? WIRE_STDIO_PTY : WIRE_STDIO_FDS);
    if (r < 0)
        return error_set(err, E2BIG,
                         "the command, its input and its environment are longer than %u bytes",
                         REQUEST_MAX);
    r = frames ? 0 : make_pipes(c, theirs);
    pthread_rwlock_rdlock(&c->box->frozen); /* nothing is started while a snapshot is taken */
    if (r == 0)
        r = guest_connect(c->box->backend->guest(c->box->place), &request, theirs, frames ? 0 : 3,
                          &c->wire.fd);
    pthread_rwlock_unlock(&c->box->frozen);
    for (int i = 0; i < 3; i++)
        cleanup_close(&theirs[i]);
    return box_unreached(c->box, r, err);
}

int local_exec(struct box *b, const struct box_command *cmd, struct box_result *ret,
               struct error *err)
{
    struct box_result result;
    _cleanup_(call_free) struct call c;
    call_init(&c, b, cmd, &result);
    if (cmd->tty)
        call_tty_resize(&c);
    int r = send_request(&c, err);
    int up = b->backend->ready(b->place,
                               err); /* a box that is still being made finds the request waiting */
    if (up < 0)
        r = up;
    else if (cmd->last)
        b->backend->forget(b->place);
    while (r == 0 && !c.done)
        r = call_step(&c, err);
    if (r == 0)
        r = call_finish(&c, err);
    if (r < 0) {
        box_result_free(&result);
        return r;
    }
    *ret = result;
    return 0;
}

void box_result_free(struct box_result *r)
{
    buf_free(&r->out.head);
    buf_free(&r->out.tail);
    buf_free(&r->err.head);
    buf_free(&r->err.tail);
    free(r->cwd);
    free(r->notes);
    free(r->output_path);
    free(r->refused);
    r->refused = NULL;
    r->n_refused = 0;
    r->cwd = r->notes = r->output_path = NULL;
}
