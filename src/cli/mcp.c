/*
 * `hutch mcp`: the tools as an MCP server on stdin and stdout, for one client.
 *
 * This thread reads and feeds the server; answers come from any thread. It ends when the client
 * closes stdin (or goes away), or at a signal; calls that still run then are cancelled. stdout
 * carries the protocol and nothing else.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli.h"
#include "git.h"
#include "mcp.h"
#include "net_policy.h"
#include "rpc.h"
#include "run_options.h"
#include "session.h"
#include "banned.h"

#define SEND_MAX    (64u << 20)
#define CACHE_BYTES (64u << 20)
#define TICK_MS     250
#define GRACE_MS    1000 /* for calls that are nearly done when the client closes stdin */

struct mcp_stdio {
    struct tool_open tools;
    struct mcp_server *server;
    int interrupt, stop; /* become readable when nothing may be waited for any more */
    struct buf out;
    bool gone; /* nobody reads stdout; guarded by the server, which sends one message at a time */
    bool box_ended; /* and a message said so */
};

/* A client that does not read must not keep the server from ending: no more is written at once than
 * a pipe or socket that is ready surely takes. False: nothing more can be written. */
static bool mcp_stdio_write(const struct mcp_stdio *d)
{
    for (size_t at = 0; at < d->out.len;) {
        struct pollfd fds[] = {{.fd = STDOUT_FILENO, .events = POLLOUT},
                               {.fd = d->interrupt, .events = POLLIN},
                               {.fd = d->stop, .events = POLLIN}};
        size_t piece = d->out.len - at < PIPE_BUF ? d->out.len - at : PIPE_BUF;
        if (poll(fds, ARRAY_SIZE(fds), -1) < 0) {
            if (errno != EINTR)
                return false;
            continue;
        }
        if (fds[1].revents || fds[2].revents || fds[0].revents & POLLERR)
            return false;
        ssize_t n = write(STDOUT_FILENO, d->out.data + at, piece);
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            if (errno != EPIPE) /* a client that goes away ends the server as usual */
                output_failed(errno);
            return false;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static int mcp_stdio_send(void *data, const json_t *request, const json_t *message)
{
    struct mcp_stdio *d = data;
    const uint64_t one = 1;
    d->out.len = 0;
    d->out.failed = false;
    if (d->gone)
        return 0;
    int r = rpc_write(&d->out, message);
    d->gone = r == 0 && !mcp_stdio_write(d);
    if (d->gone && output_is_lost() && write(d->stop, &one, sizeof one) < 0)
        return -errno;
    return r;
}

/* Waits for input. Between calls it watches the box, which nobody else does then. False: the server
 * must end. */
static bool mcp_stdio_wait(struct mcp_stdio *d)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = d->interrupt, .events = POLLIN},
                           {.fd = STDOUT_FILENO},
                           {.fd = d->stop, .events = POLLIN}};
    struct error err;
    for (;;) {
        int n = poll(fds, ARRAY_SIZE(fds), box_id(d->tools.box) ? -1 : TICK_MS);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            return !fds[1].revents && !(fds[2].revents & POLLERR) && !fds[3].revents;
        if (n == 0 && !d->box_ended && mcp_server_idle(d->server, 0) &&
            box_tick(d->tools.box, &err) < 0) {
            d->box_ended = true;
            say("%s; all further calls will fail", err.text);
        }
    }
}

static void mcp_stdio_serve(struct mcp_stdio *d)
{
    _cleanup_rpc_reader_ struct rpc_reader in = RPC_READER_INIT(RPC_MESSAGE_MAX);
    char bytes[64 << 10];
    bool ended = false;
    while (!ended && mcp_stdio_wait(d)) {
        ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        ended = got <= 0;
        const char *data = ended ? "\n" : bytes; /* ends a last line that has no end */
        size_t n = ended ? 1 : (size_t)got;
        struct rpc_line line;
        for (int r; (r = rpc_take(&in, &data, &n, &line)) != 0;) {
            if (r > 0)
                mcp_server_take(d->server, line.data, line.size);
            else
                mcp_server_refuse(d->server, "the message is longer than 16 MiB");
        }
    }
    if (ended)
        mcp_server_idle(d->server, GRACE_MS);
}

