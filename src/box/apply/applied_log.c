/*
 * The log of what applies replaced in the folder (apply.h), and restoring a snapshot after an
 * apply.
 *
 * The lowest layer of a box is the live folder. A file that was applied since the snapshot shows
 * through from there, unless a layer of the snapshot has the path itself. So the guest of the fresh
 * box writes, for every such path of the log, the earliest state that the folder had after the
 * snapshot: then the box shows what it showed, and its diff against the folder is what takes the
 * applied changes back.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply.h"
#include "box_internal.h"
#include "io.h"
#include "banned.h"

#define ENTRIES_MAX   1000000u
#define REQUEST_PATHS (256u << 10) /* bytes of paths in one request to the diff worker */

/* The contents of a family's logs. */
struct log_store {
    atomic_uint refs;
    _Atomic uint64_t used;
    int fd;
};

struct log_record {
    atomic_uint refs;
    struct applied_entry entry; /* its strings belong to the record */
    uint64_t offset;            /* of the content in the store */
};

struct applied_log {
    struct log_store *store;
    struct log_record **records;
    size_t count;
    uint64_t last;
};

static void log_record_unref(struct log_record *rec)
{
    if (!rec || --rec->refs)
        return;
    free((char *)rec->entry.path);
    free((char *)rec->entry.target);
    free(rec);
}

struct applied_log *applied_log_new(void)
{
    struct applied_log *l = calloc(1, sizeof *l);
    struct log_store *s = calloc(1, sizeof *s);
    if (!l || !s) {
        free(l);
        free(s);
        return NULL;
    }
    s->refs = 1;
    s->fd = -1;
    l->store = s;
    return l;
}

struct applied_log *applied_log_copy(const struct applied_log *l)
{
    struct applied_log *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    *copy = (struct applied_log){.store = l->store, .last = l->last};
    l->store->refs++;
    for (; copy->count < l->count; copy->count++) {
        if (!list_grow(&copy->records, copy->count, sizeof *copy->records))
            return applied_log_free(copy);
        copy->records[copy->count] = l->records[copy->count];
        copy->records[copy->count]->refs++;
    }
    return copy;
}

struct applied_log *applied_log_free(struct applied_log *l)
{
    if (!l)
        return NULL;
    for (size_t i = 0; i < l->count; i++)
        log_record_unref(l->records[i]);
    if (--l->store->refs == 0) {
        cleanup_close(&l->store->fd);
        free(l->store);
    }
    free(l->records);
    free(l);
    return NULL;
}

