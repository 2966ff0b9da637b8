/* The clients' side of a keeper: one connection and one request per call. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io.h"
#include "keeper_ask.h"
#include "banned.h"

void keeper_ask_free(struct keeper_ask *a)
{
    wire_reader_free(&a->reader);
    buf_free(&a->out);
    cleanup_close(&a->conn);
}

int keeper_ask_begin(struct keeper_ask *a, int registry, const struct registry_id *id,
                     enum keeper_type type, struct error *err)
{
    *a = (struct keeper_ask){.id = id, .conn = -1, .out = BUF_INIT(KEEPER_REQUEST_MAX)};
    int r = registry_connect(registry, id->text, &a->conn);
    if (r == -ENOENT || r == -ECONNREFUSED)
        return error_set(err, ENOENT, "the box '%s' has gone", id->text);
    if (r < 0)
        return error_errno(err, -r, "cannot reach the box '%s'", id->text);
    a->reader = WIRE_READER_INIT(a->conn);
    a->begin = wire_begin(&a->out, (enum wire_type)type);
    return 0;
}

int keeper_ask_send(struct keeper_ask *a, const int *fds, size_t n_fds, struct error *err)
{
    wire_end(&a->out, a->begin);
    if (a->out.failed)
        return error_set(
            err, E2BIG, "the request is too long: a command line of less than 1M can be passed on");
    int r = wire_send(a->conn, &a->out, fds, n_fds);
    return r < 0 ? error_errno(err, -r, "cannot send to the box '%s'", a->id->text) : 0;
}

int keeper_ask_next(struct keeper_ask *a, struct wire_frame *ret, struct error *err)
{
    int r = wire_read(&a->reader, ret);
    if (r <= 0)
        return error_set(err, EPIPE, "the box '%s' ended", a->id->text);
    if (ret->type != WIRE_ERROR)
        return 1;
    _cleanup_free_ char *text = wire_find_str(ret, WIRE_K_TEXT);
    int code = (int)wire_find_u64(ret, WIRE_K_CODE, EIO);
    return error_set(err, code > 0 ? code : EIO, "%s", text ? text : "the box failed");
}

/* The result, where nothing comes before it. */
static int ask_result(struct keeper_ask *a, struct wire_frame *ret, struct error *err)
{
    int r = keeper_ask_send(a, NULL, 0, err);
    return r < 0 ? r : keeper_ask_next(a, ret, err);
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
        r = keeper_ask_next(a, ret, err);
    }
    return r;
}

int keeper_fork(int registry, const struct registry_id *id, const char *snapshot, size_t n,
                const struct restore_report *report, struct registry_id *ret, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    struct wire_field field;
    size_t count = 0;
    int r = keeper_ask_begin(&a, registry, id, KEEPER_FORK, err);
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
    return count == n
               ? 0
               : error_set(err, EPROTO, "the box '%s' was forked %zu times only", id->text, count);
}

/* The request waits in the stream before the guest has its end: it is never frozen between the two.
 */
