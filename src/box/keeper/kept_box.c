/*
 * The client's side of a keeper (keeper.h): a box that a keeper holds, behind the same calls as a
 * box of this process. One connection and one request per call.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply.h"
#include "box_internal.h"
#include "io.h"
#include "keeper_internal.h"
#include "banned.h"

#define TICK_MS     100
#define REQUEST_MAX (WIRE_HEADER + WIRE_BODY_MAX)

/* One request to the keeper of a box and its answers. */
struct keeper_ask {
    const char *id;
    int conn;
    struct buf out;
    size_t begin;
    struct wire_reader reader;
};

static void ask_free(struct keeper_ask *a)
{
    wire_reader_free(&a->reader);
    buf_free(&a->out);
    cleanup_close(&a->conn);
}
#define _cleanup_ask_ _cleanup_(ask_free)

static int ask_begin(struct keeper_ask *a, struct box *b, enum keeper_type type, struct error *err)
{
    *a = (struct keeper_ask){.id = b->id.text, .conn = -1, .out = BUF_INIT(REQUEST_MAX)};
    int r = registry_connect(b->registry, a->id, &a->conn);
    if (r == -ENOENT || r == -ECONNREFUSED)
        return error_set(err, ENOENT, "the box '%s' is gone", a->id);
    if (r < 0)
        return error_errno(err, -r, "cannot reach the box '%s'", a->id);
    a->reader = WIRE_READER_INIT(a->conn);
    a->begin = wire_begin(&a->out, (enum wire_type)type);
    return 0;
}

static int ask_send(struct keeper_ask *a, const int *fds, size_t n_fds, struct error *err)
{
    wire_end(&a->out, a->begin);
    if (a->out.failed)
        return error_set(err, E2BIG,
                         "the request is too long: command line, environment and input together "
                         "must be less than 1M");
    int r = wire_send(a->conn, &a->out, fds, n_fds);
    return r < 0 ? error_errno(err, -r, "cannot send to the box '%s'", a->id) : 0;
}

/* The next answer: 1 with a frame, or a negative errno when it is an error or there is none. */
static int ask_next(struct keeper_ask *a, struct wire_frame *ret, struct error *err)
{
    if (wire_read(&a->reader, ret) <= 0)
        return error_set(err, EPIPE, "the box '%s' ended", a->id);
    return ret->type == WIRE_ERROR ? wire_error(ret, "the box failed", err) : 1;
}

/* Sends the request and reads its result, where nothing comes before that. */
static int ask_result(struct keeper_ask *a, struct wire_frame *ret, struct error *err)
{
    int r = ask_send(a, NULL, 0, err);
    return r < 0 ? r : ask_next(a, ret, err);
}

/* A request without fields, of whose result nothing is read. */
static int ask_plain(struct box *b, enum keeper_type type, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int r = ask_begin(&a, b, type, err);
    if (r == 0)
        r = ask_result(&a, &frame, err);
    return r < 0 ? r : 0;
}

/* The stream to the guest that comes with the result. */
static int ask_stream(struct keeper_ask *a, int *ret_fd, struct error *err)
{
    struct wire_frame frame;
    int r = ask_next(a, &frame, err);
    if (r < 0)
        return r;
    if (a->reader.n_fds < 1)
        return error_set(err, EPROTO, "the keeper of the box '%s' sent no stream", a->id);
    *ret_fd = TAKE_FD(a->reader.fds[0]);
    return 0;
}

/* The keeper connects to the guest and hands us the stream. */
static int kept_connect(struct box *b, struct buf *request, int *ret_fd, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    int r = ask_begin(&a, b, KEEPER_CONNECT, err);
    if (r == 0)
        r = ask_send(&a, NULL, 0, err);
    if (r < 0)
        return r;
    r = wire_send(a.conn, request, NULL, 0);
    if (r < 0)
        return error_errno(err, -r, "cannot send to the box '%s'", a.id);
    return ask_stream(&a, ret_fd, err);
}

static int kept_terminal(struct box *b, const struct box_command *c, unsigned rows, unsigned cols,
                         int *ret_fd, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    int r = ask_begin(&a, b, KEEPER_TERMINAL, err);
    if (r < 0)
        return r;
    keeper_put_command(&a.out, c);
    wire_put_u64(&a.out, WIRE_K_ROWS, rows);
    wire_put_u64(&a.out, WIRE_K_COLS, cols);
    r = ask_send(&a, NULL, 0, err);
    return r < 0 ? r : ask_stream(&a, ret_fd, err);
}

