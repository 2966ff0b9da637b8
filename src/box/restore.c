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
#include "restore.h"
#include "banned.h"

#define REQUEST_PATHS (256u << 10) /* bytes of paths in one request to the diff worker */

struct restore_item {
    const struct applied_entry *entry; /* belongs to the log */
    bool layered;                      /* the snapshot's layers decide about the path */
    const char *why;                   /* it could not be restored */
};

struct restore {
    struct box *box;
    const struct applied_log *log;
    struct restore_item *items;
    size_t count, room;
};

static void restore_free(struct restore *r)
{
    free(r->items);
}

static int restore_add(void *data, const struct applied_entry *e)
{
    struct restore *r = data;
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        struct restore_item *items = reallocarray(r->items, room, sizeof *items);
        if (!items)
            return -ENOMEM;
        r->items = items;
        r->room = room;
    }
    r->items[r->count++] = (struct restore_item){.entry = e};
    return 0;
}

static int restore_fail(int code, const char *what, struct error *err)
{
    return error_errno(err, code, "cannot restore the applied files: %s", what);
}

/* Asks the diff worker about items from *at on, as many as fit into one request. */
static int restore_ask_layers(struct restore *r, struct machine *worker, size_t *at,
                              struct error *err)
{
    _cleanup_buf_ struct buf request = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX);
    _cleanup_fd_ int conn = -1;
    size_t first = *at, begin = wire_begin(&request, WIRE_LAYERED);
    for (; *at < r->count && request.len < REQUEST_PATHS; ++*at)
        wire_put_str(&request, WIRE_K_PATH, r->items[*at].entry->path);
    wire_end(&request, begin);
    int result = machine_connect(worker, &request, &conn);
    if (result < 0)
        return restore_fail(-result, "the diff worker does not answer", err);
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    struct wire_frame f;
    while ((result = wire_read(&in, &f)) > 0 && f.type == WIRE_ENTRY) {
        _cleanup_free_ char *path = wire_find_str(&f, WIRE_K_PATH);
        while (path && first < *at && strcmp(r->items[first].entry->path, path) != 0)
            first++; /* answers come in the order of the request */
        if (!path || first == *at)
            return restore_fail(EPROTO, "the diff worker named another path", err);
        r->items[first].layered = true;
    }
    return result > 0 && f.type == WIRE_RESULT
               ? 0
               : restore_fail(EPROTO, "the diff worker gave up", err);
}

static int restore_find_layered(struct restore *r, struct error *err)
{
    struct machine *worker = NULL;
    int result = box_diff_worker(r->box, NULL, &worker, err);
    for (size_t at = 0; result == 0 && at < r->count;)
        result = restore_ask_layers(r, worker, &at, err);
    machine_unref(worker);
    return result;
}

/* Sends a file's content in DATA frames, the last one with EOF. */
static int restore_send_content(struct restore *r, const struct applied_entry *e, int conn,
                                struct buf *out)
{
    uint64_t at = 0;
    for (bool more = true; more;) {
        char piece[WIRE_DATA_MAX / 2];
        ssize_t n = applied_log_read(r->log, e, piece, sizeof piece, at);
        if (n < 0)
            return (int)n;
        at += (uint64_t)n;
        more = n > 0;
        size_t begin = wire_begin(out, WIRE_DATA);
        wire_put(out, WIRE_K_DATA, piece, (size_t)n);
        if (!more)
            wire_put_u64(out, WIRE_K_EOF, 1);
        wire_end(out, begin);
        int result = wire_send(conn, out, NULL, 0);
        if (result < 0)
            return result;
    }
    return 0;
}

static int restore_send(struct restore *r, const struct applied_entry *e, int conn, struct buf *out)
{
    static const mode_t types[] = {
        [APPLIED_FILE] = S_IFREG, [APPLIED_LINK] = S_IFLNK, [APPLIED_DIR] = S_IFDIR};
    size_t begin = wire_begin(out, WIRE_ENTRY);
    wire_put_str(out, WIRE_K_PATH, e->path);
    if (e->kind == APPLIED_ABSENT)
        wire_put_u64(out, WIRE_K_KIND, WIRE_DELETED);
    else
        wire_put_u64(out, WIRE_K_MODE, types[e->kind] | (e->mode & 0777));
    if (e->kind == APPLIED_LINK && e->target)
        wire_put_str(out, WIRE_K_TARGET, e->target);
    wire_end(out, begin);
    int result = wire_send(conn, out, NULL, 0);
    return result == 0 && e->kind == APPLIED_FILE ? restore_send_content(r, e, conn, out) : result;
}

