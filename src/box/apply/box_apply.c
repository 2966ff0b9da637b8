/*
 * The calls of box.h that compare a box with its folder: note, apply, sync; and writing in the box
 * what came of them.
 *
 * Sync brings the folder's present state into a box. A file that the box did not touch shows
 * through from the folder, once the overlay has forgotten the names it looked up, which opening a
 * view makes it do. Paths that both the box and the user changed are merged as in an apply, but it
 * is the box that gets the result.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply.h"
#include "box_internal.h"
#include "io.h"
#include "relpath.h"
#include "banned.h"

/* sync_path() has nothing to report about the path. */
#define SYNC_SILENT (APPLY_REFUSED + 1)

int box_edits_add(struct box_edits *l, enum box_edit_kind kind, const char *path, mode_t mode,
                  struct seen_base *data, const struct identity *id)
{
    char *copy = strdup(path);
    if (!copy || !list_grow(&l->items, l->count, sizeof *l->items)) {
        free(copy);
        seen_base_unref(data);
        return -ENOMEM;
    }
    struct box_edit *e = &l->items[l->count++];
    *e = (struct box_edit){.kind = kind, .path = copy, .mode = mode, .data = data};
    if (id)
        e->id = *id;
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

/* One request: the guest stages one path with its content, or removes it. A file of the folder has
 * the size that was announced, whatever happens to it meanwhile: -ESTALE if it became shorter. */
static int edit_send(int conn, struct buf *out, const struct box_edit *e, int folder)
{
    char target[PATH_MAX + 1] = "", space[WIRE_DATA_MAX];
    _cleanup_fd_ int dir = -1, fd = -1;
    mode_t mode = S_IFREG | e->mode;
    uint64_t size = e->data ? e->data->size : 0;
    if (e->kind == BOX_EDIT_FOLDER) {
        int r = beneath_open_parent(folder, e->path, &dir);
        if (r < 0)
            return r;
        bool is_link = S_ISLNK(e->id.mode);
        mode = is_link ? S_IFLNK | 0777 : e->id.mode;
        ssize_t n = is_link ? readlinkat(dir, relpath_name(e->path), target, sizeof target - 1) : 0;
        size = is_link ? (uint64_t)n : e->id.size;
        if (!is_link)
            fd = openat(dir, relpath_name(e->path),
                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (n < 0 || (!is_link && fd < 0))
            return -errno;
    }

    size_t begin = wire_begin(out, WIRE_STAGE);
    if (e->kind == BOX_EDIT_GONE)
        wire_put_str(out, WIRE_K_OWN, e->path);
    int r = wire_end_send(conn, out, begin);
    if (r == 0 && e->kind != BOX_EDIT_GONE) {
        begin = wire_begin(out, WIRE_ENTRY);
        wire_put_str(out, WIRE_K_PATH, e->path);
        wire_put_u64(out, WIRE_K_MODE, mode);
        wire_put_u64(out, WIRE_K_SIZE, size);
        if (S_ISLNK(mode))
            wire_put_str(out, WIRE_K_DATA, target);
        r = wire_end_send(conn, out, begin);
    }
    for (uint64_t at = 0; r == 0 && !S_ISLNK(mode) && at < size;) {
        size_t n = size - at < sizeof space ? (size_t)(size - at) : sizeof space;
        ssize_t got = fd >= 0 ? io_read_at(fd, space, n, at) : (ssize_t)n;
        if (got != (ssize_t)n)
            return got < 0 ? (int)got : -ESTALE;
        begin = wire_begin(out, WIRE_DATA);
        wire_put(out, WIRE_K_DATA, fd >= 0 ? space : (const char *)e->data->data + at, n);
        r = wire_end_send(conn, out, begin);
        at += n;
    }
    if (r < 0)
        return r;
    begin = wire_begin(out, WIRE_ENTRY);
    wire_put_u64(out, WIRE_K_EOF, 1);
    return wire_end_send(conn, out, begin);
}

/* Writes all edits in the box, and records that it has the folder's version now. What changed in
 * the folder meanwhile is left out, or its record stays, so that the change is seen. */
static int box_edits_write(struct box *b, int folder, struct box_edits *l, struct error *err)
{
    if (seen_own(&b->seen) < 0)
        return error_errno(err, ENOMEM, "cannot write in the box");
    if (l->count)
        qsort(l->items, l->count, sizeof *l->items, edit_compare);
    for (const struct box_edit *e = l->items; e < l->items + l->count; e++) {
        _cleanup_buf_ struct buf out = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX);
        _cleanup_fd_ int conn = -1, dir = -1;
        struct identity now;
        const char *name = relpath_name(e->path);
        int r = box_connect(b, NULL, &conn, err);
        if (r < 0)
            return r;
        pthread_rwlock_rdlock(&b->frozen);
        r = edit_send(conn, &out, e, folder);
        pthread_rwlock_unlock(&b->frozen);
        if (r == -ESTALE || r == -ENOENT)
            continue;
        if (r < 0)
            return error_errno(err, -r, "cannot write %.300s in the box", e->path);
        _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
        struct wire_frame f;
        do
            r = changes_answer(&in, &f, err);
        while (r >= 0 && f.type == WIRE_ENTRY);
        if (r < 0)
            return r;

        if (e->kind == BOX_EDIT_GONE)
            r = seen_set(b->seen, e->path, SEEN_ABSENT, NULL, NULL, false);
        else if (beneath_open_parent(folder, e->path, &dir) == 0 &&
                 identity_get(dir, name, &now) == 0 && identity_same(&now, &e->id))
            r = seen_set(b->seen, e->path, SEEN_KNOWN, &now,
                         seen_read_base(b->seen, dir, name, &now), false);
        if (r == -ENOMEM)
            return error_errno(err, ENOMEM, "cannot write in the box");
    }
    return 0;
}

/* Gives the box the folder's version: a file, a link, or nothing. */
static int sync_give(struct apply *ap, const struct apply_path *p, const char *why)
{
    ap->why = why;
    int r = box_edits_add(&ap->edits, p->there ? BOX_EDIT_FOLDER : BOX_EDIT_GONE, p->path, 0, NULL,
                          p->there ? &p->now : NULL);
    return r < 0 ? r : APPLY_DONE;
}

static int sync_give_merged(struct apply *ap, const struct apply_path *p,
                            const struct apply_merged *m, const char *why)
{
    ap->why = why;
    int r = box_edits_add(&ap->edits, BOX_EDIT_BYTES, p->path, m->mode, seen_base_ref(m->bytes),
                          &p->now);
    return r < 0 ? r : APPLY_MERGED;
}

/* The box keeps its version, and the next apply writes it over what the folder has now. */
static int sync_keep_box(struct apply *ap, const struct apply_path *p)
{
    struct seen_base *base =
        p->there ? seen_read_base(ap->seen, p->dir, relpath_name(p->path), &p->now) : NULL;
    int r = seen_set(ap->seen, p->path, p->there ? SEEN_KNOWN : SEEN_ABSENT, &p->now, base, false);
    return r == -ENOSPC ? 0 : r;
}

/* A conflict: does what the options say about it. */
static int sync_resolve(struct apply *ap, const struct apply_path *p, const struct apply_merged *m,
                        const char *why)
{
    enum apply_choice choice = ap->options->on_conflict;
    if (choice == APPLY_MINE)
        return sync_give(ap, p, "the box has your version now");
    if (choice == APPLY_MARKERS && m->bytes)
        return sync_give_merged(ap, p, m, "with conflict markers");
    ap->why = choice == APPLY_THEIRS ? "the box keeps its version" : why;
    int r = choice == APPLY_THEIRS ? sync_keep_box(ap, p) : 0;
    return r < 0 ? r : choice == APPLY_THEIRS ? APPLY_SAME : APPLY_CONFLICT;
}

/* Returns an apply_outcome with ap->why, SYNC_SILENT, or a negative errno. */
static int sync_path(struct apply *ap, const struct changes_entry *e, struct error *err)
{
    _cleanup_(apply_path_close) struct apply_path p;
    _cleanup_(apply_merged_free) struct apply_merged m = {0};
    int r = apply_path_open(ap, e->path, false, &p, err);
    if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ELOOP)
        return r;
    if (apply_path_is_seen(&p) && !p.seen->base_differs)
        return SYNC_SILENT;
    if (e->kind == WIRE_DELETED)
        return p.there ? sync_resolve(ap, &p, &m, "you changed it, and the box deleted it")
                       : SYNC_SILENT;
    if (!p.there && p.state != SEEN_KNOWN)
        return SYNC_SILENT;
    if (!p.there) {
        /* If the box left the content as it saw it, the user's deletion wins. */
        const struct seen_base *base = p.seen ? p.seen->base : NULL;
        bool left = base && S_ISREG(e->mode) && e->size == base->size &&
                    apply_fetch_base(ap, e, SEEN_CONTENT_MAX, &m.theirs, NULL) == 0 &&
                    seen_base_same(m.theirs, base);
        return left ? sync_give(ap, &p, NULL)
                    : sync_resolve(ap, &p, &m, "you deleted it, and the box changed it");
    }