/* Moves what is in the pipe to the sink. False at its end. */
static bool sink_drain_once(int from, const struct box_sink *sink)
{
    char data[WIRE_DATA_MAX];
    ssize_t n = read(from, data, sizeof data);
    if (n > 0)
        sink->write(sink->data, data, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Waits for the first piece of the answer, for the caller's cancel, and for output to the sink. All
 * output has come by then, since the keeper closes its end of the pipe after the answer. */
static int exec_wait(struct keeper_ask *a, const struct box_command *c, int *output,
                     struct error *err)
{
    bool ticks = c->sink && c->sink->tick;
    for (;;) {
        struct pollfd fds[] = {{.fd = a->conn, .events = POLLIN},
                               {.fd = c->cancel, .events = POLLIN},
                               {.fd = *output, .events = POLLIN}};
        int n = poll(fds, ARRAY_SIZE(fds), ticks ? TICK_MS : -1);
        if (n < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot wait for the command");
        if (n > 0 && fds[1].revents)
            return error_set(err, ECANCELED, "the command was cancelled");
        if (n > 0 && fds[2].revents && !sink_drain_once(*output, c->sink))
            close(TAKE_FD(*output));
        if (n > 0 && fds[0].revents)
            break;
        if (ticks)
            c->sink->tick(c->sink->data);
    }
    while (*output >= 0 && sink_drain_once(*output, c->sink))
        ;
    return 0;
}

static int kept_exec(struct box *b, const struct box_command *c, struct box_result *ret,
                     struct error *err)
{
    const struct box_capture unlimited = {.head = BUF_INIT(SIZE_MAX / 2),
                                          .tail = BUF_INIT(SIZE_MAX / 2)};
    _cleanup_(box_result_free) struct box_result result = {.out = unlimited, .err = unlimited};
    struct buf *const kept[] = {[KEEPER_OUT_HEAD] = &result.out.head,
                                [KEEPER_OUT_TAIL] = &result.out.tail,
                                [KEEPER_ERR_HEAD] = &result.err.head,
                                [KEEPER_ERR_TAIL] = &result.err.tail};
    _cleanup_ask_ struct keeper_ask a;
    int r = ask_begin(&a, b, KEEPER_EXEC, err);
    if (r < 0)
        return r;
    keeper_put_command(&a.out, c);

    _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int ends[2] = {-1, -1};
    if (c->sink && pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    _cleanup_fd_ int ours = ends[0];
    int out = ends[1] >= 0 ? ends[1] : c->out >= 0 ? c->out : null;
    int fds[] = {c->in >= 0 ? c->in : null, out, c->err >= 0 ? c->err : null};
    r = ask_send(&a, fds, ARRAY_SIZE(fds), err);
    cleanup_close(&ends[1]);
    if (r == 0)
        r = exec_wait(&a, c, &ours, err);
    while (r == 0) {
        struct wire_frame frame;
        struct wire_field data;
        r = ask_next(&a, &frame, err);
        if (r < 0)
            return r;
        if (frame.type == WIRE_RESULT) {
            keeper_find_result(&frame, &result);
            *ret = result;
            result = (struct box_result){0};
            return 0;
        }
        uint64_t stream = wire_find_u64(&frame, WIRE_K_STREAM, 0);
        if (stream >= ARRAY_SIZE(kept) || !kept[stream] || !wire_find(&frame, WIRE_K_DATA, &data))
            return error_set(err, EPROTO, "the keeper of the box '%s' sent a malformed answer",
                             a.id);
        r = buf_append(kept[stream], data.data, data.size);
        if (r < 0)
            return error_errno(err, -r, "cannot keep the output of the command");
    }
    return r;
}

static int kept_changes(struct box *b, struct box_changes *ret, struct error *err)
{
    _cleanup_(box_changes_free) struct box_changes changes = {0};
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int r = ask_begin(&a, b, KEEPER_CHANGES, err);
    if (r == 0)
        r = ask_send(&a, NULL, 0, err);
    while (r == 0 && (r = ask_next(&a, &frame, err)) > 0 && frame.type == WIRE_ENTRY) {
        _cleanup_free_ char *path = wire_find_str(&frame, WIRE_K_PATH);
        const struct box_change change = {
            .kind = (enum wire_change)wire_find_u64(&frame, WIRE_K_KIND, 0),
            .mode = (mode_t)wire_find_u64(&frame, WIRE_K_MODE, 0),
            .size = wire_find_u64(&frame, WIRE_K_SIZE, 0),
            .path = path,
        };
        r = path ? box_changes_add(&changes, &change) : -ENOMEM;
        if (r < 0)
            error_errno(err, ENOMEM, "cannot list the changes");
    }
    if (r < 0)
        return r;
    *ret = changes;
    changes = (struct box_changes){0};
    return 0;
}

/* The box stands still while the text is made, and the reader of a pipe may be a pager: the text
 * goes to a file first. */
static int kept_diff(struct box *b, bool stat, int out, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int r = ask_begin(&a, b, KEEPER_DIFF, err);
    if (r < 0)
        return r;
    _cleanup_fd_ int file = io_unnamed_file();
    if (file < 0)
        return error_errno(err, -file, "cannot make a temporary file");
    wire_put_u64(&a.out, WIRE_K_STAT, stat);
    r = ask_send(&a, &file, 1, err);
    if (r == 0)
        r = ask_next(&a, &frame, err);
    for (uint64_t at = 0; r >= 0;) {
        char data[WIRE_DATA_MAX];
        ssize_t n = io_read_at(file, data, sizeof data, at);
        if (n == 0)
            return 0;
        r = n < 0 ? (int)n : io_write_all(out, data, (size_t)n);
        if (r < 0)
            return error_errno(err, -r, "cannot write the diff");
        at += (uint64_t)n;
    }
    return r;
}

static int kept_exchange(struct box *b, bool apply, const struct apply_options *o,
                         const struct apply_report *report, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    int r = ask_begin(&a, b, apply ? KEEPER_APPLY : KEEPER_SYNC, err);
    if (r < 0)
        return r;
    wire_put_u64(&a.out, KEEPER_K_ON_CONFLICT, o->on_conflict);
    wire_put_u64(&a.out, KEEPER_K_ALLOW_GIT_DIRS, o->allow_git_dirs);
    wire_put_u64(&a.out, KEEPER_K_REPLACED_FOLDER, o->replaced_folder);
    for (size_t i = 0; i < o->n_paths; i++)
        wire_put_str(&a.out, WIRE_K_PATH, o->paths[i]);
    r = ask_send(&a, NULL, 0, err);
    while (r >= 0) {
        struct wire_frame frame;
        r = ask_next(&a, &frame, err);
        if (r < 0)
            return r;
        if (frame.type == WIRE_RESULT)
            return (int)wire_find_u64(&frame, WIRE_K_COUNT, 0);
        _cleanup_free_ char *path = wire_find_str(&frame, WIRE_K_PATH);
        _cleanup_free_ char *why = wire_find_str(&frame, WIRE_K_TEXT);
        if (path && report)
            report->say(report->data, path,
                        (enum apply_outcome)wire_find_u64(&frame, WIRE_K_KIND, APPLY_REFUSED), why);
    }
    return r;
}

static int kept_note_seen(struct box *b, struct error *err)
{
    return ask_plain(b, KEEPER_NOTE, err);
}

static int kept_adjust(struct box *b, const struct box_options *o, unsigned fields,
                       struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int r = ask_begin(&a, b, KEEPER_SET, err);
    if (r < 0)
        return r;
    wire_put_u64(&a.out, KEEPER_K_FIELDS, fields);
    wire_put_str(&a.out, KEEPER_K_NET, o->net->name);
    for (size_t i = 0; i < o->n_allow; i++)
        wire_put_str(&a.out, KEEPER_K_ALLOW, o->allow[i]);
    for (size_t i = 0; i < o->n_hosts; i++)
        wire_put_str(&a.out, KEEPER_K_HOST, o->hosts[i]);
    for (size_t i = 0; i < o->n_net_env; i++)
        wire_put_str(&a.out, KEEPER_K_NET_ENV, o->net_env[i]);
    keeper_put_limits(&a.out, &o->limits);
    r = ask_result(&a, &frame, err);
    return r < 0 ? r : 0;
}

static int kept_info(struct box *b, struct box_info *ret, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame f;
    int r = ask_begin(&a, b, KEEPER_INFO, err);
    if (r < 0)
        return r;
    /* A keeper that hangs must not hang the list of all. */
    struct timeval patience = {.tv_sec = 2};
    setsockopt(a.conn, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    r = ask_result(&a, &f, err);
    if (r < 0)
        return r;
    *ret = (struct box_info){
        .keeper = (pid_t)wire_find_u64(&f, KEEPER_K_PID, 0),
        .mode = (enum box_mode)wire_find_u64(&f, KEEPER_K_BOX_MODE, 0),
        .age_ns = (int64_t)wire_find_u64(&f, KEEPER_K_AGE_NS, 0),
        .left_ns = (int64_t)wire_find_u64(&f, KEEPER_K_LEFT_NS, UINT64_MAX),
        .commands = wire_find_u64(&f, WIRE_K_COUNT, 0),
        .snapshots = wire_find_u64(&f, KEEPER_K_SNAPSHOTS, 0),
        .workspace = wire_find_str(&f, WIRE_K_PATH),
        .net = wire_find_str(&f, KEEPER_K_NET),
        .limits = keeper_find_limits(&f),
    };
    return 0;
}

static const struct box_ops KEPT_BOX = {
    .connect = kept_connect,
    .exec = kept_exec,
    .terminal = kept_terminal,
    .adjust = kept_adjust,
    .changes = kept_changes,
    .diff = kept_diff,
    .exchange = kept_exchange,
    .note_seen = kept_note_seen,
    .info = kept_info,
};

/* Takes the registry's descriptor over if it succeeds. */
static int kept_box_new(int *registry, const struct registry_id *id, struct box **ret,
                        struct error *err)
{
    struct box *b = box_new();
    if (!b)
        return error_set(err, ENOMEM, "no memory");
    b->ops = &KEPT_BOX;
    b->registry = TAKE_FD(*registry);
    b->id = *id;
    *ret = b;
    return 0;
}

int keeper_attach(const struct registry_id *id, struct box **ret, struct error *err)
{
    _cleanup_fd_ int registry = -1;
    int r = registry_open(true, &registry, err);
    return r < 0 ? r : kept_box_new(&registry, id, ret, err);
}

int keeper_find(const char *given, struct box **ret, struct error *err)
{
    _cleanup_fd_ int registry = -1;
    struct registry_id id;
    int r = registry_open(false, &registry, err);
    if (r == -ENOENT)
        return error_set(err, ENOENT, "there is no box '%s': no boxes are running", given);
    if (r == 0)
        r = registry_find(registry, given, &id, err);
    return r < 0 ? r : kept_box_new(&registry, &id, ret, err);
}

/* The result of a fork or restore; what comes before it is for the report. */
static int ask_restored(struct keeper_ask *a, const struct restore_report *report,
                        struct wire_frame *ret, struct error *err)
{
    int r = ask_result(a, ret, err);
    while (r >= 0 && ret->type == WIRE_ENTRY) {
        _cleanup_free_ char *path = wire_find_str(ret, WIRE_K_PATH);
        _cleanup_free_ char *why = wire_find_str(ret, WIRE_K_TEXT);
        if (path && report)
            report->say(report->data, path, why);
        r = ask_next(a, ret, err);
    }
    return r;
}

int keeper_fork(struct box *b, const char *snapshot, size_t n, const struct restore_report *report,
                struct registry_id *ret, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    struct wire_field field;
    size_t count = 0;
    int r = ask_begin(&a, b, KEEPER_FORK, err);
    if (r < 0)
        return r;
    wire_put_u64(&a.out, WIRE_K_COUNT, n);
    if (snapshot)
        wire_put_str(&a.out, WIRE_K_NAME, snapshot);
    r = ask_restored(&a, report, &frame, err);
    if (r < 0)
        return r;
    for (size_t at = 0; count < n && wire_next(&frame, &at, &field);)
        if (field.key == WIRE_K_NAME && field.size == REGISTRY_ID_LEN) {
            memcpy(ret[count].text, field.data, REGISTRY_ID_LEN);
            ret[count++].text[REGISTRY_ID_LEN] = 0;
        }
    return count == n ? 0
                      : error_set(err, EPROTO, "the keeper of box '%s' named %zu of %zu forks",
                                  a.id, count, n);
}

int keeper_snapshot(struct box *b, char ret_name[KEEPER_SNAPSHOT_NAME], struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    struct wire_field field;
    int r = ask_begin(&a, b, KEEPER_SNAPSHOT, err);
    if (r == 0)
        r = ask_result(&a, &frame, err);
    if (r < 0)
        return r;
    if (!wire_find(&frame, WIRE_K_NAME, &field) || field.size >= KEEPER_SNAPSHOT_NAME)
        return error_set(err, EPROTO, "the keeper of box '%s' did not name the snapshot", a.id);
    memcpy(ret_name, field.data, field.size);
    ret_name[field.size] = 0;
    return 0;
}

int keeper_restore(struct box *b, const char *name, const struct restore_report *report,
                   struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int r = ask_begin(&a, b, KEEPER_RESTORE, err);
    if (r < 0)
        return r;
    wire_put_str(&a.out, WIRE_K_NAME, name);
    r = ask_restored(&a, report, &frame, err);
    return r < 0 ? r : 0;
}

int keeper_remove(struct box *b, struct error *err)
{
    return ask_plain(b, KEEPER_REMOVE, err);
}