static bool restore_wants(struct restore_item *i)
{
    if (!i->layered && i->entry->kind == APPLIED_FILE && !i->entry->kept)
        i->why = "its earlier content was too large to keep";
    return !i->layered && !i->why;
}

/* What was added goes first, the deepest first, so that its folders are empty when it is their
 * turn; then what was there before comes back, folders before what is in them. */
static int restore_send_all(struct restore *r, int conn, struct error *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX);
    int result = 0;
    for (size_t i = r->count; i-- > 0 && result == 0;)
        if (r->items[i].entry->kind == APPLIED_ABSENT && restore_wants(&r->items[i]))
            result = restore_send(r, r->items[i].entry, conn, &out);
    for (size_t i = 0; i < r->count && result == 0; i++)
        if (r->items[i].entry->kind != APPLIED_ABSENT && restore_wants(&r->items[i]))
            result = restore_send(r, r->items[i].entry, conn, &out);
    size_t begin = wire_begin(&out, WIRE_ENTRY);
    wire_put_u64(&out, WIRE_K_EOF, 1);
    wire_end(&out, begin);
    if (result == 0)
        result = wire_send(conn, &out, NULL, 0);
    return result < 0 ? restore_fail(-result, "the guest refused them", err) : 0;
}

static void restore_mark_failed(struct restore *r, const char *path, int code)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->items[i].entry->path, path) == 0)
            r->items[i].why = code == ENOSPC || code == EDQUOT ? "the disk of the box is full"
                              : code == ENOTEMPTY ? "a folder with other files is in its place"
                                                  : "it cannot be written in the box";
}

static int restore_put(struct restore *r, struct error *err)
{
    _cleanup_buf_ struct buf request = BUF_INIT(256);
    _cleanup_fd_ int conn = -1;
    wire_end(&request, wire_begin(&request, WIRE_PUT));
    int result = machine_connect(r->box->machine, &request, &conn);
    if (result < 0)
        return restore_fail(-result, "the guest does not answer", err);
    result = restore_send_all(r, conn, err);
    if (result < 0)
        return result;
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    struct wire_frame f;
    while ((result = wire_read(&in, &f)) > 0 && f.type == WIRE_ENTRY) {
        _cleanup_free_ char *path = wire_find_str(&f, WIRE_K_PATH);
        if (path)
            restore_mark_failed(r, path, (int)wire_find_u64(&f, WIRE_K_CODE, EIO));
    }
    return result > 0 && f.type == WIRE_RESULT ? 0 : restore_fail(EPROTO, "the guest gave up", err);
}

static int restore_applied(struct box *fresh, const struct snapshot *s,
                           const struct restore_report *report, struct error *err)
{
    _cleanup_(restore_free) struct restore r = {.box = fresh, .log = fresh->log};
    int result = applied_log_each(fresh->log, snapshot_applied(s), restore_add, &r);
    if (result < 0)
        return restore_fail(-result, "no memory", err);
    if (r.count == 0)
        return 0;
    result = restore_find_layered(&r, err);
    if (result == 0)
        result = restore_put(&r, err);
    for (size_t i = 0; result == 0 && report && i < r.count; i++)
        report->say(report->data, r.items[i].entry->path, r.items[i].why);
    return result;
}

int box_fork_at(struct snapshot *s, struct box *current, const struct restore_report *report,
                struct box **ret, struct error *err)
{
    struct box *fresh = NULL;
    int r = box_fork(s, &fresh, err);
    if (r == 0)
        r = box_inherit_applied(fresh, current, s, err);
    if (r == 0)
        r = box_inherit_settings(fresh, current, err);
    if (r == 0 && fresh->mode == BOX_COW && fresh->folder >= 0)
        r = restore_applied(fresh, s, report, err);
    if (r < 0) {
        box_close(fresh);
        return r;
    }
    *ret = fresh;
    return 0;
}