    /* Both have a version, and the folder's is not the one that the box saw. */
    r = apply_merge(ap, &p, e, &m, err);
    if (r == APPLY_MERGE_CLEAN)
        return sync_give_merged(ap, &p, &m, NULL);
    if (r == APPLY_MERGE_ONLY_FOLDER)
        return sync_give(ap, &p, NULL);
    if (r == APPLY_MERGE_ONLY_BOX || r == APPLY_MERGE_SAME) {
        r = sync_keep_box(ap, &p);
        return r < 0 ? r : SYNC_SILENT;
    }
    return r < 0 ? r : sync_resolve(ap, &p, &m, "you and the box changed it");
}

int sync_folder(struct apply *ap, struct error *err)
{
    _cleanup_(apply_list_free) struct apply_list list = {0};
    int conflicts = 0, r = apply_list_read(ap, false, &list, err);
    ap->lock = ap->journal = -1;
    for (size_t i = 0; r >= 0 && i < list.count; i++) {
        const struct changes_entry *e = &list.at[i].e;
        if (!(S_ISREG(e->mode) || S_ISLNK(e->mode)) || relpath_touches_git(e->path))
            continue;
        ap->why = NULL;
        r = sync_path(ap, e, err);
        if (r == -ENOMEM)
            error_errno(err, ENOMEM, "cannot sync %.300s", e->path);
        conflicts += r == APPLY_CONFLICT;
        if (r >= 0 && r != SYNC_SILENT && ap->report)
            ap->report->say(ap->report->data, e->path, (enum apply_outcome)r, ap->why);
    }
    return r < 0 ? r : conflicts;
}

