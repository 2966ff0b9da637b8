/*
 * Restoring a snapshot after an apply.
 *
 * The lowest layer of a box is the live folder. A file that was applied since the snapshot shows
 * through from there, unless a layer of the snapshot has the path itself. So the guest of the fresh
 * box writes, for every such path of the applied log, the earliest state that the folder had after
 * the snapshot: then the box shows what it showed, and its diff against the folder is what takes
 * the applied changes back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "applied_log.h"
#include "local_box.h"
#include "banned.h"

#define REQUEST_PATHS (256u << 10) /* bytes of paths in one request to the diff worker */

struct restore_item {
    const struct applied_entry *entry; /* belongs to the log */
    bool layered;                      /* the snapshot's layers decide about the path */
    const char *why;                   /* it could not be restored */
};

/* In order of their paths. */
struct restore_list {
    struct restore_item *items;
    size_t count, room;
};

static void restore_list_free(struct restore_list *l)
{
    free(l->items);
}

static int restore_list_add(void *data, const struct applied_entry *e)
{
    struct restore_list *l = data;
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        struct restore_item *items = reallocarray(l->items, room, sizeof *items);
        if (!items)
            return -ENOMEM;
        l->items = items;
        l->room = room;
    }
    l->items[l->count++] = (struct restore_item){.entry = e};
    return 0;
}

static int restore_fail(int code, const char *what, struct error *err)
{
    return error_errno(err, code, "cannot restore the applied files: %s", what);
}

/* Asks a diff worker which paths the layers of the fresh box decide about, as many at once as fit
 * into one request. */
static int restore_find_layered(struct box *b, struct restore_list *l, struct error *err)
{
    struct machine *worker = NULL;
    int r = box_diff_worker(b, NULL, &worker, err);
    for (size_t first = 0, next = 0; r == 0 && first < l->count; first = next) {
        _cleanup_buf_ struct buf request = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX);
        _cleanup_fd_ int conn = -1;
        size_t begin = wire_begin(&request, WIRE_LAYERED);
        for (; next < l->count && request.len < REQUEST_PATHS; next++)
            wire_put_str(&request, WIRE_K_PATH, l->items[next].entry->path);
        wire_end(&request, begin);
        r = machine_connect(worker, &request, &conn);
        if (r < 0) {
            r = restore_fail(-r, "the diff worker does not answer", err);
            break;
        }
        _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
        struct wire_frame f;
        int got = 0;
        while (r == 0 && (got = wire_read(&in, &f)) > 0 && f.type == WIRE_ENTRY) {
            _cleanup_free_ char *path = wire_find_str(&f, WIRE_K_PATH);
            while (path && first < next && strcmp(l->items[first].entry->path, path) != 0)
                first++; /* answers come in the order of the request */
            if (path && first < next)
                l->items[first].layered = true;
            else
                r = restore_fail(EPROTO, "the diff worker named another path", err);
        }
        if (r == 0 && (got <= 0 || f.type != WIRE_RESULT))
            r = restore_fail(EPROTO, "the diff worker gave up", err);
    }
    machine_unref(worker);
    return r;
}

/* One path, and of a file its content in DATA frames, the last one with EOF. */
static int restore_send(const struct applied_log *log, const struct applied_entry *e, int conn,
                        struct buf *out)
{
    static const mode_t TYPES[] = {
        [APPLIED_FILE] = S_IFREG, [APPLIED_LINK] = S_IFLNK, [APPLIED_DIR] = S_IFDIR};
    size_t begin = wire_begin(out, WIRE_ENTRY);
    wire_put_str(out, WIRE_K_PATH, e->path);
    if (e->kind == APPLIED_ABSENT)
        wire_put_u64(out, WIRE_K_KIND, WIRE_DELETED);
    else
        wire_put_u64(out, WIRE_K_MODE, TYPES[e->kind] | (e->mode & 0777));
    if (e->kind == APPLIED_LINK && e->target)
        wire_put_str(out, WIRE_K_TARGET, e->target);
    wire_end(out, begin);
    int r = wire_send(conn, out, NULL, 0);
    uint64_t at = 0;
    for (bool more = e->kind == APPLIED_FILE; r == 0 && more;) {
        char piece[WIRE_DATA_MAX / 2];
        ssize_t n = applied_log_read(log, e, piece, sizeof piece, at);
        if (n < 0)
            return (int)n;
        at += (uint64_t)n;
        more = n > 0;
        begin = wire_begin(out, WIRE_DATA);
        wire_put(out, WIRE_K_DATA, piece, (size_t)n);
        if (!more)
            wire_put_u64(out, WIRE_K_EOF, 1);
        wire_end(out, begin);
        r = wire_send(conn, out, NULL, 0);
    }
    return r;
}

