#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "answer.h"
#include "relpath.h"
#include "changes.h"
#include "content.h"
#include "copy.h"
#include "git_diff.h"
#include "io.h"
#include "overlay.h"
#include "diff_worker.h"
#include "banned.h"

#define CHUNK (64u << 10)

static int answer_done(struct answer *a)
{
    answer_begin(a, WIRE_RESULT);
    answer_end(a);
    return answer_flush(a);
}

/* FETCH: one file of the merged view. Holes are left out: an empty DATA frame with OFFSET says
 * where the next bytes go. */
static int fetch_send_part(int fd, uint64_t offset, uint64_t end, struct answer *a)
{
    while (offset < end && a->status == 0) {
        char space[CHUNK];
        size_t want = end - offset < CHUNK ? (size_t)(end - offset) : CHUNK;
        ssize_t got = content_read(fd, space, want, offset);
        if (got < 0 || (size_t)got < want)
            return got < 0 ? (int)got : -EIO;
        answer_write(a, space, want);
        offset += want;
    }
    return a->status;
}

static int fetch_send_file(int dir, const char *name, uint64_t *ret_size, struct answer *a)
{
    struct stat st;
    _cleanup_fd_ int fd = -1;
    int r = content_open(dir, name, &fd);
    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0)
        return -errno;
    uint64_t size = (uint64_t)st.st_size, end;
    for (uint64_t sent = 0, offset = 0; offset < size; sent = offset = end) {
        r = content_next_data(fd, size, &offset, &end);
        if (r >= 0 && offset > sent)
            r = answer_seek(a, offset);
        if (r >= 0)
            r = fetch_send_part(fd, offset, end, a);
        if (r < 0)
            return r;
    }
    *ret_size = size;
    return 0;
}

static int fetch_send_path(int merged, const char *path, struct answer *a)
{
    struct stat st;
    _cleanup_fd_ int dir = -1;
    _cleanup_free_ char *target = NULL;
    uint64_t size = 0;
    const char *name = relpath_name(path);
    int r = beneath_open_parent(merged, path, &dir);
    if (r < 0)
        return r;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISREG(st.st_mode))
        r = fetch_send_file(dir, name, &size, a);
    else if (S_ISLNK(st.st_mode))
        r = content_read_link(dir, name, &target);
    if (r < 0)
        return r;
    answer_flush(a);
    answer_begin(a, WIRE_RESULT);
    wire_put_u64(&a->frame, WIRE_K_MODE, st.st_mode);
    wire_put_u64(&a->frame, WIRE_K_SIZE, size);
    if (target)
        wire_put_str(&a->frame, WIRE_K_TARGET, target);
    answer_end(a);
    return answer_flush(a);
}

static int fetch_answer(const struct overlay *t, const struct wire_frame *request, struct answer *a,
                        struct error *err)
{
    struct wire_field field;
    _cleanup_free_ char *path = wire_find_str(request, WIRE_K_PATH);
    if (!wire_find(request, WIRE_K_PATH, &field) || !relpath_is_valid(field.data, field.size) ||
        !path)
        return error_set(err, EINVAL, "the request names no path");
    if (t->merged < 0)
        return error_set(err, ENOENT, "there is no workspace to fetch from");
    int r = fetch_send_path(t->merged, path, a);
    return r < 0 ? error_errno(err, -r, "cannot read the changed file") : 0;
}

/*
 * LAYERED: which of the paths in the request the box's layers decide about.
 *
 * A layer decides about a path that it holds (a whiteout counts), that lies beneath something of it
 * that is no folder, or beneath an opaque folder. All other paths show the base.
 */
