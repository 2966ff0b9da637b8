#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "content.h"
#include "diff_worker.h"
#include "io.h"
#include "relpath.h"
#include "banned.h"

#define CHUNK   (64u << 10)
#define SEND_AT (64u << 10) /* frames are collected up to this size before they are sent */

static void answer_free(struct answer *a)
{
    buf_free(&a->data);
    buf_free(&a->frame);
}

int answer_end(struct answer *a)
{
    wire_end(&a->frame, a->begin);
    if (a->status == 0 && (a->final || a->frame.failed || a->frame.len >= SEND_AT))
        a->status = wire_send(a->fd, &a->frame, NULL, 0);
    return a->status;
}

/* Makes a frame of the bytes so far. */
static void answer_put_data(struct answer *a)
{
    if (a->data.len == 0)
        return;
    a->final = false;
    a->begin = wire_begin(&a->frame, WIRE_DATA);
    wire_put(&a->frame, WIRE_K_DATA, a->data.data, a->data.len);
    a->data.len = 0;
    answer_end(a);
}

void answer_begin(struct answer *a, enum wire_type type)
{
    answer_put_data(a);
    a->final = type == WIRE_RESULT || type == WIRE_ERROR;
    a->begin = wire_begin(&a->frame, type);
}

int answer_write(struct answer *a, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    while (n > 0 && a->status == 0) {
        size_t room = WIRE_DATA_MAX - a->data.len;
        size_t take = n < room ? n : room;
        if (buf_append(&a->data, at, take) < 0)
            return a->status = -ENOMEM;
        at += take;
        n -= take;
        if (a->data.len == WIRE_DATA_MAX)
            answer_put_data(a);
    }
    return a->status;
}

int answer_printf(struct answer *a, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        return a->status = -ENOBUFS;
    return answer_write(a, text, (size_t)n);
}

/* FETCH: one file or link of the merged view. Holes of a file are left out: an empty DATA frame
 * with OFFSET says where the next bytes go. */
static int fetch_answer(const struct overlay *t, const struct wire_frame *request, struct answer *a,
                        struct error *err)
{
    struct wire_field field;
    struct stat st = {0};
    _cleanup_fd_ int dir = -1, fd = -1;
    _cleanup_free_ char *path = wire_find_str(request, WIRE_K_PATH), *target = NULL;
    if (!wire_find(request, WIRE_K_PATH, &field) || !relpath_is_valid(field.data, field.size) ||
        !path)
        return error_set(err, EINVAL, "the request names no path");
    if (t->merged < 0)
        return error_set(err, ENOENT, "there is no workspace to fetch from");
    const char *name = relpath_name(path);
    int r = beneath_open_parent(t->merged, path, &dir);
    if (r >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    if (r >= 0 && S_ISLNK(st.st_mode))
        r = content_read_link(dir, name, &target);
    if (r >= 0 && S_ISREG(st.st_mode))
        r = content_open(dir, name, &fd);
    if (r >= 0 && fd >= 0 && fstat(fd, &st) < 0)
        r = -errno;
    uint64_t size = fd >= 0 ? (uint64_t)st.st_size : 0, end;
    for (uint64_t sent = 0, offset = 0; r >= 0 && offset < size; sent = offset) {
        r = content_next_data(fd, size, &offset, &end);
        if (r >= 0 && offset > sent) {
            answer_begin(a, WIRE_DATA);
            wire_put_u64(&a->frame, WIRE_K_OFFSET, offset);
            answer_end(a);
        }
        while (r >= 0 && offset < end) {
            char space[CHUNK];
            size_t want = end - offset < CHUNK ? (size_t)(end - offset) : CHUNK;
            ssize_t got = io_read_at(fd, space, want, offset);
            r = got < 0 ? (int)got : (size_t)got < want ? -EIO : answer_write(a, space, want);
            offset += want;
        }
    }
    if (r < 0)
        return error_errno(err, -r, "cannot read the changed file");
    answer_begin(a, WIRE_RESULT);
    wire_put_u64(&a->frame, WIRE_K_MODE, st.st_mode);
    wire_put_u64(&a->frame, WIRE_K_SIZE, size);
    if (target)
        wire_put_str(&a->frame, WIRE_K_TARGET, target);
    return answer_end(a);
}

/*
 * LAYERED: which of the paths in the request the box's layers decide about. All others show the
 * base. A layer decides about a path that it holds (a whiteout counts), that lies beneath something
 * of it that is no folder, or beneath an opaque folder.
 */
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
        for (size_t i = 0; !decides && i < t->n_layers; i++) {
            _cleanup_free_ char *path = strndup((const char *)field.data, field.size);
            _cleanup_fd_ int dir = fcntl(t->layers[i], F_DUPFD_CLOEXEC, 3);
            if (!path || dir < 0)
                return error_errno(err, path ? errno : ENOMEM, "cannot look at the layers");
            for (char *name, *rest = path; !decides && (name = strsep(&rest, "/"));) {
                struct stat st;
                if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                    if (errno == ENOENT)
                        break;
                    return error_errno(err, errno, "cannot look at the layers");
                }
                decides = !rest || !S_ISDIR(st.st_mode);
                if (decides)
                    break;
                int next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0)
                    return error_errno(err, errno, "cannot look at the layers");
                close(dir);
                dir = next;
                decides = overlay_is_opaque(dir);
            }
        }
        if (decides) {
            answer_begin(a, WIRE_ENTRY);
            wire_put(&a->frame, WIRE_K_PATH, field.data, field.size);
            answer_end(a);
        }
    }
    answer_begin(a, WIRE_RESULT);
    return answer_end(a);
}

