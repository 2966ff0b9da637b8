/*
 * The host's side of the wire: whatever a guest or a diff worker may answer to a command, a list of
 * changes, a diff or a file. Checks beside not crashing: what comes out keeps to what its header
 * promises.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "box_internal.h"
#include "apply.h"
#include "compose.h"
#include "io.h"
#include "relpath.h"
#include "banned.h"

#define RAW      1u /* bits of the first byte; those above pick the request */
#define CAPTURE  2u
#define TTY      4u
#define KEPT_MAX 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What the other end says; and that end, which stays open so that a request can be sent to it. */
static struct buf answer;
static int peer = -1;

/* A connection whose other end has said all it ever will. */
static int connect_to_answer(void)
{
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    if (answer.len)
        require(io_send_fds(ends[1], answer.data, answer.len, NULL, 0) == (ssize_t)answer.len);
    shutdown(ends[1], SHUT_WR);
    peer = ends[1];
    return ends[0];
}

static void check_changes(unsigned how)
{
    _cleanup_fd_ int conn = connect_to_answer();
    struct box_changes list = {0};
    struct error err = {0};
    int r = changes_read(conn, &list, &err);
    require(r >= 0 || (err.text[0] && list.count == 0));
    for (size_t i = 0; i < list.count; i++) {
        require(relpath_is_valid(list.items[i].path, strlen(list.items[i].path)));
        require(list.items[i].kind >= WIRE_ADDED && list.items[i].kind <= WIRE_DELETED);
    }
    box_changes_free(&list);
}

static void check_diff(unsigned how)
{
    _cleanup_fd_ int conn = connect_to_answer(), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct error err = {0};
    require(changes_diff(conn, how & CAPTURE, null, &err) >= 0 || err.text[0]);
}

struct sink {
    uint64_t size, at;
};

/* Bytes come in order and never past the size that was said. */
static int put(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct sink *s = data;
    require(offset >= s->at && offset <= s->size && n <= s->size - offset);
    s->at = offset + n;
    return 0;
}

static void check_fetch(unsigned how)
{
    _cleanup_fd_ int conn = connect_to_answer();
    struct sink s = {.size = how & CAPTURE ? 4 : UINT64_MAX};
    struct error err = {0};
    require(changes_fetch(conn, "a/b", s.size, &(struct fetch_sink){put, &s}, &err) == 0 ||
            err.text[0]);
}

/* Whatever paths are named as touched, the table holds valid ones. /dev/null is no folder: nothing
 * is found. */
static void check_touched(unsigned how)
{
    _cleanup_fd_ int conn = connect_to_answer(), folder = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct seen *seen = seen_new();
    struct error err = {0};
    require(seen && (seen_note_touched(seen, folder, 1, conn, &err) == 0 || err.text[0]));
    for (const struct seen_entry *e = seen_first(seen); e; e = e->next)
        require(relpath_is_valid(e->path, strlen(e->path)) && e->state == SEEN_UNKNOWN);
    seen_unref(seen);
}

static int is_up(struct machine *m, struct error *err)
{
    return 0;
}

static void no_status(struct machine *m, int wait_ms, struct machine_status *ret)
{
    *ret = (struct machine_status){.has_ended = true};
}

static void no_kill(struct machine *m) {}

/* The guest writes a word to stdout and answers. */
static int connect_guest(struct machine *m, struct buf *request, const int *fds, size_t n_fds,
                         int *ret_fd)
{
    if (n_fds == 3)
        require(write(fds[1], "word\n", 5) == 5);
    *ret_fd = connect_to_answer();
    return 0;
}

static void check_capture(const struct box_capture *c)
{
    require(c->head.len + c->tail.len <= KEPT_MAX && c->head.len + c->tail.len <= c->total);
    require(c->tail.len == 0 || c->head.len == KEPT_MAX / 2);
}

static void check_exec(unsigned how)
{
    static const struct backend backend = {
        .wait = is_up, .connect = connect_guest, .status = no_status, .kill = no_kill};
    static struct machine machine = {.backend = &backend, .refs = 1};
    static char word[] = "true", *argv[] = {word, NULL};
    _cleanup_fd_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct box box = {.ops = &LOCAL_BOX,
                      .machine = &machine,
                      .limits = {.output = KEPT_MAX, .output_total = 1000}};
    struct box_command c = {.argv = argv, .in = -1, .out = null, .err = null, .cancel = -1};
    struct box_result result = {0};
    struct error err = {0};
    c.tty = how & TTY;
    c.capture = how & CAPTURE;
    int r = box_exec(&box, &c, &result, &err);
    require(r == 0 || err.text[0]);
    if (r < 0)
        return;
    require(result.exit_code >= 0 && result.exit_code <= 255 && result.signal >= 0 &&
            result.signal < NSIG);
    require(result.limit <= WIRE_LIMIT_OUTPUT && result.duration_ns >= 0 && result.cpu_ns >= 0);
    check_capture(&result.out);
    check_capture(&result.err);
    box_result_free(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static void (*const checks[])(unsigned how) = {check_exec, check_changes, check_fetch,
                                                   check_diff, check_touched};
    if (n == 0)
        return 0;
    answer = BUF_INIT(WIRE_BODY_MAX);
    if (data[0] & RAW)
        buf_append(&answer, data + 1, n - 1);
    else
        compose_frames(data + 1, n - 1, &answer);
    checks[(data[0] >> 3 & 7) % ARRAY_SIZE(checks)](data[0]);
    close(TAKE_FD(peer));
    buf_free(&answer);
    return 0;
}
