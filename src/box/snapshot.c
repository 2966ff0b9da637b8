/*
 * Looking at a box's files from outside of it: changes, diff, apply, snapshots. All are the same three steps:
 * the box's processes are stopped, a scribe does the work in namespaces of its own, they go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apply.h"
#include "box_private.h"
#include "cancel.h"
#include "changes.h"
#include "banned.h"

struct snapshot {
    const struct backend *backend;
    struct place *place; /* the box's files, kept though the box may be gone */
    unsigned number;
    bool flattened;
    struct box *like; /* options for the forks: a box without a place */
};

/* A box that is being looked at. */
struct view {
    struct box *box;
    int frozen; /* the connection that keeps the processes stopped; -1: there are none */
    struct guest scribe;
};

/* The guest answers the end of our side with the end of its own, once all processes go on. */
static void thaw(int frozen)
{
    char byte;
    ssize_t n;
    shutdown(frozen, SHUT_WR);
    do
        n = read(frozen, &byte, 1);
    while (n > 0 || (n < 0 && errno == EINTR));
    close(frozen);
}

static void view_close(struct view *v)
{
    guest_end(&v->scribe);
    if (v->frozen >= 0)
        thaw(v->frozen);
    pthread_rwlock_unlock(&v->box->frozen);
}

static int take_answer(int fd, struct error *err)
{
    struct wire_reader reader = WIRE_READER_INIT(fd);
    struct wire_frame f;
    int r = wire_read(&reader, &f);
    if (r == 1 && f.type == WIRE_RESULT)
        r = 0;
    else if (r == 1 && f.type == WIRE_ERROR) {
        _cleanup_free_ char *text = wire_find_str(&f, WIRE_K_TEXT);
        r = error_set(err, EIO, "%s", text ? text : "the guest reported an error");
    } else
        r = error_set(err, EPROTO, "the guest did not answer");
    wire_reader_free(&reader);
    return r;
}

static int wait_for_answer(int fd, int cancel, struct error *err)
{
    int r = cancel_wait(fd, POLLIN, GUEST_PATIENCE_S * 1000, cancel);
    if (r == 0)
        r = -ETIMEDOUT;
    return r < 0 ? error_errno(err, -r, "the guest did not answer") : 0;
}

/* One request without fields, or with one number; its answer is a RESULT or an error. */
static int ask(const struct guest *g, enum wire_type type, uint16_t key, uint64_t value, int cancel,
               int *ret_fd, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(256);
    size_t begin = wire_begin(&b, type);
    if (key)
        wire_put_u64(&b, key, value);
    wire_end(&b, begin);
    _cleanup_fd_ int fd = -1;
    int r = guest_connect_patient(g, &b, &fd);
    if (r < 0)
        return error_errno(err, -r, "cannot reach the guest");
    r = wait_for_answer(fd, cancel, err);
    if (r == 0)
        r = take_answer(fd, err);
    if (r == 0 && ret_fd)
        *ret_fd = TAKE_FD(fd);
    return r;
}

static int view_open(struct box *b, unsigned snapshot, int cancel, struct view *ret, struct error *err)
{
    struct view v = {.box = b, .frozen = -1, .scribe = GUEST_NONE};
    int r = b->backend->ready(b->place, err);
    if (r < 0)
        return r;
    pthread_rwlock_wrlock(&b->frozen);
    if (b->backend->guest(b->place)->pid > 0)
        r = ask(b->backend->guest(b->place), WIRE_FREEZE, 0, 0, cancel, &v.frozen, err);
    if (r == 0)
        r = b->backend->scribe(b->place, snapshot, &v.scribe, err);
    if (r < 0) {
        view_close(&v);
        return r;
    }
    *ret = v;
    return 0;
}

static int require_cow(const struct box *b, struct error *err)
{
    if (b->mode == BOX_COW)
        return 0;
    return error_set(err, EINVAL, "only a box of mode cow keeps its changes apart");
}

static int view_changes(struct box *b, struct view *ret, int *ret_fd, struct error *err)
{
    int r = require_cow(b, err);
    if (r == 0)
        r = view_open(b, 0, -1, ret, err);
    if (r < 0)
        return r;
    if (!ret_fd)
        return 0;
    r = guest_connect_patient(&ret->scribe, NULL, ret_fd);
    if (r < 0) {
        view_close(ret);
        return error_errno(err, -r, "cannot reach the scribe");
    }
    return 0;
}

int box_changes(struct box *b, struct box_changes *ret, struct error *err)
{
    struct view v;
    _cleanup_fd_ int fd = -1;
    int r = view_changes(b, &v, &fd, err);
    if (r < 0)
        return r;
    r = changes_read(fd, ret, err);
    view_close(&v);
    return r;
}