/* Copies a file to the end of the store. -EFBIG: there is no room for it. */
static int log_store_put(struct log_store *s, int content, uint64_t size, uint64_t *ret_offset)
{
    if (s->fd < 0) { /* not /tmp, which may be memory: it lives as long as the box */
        const char *folder = getenv("TMPDIR");
        s->fd = open(folder && folder[0] == '/' ? folder : "/var/tmp",
                     O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }
    if (s->fd < 0)
        return -errno;
    uint64_t at = s->used;
    do
        if (size > APPLIED_BYTES_MAX - at)
            return -EFBIG;
    while (!atomic_compare_exchange_weak(&s->used, &at, at + size));
    for (uint64_t done = 0; done < size;) {
        char space[64u << 10];
        size_t want = size - done < sizeof space ? (size_t)(size - done) : sizeof space;
        ssize_t n = io_read_at(content, space, want, done);
        int r = n < 0              ? (int)n
                : (size_t)n < want ? -EIO
                                   : io_write_at(s->fd, space, want, at + done);
        if (r < 0)
            return r;
        done += want;
    }
    *ret_offset = at;
    return 0;
}

int applied_log_add(struct applied_log *l, const struct applied_entry *e, int content)
{
    if (l->count == ENTRIES_MAX)
        return -ENOSPC;
    struct log_record *rec = calloc(1, sizeof *rec);
    if (!rec || !list_grow(&l->records, l->count, sizeof *l->records)) {
        free(rec);
        return -ENOMEM;
    }
    rec->refs = 1;
    rec->entry = *e;
    rec->entry.path = strdup(e->path);
    rec->entry.target = e->target ? strdup(e->target) : NULL;
    if (!rec->entry.path || (e->target && !rec->entry.target)) {
        log_record_unref(rec);
        return -ENOMEM;
    }
    rec->entry.number = ++l->last;
    rec->entry.kept = e->kind == APPLIED_FILE && content >= 0 &&
                      log_store_put(l->store, content, e->size, &rec->offset) == 0;
    l->records[l->count++] = rec;
    return 0;
}

void applied_log_drop_last(struct applied_log *l)
{
    if (!l || !l->count)
        return;
    log_record_unref(l->records[--l->count]);
    l->last--;
}

uint64_t applied_log_position(const struct applied_log *l)
{
    return l ? l->last : 0;
}

/* By path, then by number. */
static int log_record_compare(const void *a, const void *b)
{
    const struct log_record *x = *(struct log_record *const *)a,
                            *y = *(struct log_record *const *)b;
    int order = strcmp(x->entry.path, y->entry.path);
    return order ? order
                 : (x->entry.number > y->entry.number) - (x->entry.number < y->entry.number);
}

int applied_log_each(const struct applied_log *l, uint64_t position,
                     int (*each)(void *data, const struct applied_entry *e), void *data)
{
    size_t n = 0;
    int r = 0;
    if (!l || !l->count)
        return 0;
    _cleanup_free_ struct log_record **later = calloc(l->count, sizeof(struct log_record *));
    if (!later)
        return -ENOMEM;
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i]->entry.number > position)
            later[n++] = l->records[i];
    qsort(later, n, sizeof(struct log_record *), log_record_compare);
    for (size_t i = 0; i < n && r == 0; i++)
        if (i == 0 || strcmp(later[i]->entry.path, later[i - 1]->entry.path) != 0)
            r = each(data, &later[i]->entry);
    return r;
}

ssize_t applied_log_read(const struct applied_log *l, const struct applied_entry *e, void *space,
                         size_t n, uint64_t offset)
{
    const struct log_record *rec =
        (const struct log_record *)((const char *)e - offsetof(struct log_record, entry));
    if (!e->kept || offset >= e->size)
        return e->kept ? 0 : -ENODATA;
    size_t want = n < e->size - offset ? n : (size_t)(e->size - offset);
    return io_read_at(l->store->fd, space, want, rec->offset + offset);
}

struct restore_item {
    const struct applied_entry *entry; /* belongs to the log */
    bool layered;                      /* the snapshot's layers decide about the path */
    const char *why;                   /* it could not be restored */
};

/* In order of their paths. */
struct restore_list {
    struct restore_item *items;
    size_t count;
};

static int restore_list_add(void *data, const struct applied_entry *e)
{
    struct restore_list *l = data;
    if (!list_grow(&l->items, l->count, sizeof *l->items))
        return -ENOMEM;
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
            r = restore_fail(EPROTO, "the diff worker ended without an answer", err);
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
    int r = wire_end_send(conn, out, begin);
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
        r = wire_end_send(conn, out, begin);
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
        r = wire_end_send(conn, &out, begin);
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
    return r > 0 && f.type == WIRE_RESULT
               ? 0
               : restore_fail(EPROTO, "the guest ended without an answer", err);
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
    if (r < 0)
        return r;

    struct restore_list l = {0};
    if (fresh->mode == BOX_COW && fresh->folder >= 0 &&
        applied_log_each(fresh->log, snapshot_applied(s), restore_list_add, &l) < 0)
        r = restore_fail(ENOMEM, "no memory", err);
    if (r == 0 && l.count)
        r = restore_find_layered(fresh, &l, err);
    if (r == 0 && l.count)
        r = restore_put(fresh, &l, err);
    for (size_t i = 0; r == 0 && report && i < l.count; i++)
        report->say(report->data, l.items[i].entry->path, l.items[i].why);
    free(l.items);
    if (r == 0)
        *ret = TAKE_PTR(fresh);
    return r;
}
