/*
 * Looking at a box's files from outside of it: changes, diff, apply, snapshots. All are the same
 * three steps: the box's processes are stopped, a diff worker does the work in namespaces of its
 * own, they go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apply.h"
#include "box_internal.h"
#include "thread.h"
#include "banned.h"

struct snapshot {
    atomic_uint refs;
    struct machine *machine; /* the box's files, kept though the box may be closed */
    unsigned number;         /* 0: a template */
    bool noted;              /* all that its layers touch is recorded in like->seen */
    struct box *like;        /* options for the forks: a box without a machine */
};

void box_view_close(struct box_view *v)
{
    char byte;
    ssize_t n;
    machine_unref(v->diff_worker);
    /* The guest answers the end of our side with the end of its own, once all processes go on. */
    if (v->frozen >= 0) {
        shutdown(v->frozen, SHUT_WR);
        do
            n = read(v->frozen, &byte, 1);
        while (n > 0 || (n < 0 && errno == EINTR));
        close(v->frozen);
    }
    pthread_rwlock_unlock(&v->box->frozen);
}

/* What a RESULT says of the box's processes; the guest's word, which only the box itself can suffer
 * from. */
struct processes {
    uint64_t count;
    bool mapped;
};

/* One request, which is emptied; its answer is a RESULT or an error. With a box the guest is the
 * box's, which hostile code may have stopped; without, a diff worker. */
static int snapshot_ask(struct box *b, struct machine *m, struct buf *request, int cancel,
                        int *ret_fd, struct processes *ret, struct error *err)
{
    _cleanup_(box_pulse_end) struct box_pulse pulse = BOX_PULSE_INIT;
    _cleanup_fd_ int fd = -1;
    int r = machine_connect(m, request, &fd);
    if (r < 0)
        return b ? box_unreached(b, r, err) : error_errno(err, -r, "cannot reach the diff worker");
    for (int left = GUEST_PATIENCE_S * 1000; r == 0 && left > 0; left -= BOX_PULSE_MS) {
        if (b && (r = box_pulse(b, &pulse, err)) < 0)
            return r;
        r = cancel_wait(fd, POLLIN, BOX_PULSE_MS, cancel);
    }
    if (r <= 0)
        return error_errno(err, r < 0 ? -r : ETIMEDOUT, "the guest did not answer");

    _cleanup_(wire_reader_free) struct wire_reader reader = WIRE_READER_INIT(fd);
    struct wire_frame f;
    r = wire_read(&reader, &f);
    if (r == 1 && f.type == WIRE_ERROR)
        return wire_error(&f, "the guest reported an error", err);
    if (r != 1 || f.type != WIRE_RESULT)
        return b ? box_lost(b, err) : error_set(err, EPROTO, "the diff worker did not answer");
    if (ret)
        *ret = (struct processes){.count = wire_find_u64(&f, WIRE_K_COUNT, UINT64_MAX),
                                  .mapped = wire_find_u64(&f, WIRE_K_MAPPED, 1) != 0};
    if (ret_fd)
        *ret_fd = TAKE_FD(fd);
    return 0;
}

int box_diff_worker(struct box *b, struct new_snapshot *snapshot, struct machine **ret,
                    struct error *err)
{
    const struct backend *backend = b->machine->backend;
    if (!backend->diff_worker)
        return backend_cannot(backend, snapshot ? "take snapshots" : "show what a box changed",
                              err);
    return backend->diff_worker(b->machine, snapshot, ret, err);
}

int box_view_open(struct box *b, struct new_snapshot *snapshot, int cancel, struct box_view *ret,
                  struct error *err)
{
    struct box_view v = {.box = b, .frozen = -1};
    struct processes processes = {0};
    _cleanup_buf_ struct buf request = BUF_INIT(256);
    wire_end(&request, wire_begin(&request, WIRE_FREEZE));
    int r = box_wait(b, err);
    if (r < 0)
        return r;
    pthread_rwlock_wrlock(&b->frozen);
    r = snapshot_ask(b, b->machine, &request, cancel, &v.frozen, &processes, err);
    v.alone = processes.count == 0;
    v.mapped = processes.mapped;
    v.began_ns = box_time();
    if (r == 0)
        r = box_diff_worker(b, snapshot, &v.diff_worker, err);
    if (r < 0) {
        box_view_close(&v);
        return r;
    }
    *ret = v;
    return 0;
}