void box_track(struct box *b)
{
    b->tracks = b->mode == BOX_COW && b->folder >= 0;
}

static int diff_worker_connect(void *worker, int *ret_fd)
{
    return machine_connect(worker, NULL, ret_fd);
}

int box_view_note(struct box_view *v, struct error *err)
{
    struct box *b = v->box;
    _cleanup_fd_ int conn = -1;
    if (b->folder < 0)
        return 0;
    int r = seen_own(&b->seen);
    if (r == 0)
        r = diff_worker_connect(v->diff_worker, &conn);
    if (r < 0)
        return error_errno(err, -r, "cannot record what the folder has");
    return seen_note_touched(b->seen, b->folder, b->fresh_ns, conn, err);
}

/* Notes; if no process has anything open, everything is looked up anew from now on. */
static int box_view_note_fresh(struct box_view *v, struct error *err)
{
    int r = box_view_note(v, err);
    if (r == 0 && v->alone)
        v->box->fresh_ns = v->began_ns;
    return r;
}

int local_note_seen(struct box *b, struct error *err)
{
    struct box_view v;
    struct usage now;
    if (!b->tracks || box_wait(b, NULL) < 0)
        return 0;
    machine_usage(b->machine, USAGE_DISK_STATE, &now);
    if (now.disk_state == b->noted_disk_state)
        return 0;
    int r = box_view_open(b, NULL, -1, &v, err);
    if (r < 0)
        return r;
    r = box_view_note_fresh(&v, err);
    if (r == 0)
        b->noted_disk_state = now.disk_state;
    box_view_close(&v);
    return r;
}

/* The user may have removed the folder and made it again: then the box's base is a folder without
 * a name, and a new one is not what the box worked on. *ret: the folder to work on. */
static int box_open_folder(const struct box *b, const struct apply_options *o, int *ret,
                           struct error *err)
{
    struct identity ours, now;
    if (b->folder < 0)
        return error_set(err, EINVAL, "this box has no folder to apply its changes to");
    if (b->mode != BOX_COW)
        return box_require_cow(b, err);
    int r = identity_get(b->folder, "", &ours);
    if (r < 0)
        return error_errno(err, -r, "cannot look at the folder %s", b->workspace);
    _cleanup_fd_ int fd = open(b->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set(
            err, ESTALE,
            "the folder %s was removed or moved since the box started; the box's changes are still "
            "in the box: see them with 'hutch box diff', save them with 'hutch box diff ID >FILE'",
            b->workspace);
    bool same = identity_get(fd, "", &now) == 0 && identity_same_inode(&ours, &now);
    if (!same && !o->replaced_folder)
        return error_set(
            err, ESTALE,
            "the folder %s was replaced since the box started, and what it held is gone; the box's "
            "changes are still in the box: see them with 'hutch box diff', or write them to the "
            "new folder with 'hutch box apply --new-folder ID'",
            b->workspace);
    *ret = TAKE_FD(fd);
    return 0;
}

/* Apply and sync are the same but for their direction: the box stands still, what it saw is noted,
 * the folder and the box are compared, and what the box gets is written once its processes go
 * on. */
int local_exchange(struct box *b, bool apply, const struct apply_options *o,
                   const struct apply_report *report, struct error *err)
{
    struct box_view v;
    _cleanup_fd_ int folder = -1;
    int r = box_open_folder(b, o, &folder, err);
    if (r == 0 && apply && !b->log && !(b->log = applied_log_new()))
        r = error_errno(err, ENOMEM, "cannot apply the changes");
    if (r < 0)
        return r;
    box_time_after_now(); /* what the user just saved counts as older than what follows */
    r = box_view_open(b, NULL, -1, &v, err);
    if (r < 0)
        return r;
    r = box_view_note_fresh(&v, err);
    struct apply ap = {.folder = folder,
                       .seen = b->seen,
                       .log = apply ? b->log : NULL,
                       .options = o,
                       .report = report,
                       .connect = diff_worker_connect,
                       .data = v.diff_worker,
                       .bytes_max = apply ? b->limits.disk : 0,
                       .locks = apply};
    if (r == 0)
        r = apply ? apply_changes(&ap, err) : sync_folder(&ap, err);
    box_view_close(&v);
    int written = ap.edits.count ? box_edits_write(b, folder, &ap.edits, r < 0 ? NULL : err) : 0;
    box_edits_free(&ap.edits);
    return r >= 0 && written < 0 ? written : r;
}