int box_diff(struct box *b, bool stat, int out, struct error *err)
{
    struct view v;
    _cleanup_fd_ int fd = -1;
    int r = view_changes(b, &v, &fd, err);
    if (r < 0)
        return r;
    r = changes_diff(fd, stat, out, err);
    view_close(&v);
    return r;
}

static int connect_scribe(void *scribe, int *ret_fd)
{
    return guest_connect_patient(scribe, NULL, ret_fd);
}

int box_apply(struct box *b, const struct apply_report *report, struct error *err)
{
    struct view v;
    if (b->folder < 0)
        return error_set(err, EINVAL, "this box has no folder to apply its changes to");
    int r = view_changes(b, &v, NULL, err);
    if (r < 0)
        return r;
    if (!b->applied)
        b->applied = apply_memory_new();
    r = b->applied ? apply_changes(b->folder, b->since_ns, b->applied, connect_scribe, &v.scribe, report, err)
                   : error_errno(err, ENOMEM, "cannot apply the changes");
    view_close(&v);
    return r;
}

static struct box *copy_options(const struct box *b)
{
    struct box *copy = box_new();
    if (!copy)
        return NULL;
    copy->backend = b->backend;
    copy->limits = b->limits;
    copy->mode = b->mode;
    copy->since_ns = b->since_ns;
    copy->folder = b->folder < 0 ? -1 : fcntl(b->folder, F_DUPFD_CLOEXEC, 0);
    copy->workspace = b->workspace ? strdup(b->workspace) : NULL;
    copy->env = list_copy(b->env);
    copy->allow = list_copy(b->allow);
    copy->n_allow = b->n_allow;
    if (!copy->env || !copy->allow || (b->workspace && !copy->workspace) ||
        (b->folder >= 0 && copy->folder < 0))
        return box_close(copy);
    return copy;
}

static int write_layer(struct box *b, unsigned number, bool flatten, int cancel, struct error *err)
{
    struct view v;
    int r = view_open(b, number, cancel, &v, err);
    if (r < 0)
        return r;
    r = ask(&v.scribe, WIRE_COPY, WIRE_K_FLATTEN, flatten, cancel, NULL, err);
    view_close(&v);
    return r;
}

static struct snapshot *new_snapshot(struct box *b, unsigned number, bool flattened)
{
    struct snapshot *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct snapshot){
        .backend = b->backend, .number = number, .flattened = flattened, .like = copy_options(b)};
    if (!s->like)
        return snapshot_free(s);
    s->place = b->backend->ref(b->place);
    return s;
}

int box_snapshot_until(struct box *b, int cancel, struct snapshot **ret, struct error *err)
{
    bool flattened = b->backend->depth(b->place) + 1 >= b->backend->layers_max;
    unsigned number = ++b->snapshots;
    int r = write_layer(b, number, flattened, cancel, err);
    if (r < 0)
        return r;
    struct snapshot *s = new_snapshot(b, number, flattened);
    if (!s)
        return error_errno(err, ENOMEM, "cannot take a snapshot");
    *ret = s;
    return 0;
}

int box_snapshot(struct box *b, struct snapshot **ret, struct error *err)
{
    return box_snapshot_until(b, -1, ret, err);
}

int box_template(struct box *b, struct snapshot **ret, struct error *err)
{
    int r = b->backend->ready(b->place, err);
    if (r < 0)
        return r;
    struct snapshot *s = new_snapshot(b, 0, false);
    if (!s)
        return error_errno(err, ENOMEM, "cannot make a template");
    *ret = s;
    return 0;
}

struct snapshot *snapshot_free(struct snapshot *s)
{
    if (!s)
        return NULL;
    if (s->place)
        s->backend->unref(s->place);
    box_close(s->like);
    free(s);
    return NULL;
}

struct place *snapshot_place(const struct snapshot *s)
{
    return s->place;
}

const struct box *snapshot_like(const struct snapshot *s)
{
    return s->like;
}

int box_fork(struct snapshot *s, struct box **ret, struct error *err)
{
    struct box *b = copy_options(s->like);
    if (!b)
        return error_errno(err, ENOMEM, "cannot fork the box");
    int r = s->backend->fork(s->place, s->number, s->flattened, &b->place, err);
    if (r == 0)
        r = s->backend->ready(b->place, err);
    if (r == 0)
        r = box_start_proxy(b, err);
    if (r < 0) {
        box_close(b);
        return r;
    }
    *ret = b;
    return 0;
}