/* When a fresh box ends: applies its changes, or says that they are lost. */
static int mcp_settle_changes(const struct run_options *o, struct box *b)
{
    struct box_changes changes = {0};
    struct git_path inside;
    size_t n = 0;
    if (o->box_id || o->spec.box.mode != BOX_COW)
        return 0;
    if (o->apply)
        return apply_box(b, &(struct apply_options){.allow_git_dirs = o->allow_git_dirs},
                         o->spec.box.limits.disk);
    if (box_changes(b, &changes, NULL) < 0)
        return 0;
    for (size_t i = 0; i < changes.count; i++)
        n += !git_path_split(changes.items[i].path, &inside) || inside.kind == GIT_PATH_COMMITS;
    box_changes_free(&changes);
    if (n > 0)
        say("%zu change%s dropped with the box; to keep changes, use --apply, --mode direct or "
            "--box",
            n, n == 1 ? " was" : "s were");
    return 0;
}

/* For the client's model: where it is, and what becomes of what it does. */
#define WHERE "These tools work in a sandbox that shows the user's folder at /workspace"
#define USE   " Use these tools instead of others for commands and files of the workspace."

static const char *mcp_instructions(const struct run_options *o)
{
    if (o->box_id)
        return WHERE ". The resource hutch://diff shows the changes that are not applied yet." USE;
    if (o->spec.box.mode == BOX_COW)
        return WHERE ". Your changes stay in the sandbox until the user applies them; the "
                     "resource hutch://diff shows them." USE;
    if (o->spec.box.mode == BOX_DIRECT)
        return WHERE ". Your changes reach the user's folder immediately." USE;
    return WHERE ", which is read-only." USE;
}

static int mcp_run(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct mcp_stdio d = {.interrupt = -1, .stop = -1, .out = BUF_INIT(SEND_MAX)};
    struct error err = {0};
    const uint64_t one = 1;
    int n, status;
    run_options_init(&o);
    if (!command_words(self, argc, argv, &o, 0, 0, &n, &status))
        return status;
    if (o.apply && o.spec.box.mode != BOX_COW) {
        say(APPLY_NEEDS_COW);
        return EXIT_USAGE;
    }
    struct tool_cache *cache = o.cache ? tool_cache_new(CACHE_BYTES) : NULL;
    d.interrupt = interrupt_watch(&err);
    d.stop = eventfd(0, EFD_CLOEXEC);
    int r = d.interrupt < 0 ? d.interrupt
            : d.stop < 0    ? error_errno(&err, errno, "cannot create an eventfd")
                            : tool_open(&o, NULL, &d.tools, &err);
    if (r == 0 && o.cache && !cache)
        r = error_set(&err, ENOMEM, "no memory for the cache");
    if (r == 0)
        tool_session_set_cache(d.tools.session, cache);
    if (r == 0)
        r = mcp_server_new(
            &(struct mcp_options){.session = d.tools.session,
                                  .open_world = o.box_id || o.spec.box.net->reaches_out,
                                  .instructions = mcp_instructions(&o),
                                  .send = mcp_stdio_send,
                                  .data = &d},
            &d.server, &err);
    if (r < 0) {
        status = say_failure(&err);
    } else {
        if (isatty(STDIN_FILENO))
            say("waiting for MCP messages on stdin; usually a client starts this command, see "
                "'hutch mcp --help'");
        mcp_stdio_serve(&d);
        bool stopped = write(d.stop, &one, sizeof one) == sizeof one;
        d.server = mcp_server_free(d.server);
        status = stopped ? mcp_settle_changes(&o, d.tools.box) : EXIT_HUTCH;
    }
    mcp_server_free(d.server);
    tool_close(&d.tools);
    tool_cache_free(cache);
    buf_free(&d.out);
    cleanup_close(&d.stop);
    return status;
}

const struct command_body COMMAND_MCP = {
    .usage = "[OPTIONS]",
    .options = {{RUN_OPTIONS, FOR_MCP}, {BOX_OPTIONS, BOX_OPTION_NEW}},
    .notes =
        "An MCP client starts this command and talks to it on stdin and stdout; docs/mcp.md shows "
        "how to configure clients. A fresh box is removed at the end, with its changes, unless "
        "--apply or --mode direct is given; use --box for a box that stays.",
    .run = mcp_run};