static bool restore_wants(struct restore_item *i, bool absent)
{
    if (!i->layered && i->entry->kind == APPLIED_FILE && !i->entry->kept)
        i->why = "its earlier content was too large to keep";
    return !i->layered && !i->why && (i->entry->kind == APPLIED_ABSENT) == absent;
}

/* Has the guest write them. What was added goes first, the deepest first, so that its folders are
 * empty when it is their turn; then what was there before comes back, folders before what is in
 * them. */
static int restore_put(struct box *b, struct restore_list *l, struct error *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX);
    _cleanup_fd_ int conn = -1;
    wire_end(&out, wire_begin(&out, WIRE_PUT));
    int r = machine_connect(b->machine, &out, &conn);
    if (r < 0)
        return restore_fail(-r, "the guest does not answer", err);
    for (size_t i = l->count; i-- > 0 && r == 0;)
        if (restore_wants(&l->items[i], true))
            r = restore_send(b->log, l->items[i].entry, conn, &out);
    for (size_t i = 0; i < l->count && r == 0; i++)
        if (restore_wants(&l->items[i], false))
            r = restore_send(b->log, l->items[i].entry, conn, &out);
    if (r == 0) {
        size_t begin = wire_begin(&out, WIRE_ENTRY);
        wire_put_u64(&out, WIRE_K_EOF, 1);
        wire_end(&out, begin);
        r = wire_send(conn, &out, NULL, 0);
    }
    if (r < 0)
        return restore_fail(-r, "the guest refused them", err);

    /* The guest answers with the paths that it could not write. */
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    struct wire_frame f;
    while ((r = wire_read(&in, &f)) > 0 && f.type == WIRE_ENTRY) {
        _cleanup_free_ char *path = wire_find_str(&f, WIRE_K_PATH);
        uint64_t code = wire_find_u64(&f, WIRE_K_CODE, EIO);
        for (size_t i = 0; path && i < l->count; i++)
            if (strcmp(l->items[i].entry->path, path) == 0)
                l->items[i].why = code == ENOSPC || code == EDQUOT ? "the disk of the box is full"
                                  : code == ENOTEMPTY ? "a folder with other files is in its place"
                                                      : "it cannot be written in the box";
    }
    return r > 0 && f.type == WIRE_RESULT ? 0 : restore_fail(EPROTO, "the guest gave up", err);
}

static int restore_applied(struct box *fresh, const struct snapshot *s,
                           const struct restore_report *report, struct error *err)
{
    _cleanup_(restore_list_free) struct restore_list l = {0};
    int r = applied_log_each(fresh->log, snapshot_applied(s), restore_list_add, &l);
    if (r < 0)
        return restore_fail(-r, "no memory", err);
    if (l.count == 0)
        return 0;
    r = restore_find_layered(fresh, &l, err);
    if (r == 0)
        r = restore_put(fresh, &l, err);
    for (size_t i = 0; r == 0 && report && i < l.count; i++)
        report->say(report->data, l.items[i].entry->path, l.items[i].why);
    return r;
}

int box_fork_at(struct snapshot *s, struct box *current, const struct restore_report *report,
                struct box **ret, struct error *err)
{
    _cleanup_box_ struct box *fresh = NULL;
    int r = box_fork(s, &fresh, err);
    if (r == 0)
        r = box_inherit_applied(fresh, current, s, err);
    if (r == 0)
        r = box_inherit_settings(fresh, current, err);
    if (r == 0 && fresh->mode == BOX_COW && fresh->folder >= 0)
        r = restore_applied(fresh, s, report, err);
    if (r == 0)
        *ret = TAKE_PTR(fresh);
    return r;
}