/*
 * TOUCHED: every name that the box's layers decide about, so that the host can record what the
 * folder has there. Nothing is compared, so this is cheap: one record per name in a layer, and per
 * name of the folder that is hidden by a deleted or replaced folder. Below a folder that only the
 * box has, there is nothing to record.
 */
static int touched_visit(struct walk *w, const struct walk_entry *e, void *data)
{
    struct answer *a = data;
    if (e->path_len > RELPATH_MAX || relpath_touches_git(e->path))
        return 0;
    answer_begin(a, WIRE_ENTRY);
    wire_put_str(&a->frame, WIRE_K_PATH, e->path);
    if (e->in_merged || !walk_level(w)->hidden)
        wire_put_u64(&a->frame, WIRE_K_BOTH, 1);
    if (answer_end(a) < 0)
        return error_errno(w->err, -a->status, "cannot send the list");
    if (!e->in_base)
        return 0;
    return S_ISDIR(e->base.st_mode) || (e->in_merged && S_ISDIR(e->merged.st_mode));
}

/* A folder whose names in the base the box cannot see: what comes there later, it has not seen
 * either. */
static int touched_leave(struct walk *w, void *data)
{
    struct answer *a = data;
    const struct walk_level *l = walk_level(w);
    if (l->path_len == 0 || !l->hidden || walk_dir(w, WALK_BASE) < 0)
        return 0;
    answer_begin(a, WIRE_ENTRY);
    wire_put_str(&a->frame, WIRE_K_PATH, (const char *)w->path.data);
    wire_put_u64(&a->frame, WIRE_K_HIDDEN, 1);
    return answer_end(a) < 0 ? error_errno(w->err, -a->status, "cannot send the list") : 0;
}

static int worker_serve_request(int root, const struct wire_frame *request, struct answer *a,
                                struct error *err)
{
    static const struct walk_ops TOUCHED = {.visit = touched_visit, .leave = touched_leave};
    _cleanup_overlay_ struct overlay t = OVERLAY_INIT;
    int r = overlay_open(root, "w", &t, err);
    if (r < 0)
        return r;
    struct overlay view = t;
    view.copy = -1;
    switch (request->type) {
    case WIRE_CHANGES:
        return changes_answer(&t, wire_find_u64(request, WIRE_K_ALL, 0) != 0, a, err);
    case WIRE_DIFF:
        return diff_answer(&t, wire_find_u64(request, WIRE_K_STAT, 0) != 0, a, err);
    case WIRE_FETCH:
        return fetch_answer(&t, request, a, err);
    case WIRE_LAYERED:
        return layered_answer(&t, request, a, err);
    case WIRE_TOUCHED:
        r = walk_run(&view, &TOUCHED, a, err);
        break;
    case WIRE_COPY:
        r = copy_snapshot(root, &t, request, err);
        break;
    case WIRE_PING:
        break;
    default:
        return error_set(err, ENOSYS, "the diff worker has no request %d", (int)request->type);
    }
    if (r < 0)
        return r;
    answer_begin(a, WIRE_RESULT);
    return answer_end(a);
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
        if (n != 1)
            continue;
        /* One request and its answer. Its failure is the host's to notice; it ends nothing. */
        _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
        _cleanup_(answer_free) struct answer a = {
            .fd = conn, .data = BUF_INIT(WIRE_DATA_MAX), .frame = BUF_INIT(2 * WIRE_BODY_MAX)};
        struct wire_frame request;
        struct error err = {0};
        if (wire_read(&in, &request) <= 0)
            continue;
        if (worker_serve_request(root, &request, &a, &err) < 0 && a.status == 0) {
            answer_begin(&a, WIRE_ERROR);
            wire_put_u64(&a.frame, WIRE_K_CODE, (uint64_t)err.code);
            wire_put_str(&a.frame, WIRE_K_TEXT, err.text);
            answer_end(&a);
        }
    }
}