int box_require_cow(const struct box *b, struct error *err)
{
    if (b->mode == BOX_COW)
        return 0;
    return error_set(err, EINVAL, "only a box of mode cow keeps its changes apart");
}

/* Opens a view and a stream to its diff worker. */
static int box_view_connect(struct box *b, struct box_view *ret, int *ret_fd, struct error *err)
{
    int r = box_require_cow(b, err);
    if (r == 0)
        r = box_view_open(b, NULL, -1, ret, err);
    if (r < 0)
        return r;
    r = machine_connect(ret->diff_worker, NULL, ret_fd);
    if (r == 0)
        return 0;
    box_view_close(ret);
    return error_errno(err, -r, "cannot reach the diff worker");
}

int local_changes(struct box *b, struct box_changes *ret, struct error *err)
{
    struct box_view v;
    _cleanup_fd_ int fd = -1;
    int r = box_view_connect(b, &v, &fd, err);
    if (r < 0)
        return r;
    r = changes_read(fd, ret, err);
    box_view_close(&v);
    return r;
}

int local_diff(struct box *b, bool stat, int out, struct error *err)
{
    struct box_view v;
    _cleanup_fd_ int fd = -1;
    int r = box_view_connect(b, &v, &fd, err);
    if (r < 0)
        return r;
    r = changes_diff(fd, stat, out, err);
    box_view_close(&v);
    return r;
}

const struct applied_log *box_applied(const struct box *b)
{
    return b->log;
}

uint64_t snapshot_applied(const struct snapshot *s)
{
    return s->like->log_position;
}

struct inheriting {
    struct seen *to;
    const struct seen *from;
};

/* What an apply wrote is the folder's version that the restored box starts from. */
static int inherit_one(void *data, const struct applied_entry *e)
{
    const struct inheriting *i = data;
    const struct seen_entry *s = seen_find(i->from, e->path);
    int r =
        s ? seen_set(i->to, e->path, s->state, &s->id, seen_base_ref(s->base), s->base_differs) : 0;
    return r == -ENOSPC ? 0 : r;
}

int box_inherit_applied(struct box *fresh, const struct box *current, const struct snapshot *s,
                        struct error *err)
{
    struct applied_log *log = current->log ? applied_log_copy(current->log) : NULL;
    if (current->log && !log)
        return error_errno(err, ENOMEM, "cannot restore the box");
    applied_log_free(fresh->log);
    fresh->log = log;
    if (!log || seen_own(&fresh->seen) < 0)
        return log ? error_errno(err, ENOMEM, "cannot restore the box") : 0;
    struct inheriting i = {.to = fresh->seen, .from = current->seen};
    int r = applied_log_each(log, snapshot_applied(s), inherit_one, &i);
    return r < 0 ? error_errno(err, -r, "cannot restore the box") : 0;
}

static struct box *box_copy_options(const struct box *b)
{
    struct box *copy = box_new();
    if (!copy)
        return NULL;
    copy->limits = b->limits;
    copy->mode = b->mode;
    copy->fresh_ns = b->fresh_ns;
    copy->seen = seen_ref(b->seen);
    copy->tracks = b->tracks;
    copy->folder = b->folder < 0 ? -1 : fcntl(b->folder, F_DUPFD_CLOEXEC, 0);
    copy->workspace = b->workspace ? strdup(b->workspace) : NULL;
    copy->own_env = list_copy(b->own_env);
    int network = copy->own_env ? box_network_copy(copy, (struct box *)b) : -ENOMEM;
    copy->log = b->log ? applied_log_copy(b->log) : NULL;
    copy->log_position = applied_log_position(b->log);
    if (network < 0 || (b->workspace && !copy->workspace) || (b->folder >= 0 && copy->folder < 0) ||
        (b->log && !copy->log))
        return box_close(copy);
    return copy;
}

