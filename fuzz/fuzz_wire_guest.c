/*
 * The guest's side of the wire: connections with any bytes, through the loop, the table of requests
 * and the life of a command. What touches processes is made up (guest_fakes.c). Checks beside not
 * crashing: what the guest answers are sound frames of which at most one is a RESULT or ERROR, and
 * nothing is left once connections and commands ended.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command.h"
#include "compose.h"
#include "guest_fakes.h"
#include "io.h"
#include "shell/shell.h"
#include "banned.h"

#define PEERS_MAX   8
#define STEPS_MAX   10000
#define SHELL_TRIES 5
#define RAW         1u /* bits of the first byte */
#define WITH_FDS    2u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct guest *make_guest(void)
{
    struct guest *g = calloc(1, sizeof *g);
    require(g != NULL);
    g->next_handle = 1;
    return g;
}

/* Nothing keeps the loop busy for ever. */
static void run_until_idle(struct guest *g)
{
    int steps = 0;
    for (; steps < STEPS_MAX && poll(g->loop.polls, g->loop.count, 0) > 0; steps++)
        loop_step(&g->loop);
    require(steps < STEPS_MAX);
}

/* Sends everything at once and takes the guest's end; the other is returned. */
static int open_conn(struct guest *g, const struct buf *bytes, bool with_fds)
{
    int ends[2], fds[3];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    for (int i = 0; i < 3; i++)
        fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (bytes->len)
        require(io_send_fds(ends[0], bytes->data, bytes->len, fds, with_fds ? 3 : 0) ==
                (ssize_t)bytes->len);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    conn_open(g, ends[1]);
    run_until_idle(g);
    return ends[0];
}

static void check_answers(int fd)
{
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(fd);
    struct wire_frame f;
    int ends = 0, r;
    while (wire_fill(&in) > 0)
        while ((r = wire_take(&in, &f)) != 0) {
            require(r > 0 && ends == 0);
            ends += f.type == WIRE_RESULT || f.type == WIRE_ERROR;
            require(ends || f.type == WIRE_OUTPUT);
        }
    require(in.in.len == in.used);
}

static void end_processes(struct guest *g)
{
    struct rusage usage = {0};
    for (struct command *c = LIST_FIRST(&g->commands), *next; c; c = next) {
        next = LIST_NEXT(c, link);
        c->last = false; /* it would end this program */
        if (c->pid)
            command_exited(c, 0, &usage);
    }
    g->has_children = false;
    command_none_left(g);
    run_until_idle(g);
}

/* The processes of all commands end, as they do sooner or later; one that did not take its script
 * is followed by another, a few times. */
static void end_commands(struct guest *g)
{
    guest_fakes_end();
    for (int i = 0; i < SHELL_TRIES; i++)
        end_processes(g);
}

/* Shells that stand ready do so for ever. */
static void end_sessions(struct guest *g)
{
    struct session *s;
    LIST_FOREACH(s, &g->sessions, link)
    shell_discard_ready(s);
    end_processes(g);
    while ((s = LIST_FIRST(&g->sessions))) {
        LIST_REMOVE(s, link);
        buf_free(&s->raw);
        words_free(&s->seed);
        free(s);
    }
}

static void free_guest(struct guest *g)
{
    run_until_idle(g);
    end_sessions(g);
    require(g->n_conns == 0);
    while (!LIST_EMPTY(&g->commands)) {
        require(LIST_FIRST(&g->commands)->background);
        command_free(LIST_FIRST(&g->commands));
    }
    require(g->n_commands == 0 && LIST_EMPTY(&g->loop.timers));
    free(g->loop.polls);
    free(g->loop.sources);
    free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    signal(SIGPIPE, SIG_IGN); /* which does not end process 1 of a box either */
    struct guest *g = make_guest();
    int peers[PEERS_MAX];
    size_t count = 0;
    const uint8_t *at = data, *end = data + n;
    while (at < end && count < PEERS_MAX) {
        _cleanup_buf_ struct buf bytes = BUF_INIT(WIRE_BODY_MAX);
        uint8_t how = *at++;
        if (how & RAW)
            buf_append(&bytes, at, (size_t)(end - at));
        at += how & RAW ? (size_t)(end - at) : compose_frames(at, (size_t)(end - at), &bytes);
        peers[count++] = open_conn(g, &bytes, how & WITH_FDS);
    }
    end_commands(g);
    for (size_t i = 0; i < count; i++) {
        check_answers(peers[i]);
        close(peers[i]);
    }
    free_guest(g);
    return 0;
}