/* `path` is changed meanwhile. */
static int layer_decides(int layer, char *path, bool *ret)
{
    _cleanup_fd_ int dir = fcntl(layer, F_DUPFD_CLOEXEC, 3);
    if (dir < 0)
        return -errno;
    for (char *at = path;;) {
        struct stat st;
        char *slash = strchr(at, '/');
        if (slash)
            *slash = 0;
        int r = fstatat(dir, at, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
        int next = r == 0 && slash && S_ISDIR(st.st_mode)
                       ? openat(dir, at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
        if (next < 0 && r == 0 && slash && S_ISDIR(st.st_mode))
            r = -errno;
        if (slash)
            *slash = '/';
        if (next < 0) {
            *ret = r == 0;
            return r == -ENOENT ? 0 : r;
        }
        cleanup_close(&dir);
        dir = next;
        if (overlay_is_opaque(dir)) {
            *ret = true;
            return 0;
        }
        at = slash + 1;
    }
}

static int layered_answer(const struct overlay *t, const struct wire_frame *request,
                          struct answer *a, struct error *err)
{
    struct wire_field field;
    for (size_t at = 0; wire_next(request, &at, &field);) {
        bool decides = false;
        if (field.key != WIRE_K_PATH)
            continue;
        if (!relpath_is_valid(field.data, field.size))
            return error_set(err, EINVAL, "the request holds an invalid path");
        _cleanup_free_ char *path = strndup((const char *)field.data, field.size);
        if (!path)
            return error_errno(err, ENOMEM, "cannot look at the layers");
        for (size_t i = 0; !decides && i < t->n_layers; i++) {
            int r = layer_decides(t->layers[i], path, &decides);
            if (r < 0)
                return error_errno(err, -r, "cannot look at the layers");
        }
        if (decides) {
            answer_begin(a, WIRE_ENTRY);
            wire_put(&a->frame, WIRE_K_PATH, field.data, field.size);
            answer_end(a);
        }
    }
    return answer_done(a);
}

/* TOUCHED: every name that the box's layers decide about, so that the host can record what the
 * folder has there. */
/* Nothing is compared, so this is cheap: one record per name in a layer, and per name of the folder
 * that is hidden by a deleted or replaced folder. Below a folder that only the box has, there is
 * nothing to record.
 */
static int touched_visit(struct walk *w, const struct walk_entry *e, void *data)
{
    struct answer *a = data;
    if (e->path_len > RELPATH_MAX || relpath_touches_git(e->path))
        return 0;
    answer_begin(a, WIRE_ENTRY);
    wire_put_str(&a->frame, WIRE_K_PATH, e->path);
    if (e->in_merged || !walk_is_hidden(w))
        wire_put_u64(&a->frame, WIRE_K_BOTH, 1);
    if (answer_end(a) < 0)
        return error_errno(walk_error(w), -a->status, "cannot send the list");
    if (!e->in_base)
        return 0;
    return S_ISDIR(e->base.st_mode) || (e->in_merged && S_ISDIR(e->merged.st_mode));
}

/* A folder whose names in the base the box cannot see: what comes there later, it has not seen
 * either. */
static int touched_leave(struct walk *w, void *data)
{
    struct answer *a = data;
    if (walk_path_len(w) == 0 || !walk_is_hidden(w) || walk_dir(w, WALK_BASE) < 0)
        return 0;
    answer_begin(a, WIRE_ENTRY);
    wire_put_str(&a->frame, WIRE_K_PATH, walk_path(w));
    wire_put_u64(&a->frame, WIRE_K_HIDDEN, 1);
    return answer_end(a) < 0 ? error_errno(walk_error(w), -a->status, "cannot send the list") : 0;
}

static int touched_answer(const struct overlay *t, struct answer *a, struct error *err)
{
    static const struct walk_ops OPS = {.visit = touched_visit, .leave = touched_leave};
    struct overlay view = *t;
    view.copy = -1;
    int r = walk_run(&view, &OPS, a, err);
    if (r < 0)
        return r;
    return answer_done(a);
}

static int worker_serve_request(int root, const struct wire_frame *request, struct answer *a,
                                struct error *err)
{
    _cleanup_overlay_ struct overlay t = OVERLAY_INIT;
    int r = overlay_open(root, "w", &t, err);
    if (r < 0)
        return r;
    switch (request->type) {
    case WIRE_PING:
        return answer_done(a);
    case WIRE_CHANGES:
        return changes_answer(&t, wire_find_u64(request, WIRE_K_ALL, 0) != 0, a, err);
    case WIRE_TOUCHED:
        return touched_answer(&t, a, err);
    case WIRE_DIFF:
        return diff_answer(&t, wire_find_u64(request, WIRE_K_STAT, 0) != 0, a, err);
    case WIRE_FETCH:
        return fetch_answer(&t, request, a, err);
    case WIRE_LAYERED:
        return layered_answer(&t, request, a, err);
    case WIRE_COPY:
        r = copy_snapshot(root, &t, request, err);
        return r < 0 ? r : answer_done(a);
    default:
        return error_set(err, ENOSYS, "the diff worker has no request %d", (int)request->type);
    }
}

/* One connection from its request to its last answer. Its failure is the host's to notice, and ends
 * nothing else. */
static void worker_serve(int root, int conn)
{
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    _cleanup_(answer_free) struct answer a = ANSWER_INIT(conn);
    struct wire_frame request;
    struct error err = {0};
    if (wire_read(&in, &request) <= 0)
        return;
    if (worker_serve_request(root, &request, &a, &err) < 0 && a.status == 0)
        answer_error(&a, &err);
}

int diff_worker_main(int control)
{
    _cleanup_fd_ int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    umask(0); /* copies have the modes of what they are copies of */
    for (;;) {
        char byte;
        size_t n = 0;
        _cleanup_fd_ int conn = -1;
        ssize_t got = io_recv_fds(control, &byte, 1, &conn, 1, &n, 0);
        if (got <= 0)
            return (int)got;
        if (n == 1)
            worker_serve(root, conn);
    }
}