int keeper_request(int registry, const struct registry_id *id, struct buf *request, int *ret_fd,
                   struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int ends[2];
    int r = keeper_ask_begin(&a, registry, id, KEEPER_CONNECT, err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return error_errno(err, errno, "cannot make a stream");
    _cleanup_fd_ int ours = ends[0];
    _cleanup_fd_ int theirs = ends[1];
    bool early = request->len <= WIRE_DATA_MAX; /* what fits into the socket */
    r = early ? wire_send(ours, request, NULL, 0) : 0;
    if (r == 0)
        r = keeper_ask_send(&a, &theirs, 1, err);
    if (r == 0)
        r = keeper_ask_next(&a, &frame, err);
    if (r < 0)
        return r;
    r = early ? 0 : wire_send(ours, request, NULL, 0);
    if (r < 0)
        return error_errno(err, -r, "cannot send to the box '%s'", id->text);
    *ret_fd = TAKE_FD(ours);
    return 0;
}

int keeper_snapshot(int registry, const struct registry_id *id, char ret_name[KEEPER_SNAPSHOT_NAME],
                    struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    struct wire_field field;
    int r = keeper_ask_begin(&a, registry, id, KEEPER_SNAPSHOT, err);
    if (r == 0)
        r = ask_result(&a, &frame, err);
    if (r < 0)
        return r;
    if (!wire_find(&frame, WIRE_K_NAME, &field) || field.size >= KEEPER_SNAPSHOT_NAME)
        return error_set(err, EPROTO, "the box '%s' gave the snapshot no name", id->text);
    memcpy(ret_name, field.data, field.size);
    ret_name[field.size] = 0;
    return 0;
}

int keeper_restore(int registry, const struct registry_id *id, const char *name,
                   const struct restore_report *report, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int r = keeper_ask_begin(&a, registry, id, KEEPER_RESTORE, err);
    if (r < 0)
        return r;
    wire_put_str(&a.out, WIRE_K_NAME, name);
    r = ask_restored(&a, report, &frame, err);
    return r < 0 ? r : 0;
}

/* A file without a name. */
static int open_unnamed(void)
{
    const char *folder = getenv("TMPDIR");
    int fd =
        open(folder && folder[0] == '/' ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("diff", MFD_CLOEXEC);
}

/* Copies a file, from its start, to whatever `to` is. */
static int copy_file(int from, int to)
{
    char data[WIRE_DATA_MAX];
    for (off_t at = 0;;) {
        ssize_t n = pread(from, data, sizeof data, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = io_write_all(to, data, (size_t)n);
        if (r < 0)
            return r;
        at += n;
    }
}

/* The text goes to a file first: the box stands still while it is made, and its reader may be a
 * pager. */
int keeper_diff_file(int registry, const struct registry_id *id, bool stat, int *ret_fd,
                     struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    _cleanup_fd_ int file = -1;
    int r = keeper_ask_begin(&a, registry, id, KEEPER_DIFF, err);
    if (r < 0)
        return r;
    file = open_unnamed();
    if (file < 0)
        return error_errno(err, errno, "cannot make a temporary file");
    wire_put_u64(&a.out, WIRE_K_STAT, stat);
    r = keeper_ask_send(&a, &file, 1, err);
    if (r == 0)
        r = keeper_ask_next(&a, &frame, err);
    if (r < 0)
        return r;
    *ret_fd = TAKE_FD(file);
    return 0;
}

int keeper_diff(int registry, const struct registry_id *id, bool stat, int out, struct error *err)
{
    _cleanup_fd_ int file = -1;
    int r = keeper_diff_file(registry, id, stat, &file, err);
    if (r < 0)
        return r;
    r = copy_file(file, out);
    return r < 0 ? error_errno(err, -r, "cannot write the changes") : 0;
}

int keeper_remove(int registry, const struct registry_id *id, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int r = keeper_ask_begin(&a, registry, id, KEEPER_REMOVE, err);
    if (r == 0)
        r = ask_result(&a, &frame, err);
    return r < 0 ? r : 0;
}

int keeper_adjust(int registry, const struct registry_id *id, const struct box_options *o,
                  unsigned fields, struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame frame;
    int r = keeper_ask_begin(&a, registry, id, KEEPER_SET, err);
    if (r < 0)
        return r;
    wire_put_u64(&a.out, KEEPER_K_FIELDS, fields);
    wire_put_u64(&a.out, KEEPER_K_NET, o->net);
    for (size_t i = 0; i < o->n_allow; i++)
        wire_put_str(&a.out, KEEPER_K_ALLOW, o->allow[i]);
    for (size_t i = 0; i < o->n_hosts; i++)
        wire_put_str(&a.out, KEEPER_K_HOST, o->hosts[i]);
    for (size_t i = 0; i < o->n_net_env; i++)
        wire_put_str(&a.out, KEEPER_K_NET_ENV, o->net_env[i]);
    wire_put_u64(&a.out, KEEPER_K_MEMORY, o->limits.memory);
    wire_put_u64(&a.out, KEEPER_K_PIDS, o->limits.pids);
    wire_put_u64(&a.out, KEEPER_K_MILLICPUS, (uint64_t)(o->limits.cpus * 1000 + 0.5));
    wire_put_u64(&a.out, KEEPER_K_TIMEOUT_NS, (uint64_t)o->limits.timeout_ns);
    r = ask_result(&a, &frame, err);
    return r < 0 ? r : 0;
}

int keeper_info(int registry, const struct registry_id *id, struct keeper_info *ret,
                struct error *err)
{
    _cleanup_ask_ struct keeper_ask a;
    struct wire_frame f;
    int r = keeper_ask_begin(&a, registry, id, KEEPER_INFO, err);
    if (r < 0)
        return r;
    /* A keeper that hangs must not hang the list of all. */
    struct timeval patience = {.tv_sec = 2};
    setsockopt(a.conn, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    r = ask_result(&a, &f, err);
    if (r < 0)
        return r;
    *ret = (struct keeper_info){
        .pid = (pid_t)wire_find_u64(&f, KEEPER_K_PID, 0),
        .mode = (enum box_mode)wire_find_u64(&f, KEEPER_K_BOX_MODE, 0),
        .age_ns = (int64_t)wire_find_u64(&f, KEEPER_K_AGE_NS, 0),
        .left_ns = (int64_t)wire_find_u64(&f, KEEPER_K_LEFT_NS, UINT64_MAX),
        .commands = wire_find_u64(&f, WIRE_K_COUNT, 0),
        .snapshots = wire_find_u64(&f, KEEPER_K_SNAPSHOTS, 0),
        .workspace = wire_find_str(&f, WIRE_K_PATH),
        .net = wire_find_str(&f, KEEPER_K_NET),
        .limits = {.memory = wire_find_u64(&f, KEEPER_K_MEMORY, 0),
                   .pids = wire_find_u64(&f, KEEPER_K_PIDS, 0),
                   .cpus = (double)wire_find_u64(&f, KEEPER_K_MILLICPUS, 0) / 1000,
                   .timeout_ns = (int64_t)wire_find_u64(&f, KEEPER_K_TIMEOUT_NS, 0)},
    };
    return 0;
}

void keeper_info_free(struct keeper_info *i)
{
    free(i->workspace);
    free(i->net);
    i->workspace = i->net = NULL;
}
