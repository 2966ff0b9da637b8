#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "adopt.h"
#include "clock.h"
#include "command.h"
#include "conn.h"
#include "exec.h"
#include "guest.h"
#include "wire_adopt.h"
#include "banned.h"

static void say(struct command *c, enum wire_type type)
{
    wire_end(&c->conn->out, wire_begin(&c->conn->out, type));
    conn_push(c->conn);
}

/* Alive or dead already, a child of ours can be waited for. */
static bool is_child(pid_t pid)
{
    siginfo_t info;
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void refuse(struct command *c, int code, const char *why)
{
    conn_error(TAKE_PTR(c->conn), code, "the box cannot be entered: cannot %s: %s", why,
               strerror(code));
    command_free(c);
}

static void take_in(struct command *c, pid_t pid)
{
    const struct adopt_go go = {.tag = c->tag, .files = c->limits.files};
    c->pid = pid;
    c->started = clock_now();
    c->guest->has_children = true;
    /* If it cannot be told it is gone, and we are about to be told so. */
    send(c->arrival.fd, &go, sizeof go, MSG_NOSIGNAL | MSG_DONTWAIT);
    loop_close(&c->guest->loop, &c->arrival);
    command_arm(c);
    say(c, WIRE_ARRIVED);
}

static void arrival_ready(struct loop_source *s, short events)
{
    struct command *c = CONTAINER_OF(s, struct command, arrival);
    struct adopt_hello hello = {0};
    ssize_t n = recv(s->fd, &hello, sizeof hello, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    hello.step[sizeof hello.step - 1] = 0;
    if (n != sizeof hello)
        refuse(c, ENOLINK, "meet the process that was to come");
    else if (hello.pid == 0)
        refuse(c, hello.code, hello.step);
    else if (hello.pid == 1 || !is_child(hello.pid))
        refuse(c, ESRCH, "find the process");
    else
        take_in(c, hello.pid);
}

static int await(struct command *c, struct conn *conn)
{
    if (conn->in.n_fds != 1)
        return -EINVAL;
    conn->in.n_fds = 0;
    c->arrival = (struct loop_source){.fd = conn->in.fds[0], .ready = arrival_ready};
    return loop_watch(&c->guest->loop, &c->arrival, POLLIN);
}

int adopt_request(struct conn *conn, const struct wire_frame *f)
{
    struct command *c = command_new(conn->guest);
    if (!c) {
        conn_error(conn, EAGAIN, "too many commands are running");
        return 0;
    }
    exec_parse_limits(&c->limits, f);
    c->status = SIGKILL; /* how one ends that never came */
    int r = await(c, conn);
    if (r < 0) {
        command_free(c);
        conn_error(conn, -r, "cannot wait for a process to come");
        return 0;
    }
    command_serve(c, conn);
    say(c, WIRE_WAITING);
    return 0;
}
