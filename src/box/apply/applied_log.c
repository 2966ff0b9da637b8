#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "applied_log.h"
#include "cleanup.h"
#include "io.h"
#include "banned.h"

#define ENTRIES_MAX 1000000u
#define CHUNK       (64u << 10)

/* The contents of a family's logs. */
struct store {
    atomic_uint refs;
    _Atomic uint64_t used;
    int fd;
};

struct record {
    atomic_uint refs;
    struct applied_entry entry; /* its strings belong to the record */
    uint64_t offset;            /* of the content in the store */
};

struct applied_log {
    struct store *store;
    struct record **records;
    size_t count, room;
    uint64_t last;
};

static void record_unref(struct record *rec)
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
    struct store *s = calloc(1, sizeof *s);
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
    struct record **records = calloc(l->count + 1, sizeof(struct record *));
    if (!copy || !records) {
        free(copy);
        free(records);
        return NULL;
    }
    *copy = (struct applied_log){
        .store = l->store, .records = records, .count = l->count, .last = l->last};
    copy->room = l->count + 1;
    l->store->refs++;
    for (size_t i = 0; i < l->count; i++) {
        records[i] = l->records[i];
        records[i]->refs++;
    }
    return copy;
}

struct applied_log *applied_log_free(struct applied_log *l)
{
    if (!l)
        return NULL;
    for (size_t i = 0; i < l->count; i++)
        record_unref(l->records[i]);
    if (--l->store->refs == 0) {
        cleanup_close(&l->store->fd);
        free(l->store);
    }
    free(l->records);
    free(l);
    return NULL;
}

/* Copies a file to the end of the store. -EFBIG: there is no room for it. */
static int store_put(struct store *s, int content, uint64_t size, uint64_t *ret_offset)
{
    if (s->fd < 0) {
        /* A file without a name, on disk if possible. */
        const char *folder = getenv("TMPDIR");
        s->fd = open(folder && folder[0] == '/' ? folder : "/var/tmp",
                     O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (s->fd < 0)
            s->fd = memfd_create("applied", MFD_CLOEXEC);
        if (s->fd < 0)
            return -errno;
    }
    uint64_t at = s->used;
    do
        if (size > APPLIED_BYTES_MAX - at)
            return -EFBIG;
    while (!atomic_compare_exchange_weak(&s->used, &at, at + size));
    for (uint64_t done = 0; done < size;) {
        char space[CHUNK];
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
    if (l->count == l->room) {
        size_t room = l->room ? l->room * 2 : 16;
        struct record **records = reallocarray(l->records, room, sizeof(struct record *));
        if (!records)
            return -ENOMEM;
        l->records = records;
        l->room = room;
    }
    struct record *rec = calloc(1, sizeof *rec);
    if (!rec)
        return -ENOMEM;
    rec->refs = 1;
    rec->entry = *e;
    rec->entry.path = strdup(e->path);
    rec->entry.target = e->target ? strdup(e->target) : NULL;
    if (!rec->entry.path || (e->target && !rec->entry.target)) {
        record_unref(rec);
        return -ENOMEM;
    }
    rec->entry.number = ++l->last;
    rec->entry.kept = e->kind == APPLIED_FILE && content >= 0 &&
                      store_put(l->store, content, e->size, &rec->offset) == 0;
    l->records[l->count++] = rec;
    return 0;
}

void applied_log_drop_last(struct applied_log *l)
{
    if (!l->count)
        return;
    record_unref(l->records[--l->count]);
    l->last--;
}

uint64_t applied_log_position(const struct applied_log *l)
{
    return l ? l->last : 0;
}

/* By path, then by number. */
static int record_compare(const void *a, const void *b)
{
    const struct record *x = *(struct record *const *)a, *y = *(struct record *const *)b;
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
    _cleanup_free_ struct record **later = calloc(l->count, sizeof(struct record *));
    if (!later)
        return -ENOMEM;
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i]->entry.number > position)
            later[n++] = l->records[i];
    qsort(later, n, sizeof(struct record *), record_compare);
    for (size_t i = 0; i < n && r == 0; i++)
        if (i == 0 || strcmp(later[i]->entry.path, later[i - 1]->entry.path) != 0)
            r = each(data, &later[i]->entry);
    return r;
}

ssize_t applied_log_read(const struct applied_log *l, const struct applied_entry *e, void *space,
                         size_t n, uint64_t offset)
{
    const struct record *rec =
        (const struct record *)((const char *)e - offsetof(struct record, entry));
    if (!e->kept || offset >= e->size)
        return e->kept ? 0 : -ENODATA;
    size_t want = n < e->size - offset ? n : (size_t)(e->size - offset);
    return io_read_at(l->store->fd, space, want, rec->offset + offset);
}