/* Has a diff worker copy what the box wrote, while the box stands still. */
static int snapshot_write(struct box *b, unsigned number, int cancel, bool *ret_noted,
                          struct error *err)
{
    struct box_view v;
    struct usage now;
    struct new_snapshot snapshot = {.number = number};
    _cleanup_buf_ struct buf request = BUF_INIT(256);
    int r = box_view_open(b, &snapshot, cancel, &v, err);
    if (r < 0)
        return r;
    *ret_noted = b->tracks && box_view_note(&v, NULL) == 0;
    size_t begin = wire_begin(&request, WIRE_COPY);
    wire_put_u64(&request, WIRE_K_FLATTEN, snapshot.flatten);
    wire_put_u64(&request, WIRE_K_SNAPSHOT, number);
    wire_put_u64(&request, WIRE_K_PREVIOUS, b->last_snapshot);
    wire_put_u64(&request, WIRE_K_MAPPED, v.mapped);
    /* A snapshot counts as what the box wrote, and where only the host watches the disk, nothing
     * else stops the worker. */
    machine_usage(b->machine, 0, &now);
    if (now.disk_watched)
        wire_put_u64(&request, WIRE_K_ROOM,
                     b->limits.disk > now.disk_bytes ? b->limits.disk - now.disk_bytes : 0);
    wire_end(&request, begin);
    r = snapshot_ask(NULL, v.diff_worker, &request, cancel, NULL, NULL, err);
    if (r == 0)
        b->last_snapshot = number;
    box_view_close(&v);
    return r;
}

static int snapshot_new(struct box *b, unsigned number, struct snapshot **ret, struct error *err)
{
    struct snapshot *s = calloc(1, sizeof *s);
    if (s)
        *s = (struct snapshot){.refs = 1, .number = number, .like = box_copy_options(b)};
    if (!s || !s->like) {
        free(s);
        return error_errno(err, ENOMEM, "cannot take a snapshot");
    }
    s->machine = machine_ref(b->machine);
    *ret = s;
    return 0;
}

int box_snapshot_until(struct box *b, int cancel, struct snapshot **ret, struct error *err)
{
    unsigned number = ++b->snapshots;
    bool noted = false;
    int r = snapshot_write(b, number, cancel, &noted, err);
    if (r == 0)
        r = snapshot_new(b, number, ret, err);
    if (r == 0)
        (*ret)->noted = noted;
    return r;
}

int box_snapshot(struct box *b, struct snapshot **ret, struct error *err)
{
    return box_snapshot_until(b, -1, ret, err);
}

int box_template(struct box *b, struct snapshot **ret, struct error *err)
{
    int r = box_wait(b, err);
    if (r == 0)
        r = snapshot_new(b, 0, ret, err);
    if (r < 0)
        return r;
    (*ret)->like->log_position = b->log_position;
    (*ret)->noted = true;
    return 0;
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
    s->refs++;
    return s;
}

struct snapshot *snapshot_free(struct snapshot *s)
{
    if (!s || --s->refs)
        return NULL;
    machine_unref(s->machine);
    box_close(s->like);
    free(s);
    return NULL;
}

struct machine *snapshot_machine(const struct snapshot *s)
{
    return s->machine;
}

const struct box *snapshot_like(const struct snapshot *s)
{
    return s->like;
}

int box_fork(struct snapshot *s, struct box **ret, struct error *err)
{
    const struct backend *backend = s->machine->backend;
    if (!backend->fork)
        return backend_cannot(backend, "fork a box", err);
    _cleanup_box_ struct box *b = box_copy_options(s->like);
    if (!b)
        return error_errno(err, ENOMEM, "cannot fork the box");
    b->log_position = s->like->log_position;
    if (s->noted) /* its overlay is new and has looked nothing up */
        b->fresh_ns = box_time();
    int r = backend->fork(s->machine, s->number, &b->machine, err);
    if (r == 0)
        r = box_wait(b, err);
    if (r == 0)
        r = box_network_start(b, err);
    if (r == 0)
        *ret = TAKE_PTR(b);
    return r;
}
