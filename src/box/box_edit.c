#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "relpath.h"
#include "box_edit.h"
#include "local_box.h"
#include "changes.h"
#include "note.h"
#include "banned.h"

int box_edits_add(struct box_edits *l, enum box_edit_kind kind, const char *path, mode_t mode,
                  struct seen_base *data, const struct identity *id)
{
    char *copy = strdup(path);
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 16;
        struct box_edit *items = reallocarray(l->items, room, sizeof *items);
        if (items) {
            l->items = items;
            l->room = room;
        }
    }
    if (!copy || l->count == l->room) {
        free(copy);
        seen_base_unref(data);
        return -ENOMEM;
    }
    l->items[l->count] = (struct box_edit){.kind = kind, .path = copy, .mode = mode, .data = data};
    if (id)
        l->items[l->count].id = *id;
    l->count++;
    return 0;
}

void box_edits_free(struct box_edits *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->items[i].path);
        seen_base_unref(l->items[i].data);
    }
    free(l->items);
    *l = (struct box_edits){0};
}

static int edit_compare(const void *a, const void *b)
{
    return strcmp(((const struct box_edit *)a)->path, ((const struct box_edit *)b)->path);
}

/* One request, for one edit: the guest stages the path, or with `own` and no file, removes it. */
struct sending {
    int conn;
    struct buf out;
};

static int send_frame(struct sending *s, size_t begin)
{
    wire_end(&s->out, begin);
    return s->out.failed ? -ENOMEM : wire_send(s->conn, &s->out, NULL, 0);
}

static int send_bytes(struct sending *s, const void *data, size_t n)
{
    size_t begin = wire_begin(&s->out, WIRE_DATA);
    wire_put(&s->out, WIRE_K_DATA, data, n);
    return send_frame(s, begin);
}

static int send_entry(struct sending *s, const char *path, mode_t mode, uint64_t size,
                      const char *target)
{
    size_t begin = wire_begin(&s->out, WIRE_ENTRY);
    wire_put_str(&s->out, WIRE_K_PATH, path);
    wire_put_u64(&s->out, WIRE_K_MODE, mode);
    wire_put_u64(&s->out, WIRE_K_SIZE, target ? strlen(target) : size);
    if (target)
        wire_put_str(&s->out, WIRE_K_DATA, target);
    return send_frame(s, begin);
}

static int send_data(struct sending *s, const struct box_edit *e)
{
    int r = send_entry(s, e->path, S_IFREG | e->mode, e->data->size, NULL);
    for (size_t at = 0; r == 0 && at < e->data->size; at += WIRE_DATA_MAX) {
        size_t n = e->data->size - at < WIRE_DATA_MAX ? e->data->size - at : WIRE_DATA_MAX;
        r = send_bytes(s, e->data->data + at, n);
    }
    return r;
}

/* A file of the folder; its size is what was announced, whatever happens to it meanwhile. */
static int send_file(struct sending *s, const struct box_edit *e, int dir)
{
    char space[WIRE_DATA_MAX];
    _cleanup_fd_ int fd = openat(dir, relpath_name(e->path),
                                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = send_entry(s, e->path, e->id.mode, e->id.size, NULL);
    for (uint64_t at = 0; r == 0 && at < e->id.size;) {
        size_t want = e->id.size - at < sizeof space ? (size_t)(e->id.size - at) : sizeof space;
        ssize_t n = pread(fd, space, want, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ESTALE;
        r = send_bytes(s, space, (size_t)n);
        at += (uint64_t)n;
    }
    return r;
}

static int send_folder(struct sending *s, const struct box_edit *e, int folder)
{
    char target[PATH_MAX + 1];
    _cleanup_fd_ int dir = -1;
    int r = beneath_open_parent(folder, e->path, &dir);
    if (r < 0)
        return r;
    if (!S_ISLNK(e->id.mode))
        return send_file(s, e, dir);
    ssize_t n = readlinkat(dir, relpath_name(e->path), target, sizeof target - 1);
    if (n < 0)
        return -errno;
    target[n] = 0;
    return send_entry(s, e->path, S_IFLNK | 0777, 0, target);
}

static int edit_send(struct sending *s, const struct box_edit *e, int folder)
{
    int r = 0;
    size_t begin = wire_begin(&s->out, WIRE_STAGE);
    if (e->kind == BOX_EDIT_GONE)
        wire_put_str(&s->out, WIRE_K_OWN, e->path);
    r = send_frame(s, begin);
    if (r == 0 && e->kind == BOX_EDIT_BYTES)
        r = send_data(s, e);
    else if (r == 0 && e->kind == BOX_EDIT_FOLDER)
        r = send_folder(s, e, folder);
    if (r < 0)
        return r;
    begin = wire_begin(&s->out, WIRE_ENTRY);
    wire_put_u64(&s->out, WIRE_K_EOF, 1);
    return send_frame(s, begin);
}

static int edit_write(struct box *b, int folder, const struct box_edit *e, struct error *err)
{
    _cleanup_fd_ int conn = -1;
    int r = box_connect(b, NULL, &conn, err);
    if (r < 0)
        return r;
    struct sending s = {.conn = conn, .out = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX)};
    pthread_rwlock_rdlock(&b->frozen);
    r = edit_send(&s, e, folder);
    pthread_rwlock_unlock(&b->frozen);
    buf_free(&s.out);
    if (r == -ESTALE || r == -ENOENT)
        return 1; /* the folder's version is another by now */
    if (r < 0)
        return error_errno(err, -r, "cannot write %.300s in the box", e->path);
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    struct wire_frame f;
    do
        r = changes_answer(&in, &f, err);
    while (r >= 0 && f.type == WIRE_ENTRY);
    return r;
}

/* The box has the folder's version `e->id` now. */
static int edit_record(struct box *b, int folder, const struct box_edit *e)
{
    struct identity now;
    struct seen_base *base = NULL;
    _cleanup_fd_ int dir = -1;
    if (e->kind == BOX_EDIT_GONE)
        return seen_set(b->seen, e->path, SEEN_ABSENT, NULL, NULL, false);
    if (beneath_open_parent(folder, e->path, &dir) < 0 ||
        identity_get(dir, relpath_name(e->path), &now) < 0 || !identity_same(&now, &e->id))
        return 0; /* it changed again: the record stays, and the change is seen */
    if (S_ISREG(now.mode) && seen_has_room(b->seen, now.size))
        note_read_file(dir, relpath_name(e->path), &now, SEEN_CONTENT_MAX, &base);
    return seen_set(b->seen, e->path, SEEN_KNOWN, &now, base, false);
}

int box_edits_write(struct box *b, int folder, struct box_edits *l, struct error *err)
{
    int r = seen_own(&b->seen);
    if (r < 0)
        return error_errno(err, -r, "cannot write in the box");
    if (l->count)
        qsort(l->items, l->count, sizeof *l->items, edit_compare);
    for (size_t i = 0; i < l->count; i++) {
        r = edit_write(b, folder, &l->items[i], err);
        if (r < 0)
            return r;
        if (r == 0 && edit_record(b, folder, &l->items[i]) == -ENOMEM)
            return error_errno(err, ENOMEM, "cannot write in the box");
    }
    return 0;
}
