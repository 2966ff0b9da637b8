#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h> /* statx, which musl does not have */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "apply.h"
#include "io.h"
#include "relpath.h"
#include "thread.h"
#include "banned.h"

#ifndef S_ISREG /* glibc has them in a header that does not go with linux/stat.h */
#define S_ISREG(mode) (((mode)&S_IFMT) == S_IFREG)
#define S_ISDIR(mode) (((mode)&S_IFMT) == S_IFDIR)
#endif
#ifndef AT_NO_AUTOMOUNT
#define AT_NO_AUTOMOUNT 0x800
#endif

#define TOUCHED_MAX 4000000u /* records in one answer of a diff worker */

struct seen {
    unsigned refs; /* atomic */
    void *tree;    /* of the entries' paths */
    struct seen_entry *first;
    size_t count, bytes;
};

static int64_t time_ns(const struct statx_timestamp *t)
{
    return t->tv_sec * NS_PER_S + t->tv_nsec;
}

int identity_get(int dir, const char *name, struct identity *ret)
{
    struct statx x;
    unsigned flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH);
    if (syscall(SYS_statx, dir, name, flags, STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
        return -errno;
    *ret = (struct identity){
        .dev = (uint64_t)x.stx_dev_major << 32 | x.stx_dev_minor,
        .ino = x.stx_ino,
        .mode = x.stx_mode,
        .links = x.stx_nlink,
        .size = x.stx_size,
        .uid = x.stx_uid,
        .gid = x.stx_gid,
        .ctime_ns = time_ns(&x.stx_ctime),
        .mtime_ns = time_ns(&x.stx_mtime),
        .btime_ns = x.stx_mask & STATX_BTIME ? time_ns(&x.stx_btime) : 0,
    };
    return 0;
}

bool identity_same_inode(const struct identity *a, const struct identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->btime_ns == b->btime_ns &&
           (a->mode & S_IFMT) == (b->mode & S_IFMT);
}

bool identity_same_content(const struct identity *a, const struct identity *b)
{
    return identity_same_inode(a, b) && a->mode == b->mode && a->size == b->size &&
           a->mtime_ns == b->mtime_ns;
}

bool identity_same(const struct identity *a, const struct identity *b)
{
    return identity_same_content(a, b) && a->ctime_ns == b->ctime_ns;
}

struct seen_base *seen_base_new(const void *data, size_t n)
{
    struct seen_base *b = calloc(1, sizeof *b + n);
    if (!b)
        return NULL;
    b->refs = 1;
    b->size = n;
    if (data && n)
        memcpy(b->data, data, n);
    return b;
}

struct seen_base *seen_base_ref(struct seen_base *b)
{
    if (b)
        __atomic_add_fetch(&b->refs, 1, __ATOMIC_RELAXED);
    return b;
}

void seen_base_unref(struct seen_base *b)
{
    if (b && __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(b);
}

bool seen_base_same(const struct seen_base *a, const struct seen_base *b)
{
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

int seen_base_read(int dir, const char *name, const struct identity *id, size_t max,
                   struct seen_base **ret)
{
    struct identity now;
    if (id->size > max)
        return -EFBIG;
    _cleanup_fd_ int fd =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    _cleanup_free_ struct seen_base *b = seen_base_new(NULL, id->size);
    if (!b)
        return -ENOMEM;
    ssize_t n = io_read_at(fd, b->data, b->size, 0);
    if (n < 0)
        return (int)n;
    if ((size_t)n < b->size || identity_get(fd, "", &now) < 0 || !identity_same(&now, id))
        return -ESTALE;
    *ret = TAKE_PTR(b);
    return 0;
}

struct seen *seen_new(void)
{
    struct seen *s = calloc(1, sizeof *s);
    if (s)
        s->refs = 1;
    return s;
}

struct seen *seen_ref(struct seen *s)
{
    if (s)
        __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

static void tree_keep_path(void *path) {}

struct seen *seen_unref(struct seen *s)
{
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return NULL;
    tdestroy(s->tree, tree_keep_path);
    for (struct seen_entry *e = s->first, *next; e; e = next) {
        next = e->next;
        seen_base_unref(e->base);
        free(e);
    }
    free(s);
    return NULL;
}

int seen_own(struct seen **s)
{
    if (*s && __atomic_load_n(&(*s)->refs, __ATOMIC_ACQUIRE) == 1)
        return 0;
    struct seen *copy = seen_new();
    if (!copy)
        return -ENOMEM;
    for (const struct seen_entry *e = *s ? (*s)->first : NULL; e; e = e->next) {
        int r = seen_set(copy, e->path, e->state, &e->id, seen_base_ref(e->base), e->base_differs);
        if (r < 0) {
            seen_unref(copy);
            return -ENOMEM;
        }
        copy->first->hides = e->hides; /* the newest is the first */
    }
    seen_unref(*s);
    *s = copy;
    return 0;
}

static int path_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

struct seen_entry *seen_find(const struct seen *s, const char *path)
{
    char **found = s ? tfind(path, &s->tree, path_compare) : NULL;
    return found ? (struct seen_entry *)(void *)(*found - offsetof(struct seen_entry, path)) : NULL;
}

enum seen_state seen_state_of(const struct seen *s, const char *path)
{
    const struct seen_entry *e = seen_find(s, path);
    if (e)
        return e->state;
    _cleanup_free_ char *above = strdup(path);
    for (char *slash; above && !e && (slash = strrchr(above, '/'));) {
        *slash = 0;
        e = seen_find(s, above);
    }
    return e && e->state == SEEN_ABSENT ? SEEN_ABSENT : SEEN_UNKNOWN;
}

const struct seen_entry *seen_first(const struct seen *s)
{
    return s->first;
}

bool seen_has_room(const struct seen *s, size_t n)
{
    return n <= SEEN_CONTENT_MAX && s->bytes + n <= SEEN_BYTES_MAX;
}

int seen_set(struct seen *s, const char *path, enum seen_state state, const struct identity *id,
             struct seen_base *base, bool base_differs)
{
    struct seen_entry *e = seen_find(s, path);
    bool full = !e && s->count >= SEEN_PATHS_MAX;
    size_t n = strlen(path) + 1;
    if (!e && !full && (e = calloc(1, sizeof *e + n))) {
        memcpy(e->path, path, n);
        if (tsearch(e->path, &s->tree, path_compare)) {
            e->next = s->first;
            s->first = e;
            s->count++;
        } else {
            free(TAKE_PTR(e));
        }
    }
    if (!e || (base && base != e->base && !seen_has_room(s, base->size))) {
        seen_base_unref(base);
        base = NULL;
    }
    if (!e)
        return full ? -ENOSPC : -ENOMEM;
    s->bytes += (base ? base->size : 0) - (e->base ? e->base->size : 0);
    seen_base_unref(e->base);
    e->state = state;
    e->id = id ? *id : (struct identity){0};
    e->base = base;
    e->base_differs = base_differs;
    return 0;
}

struct seen_base *seen_read_base(const struct seen *s, int dir, const char *name,
                                 const struct identity *id)
{
    struct seen_base *base = NULL;
    if (S_ISREG(id->mode) && seen_has_room(s, id->size))
        seen_base_read(dir, name, id, SEEN_CONTENT_MAX, &base);
    return base;
}

void seen_moved(struct seen *s, const struct identity *before, const struct identity *after)
{
    for (struct seen_entry *e = s->first; e; e = e->next)
        if (e->state == SEEN_KNOWN && identity_same(&e->id, before))
            e->id = *after;
}

struct note {
    struct seen *seen;
    int folder;
    int64_t fresh_ns;
    int64_t number; /* of this note, among those of the table */
};

/*
 * What is known about a path, whose folder is open as `dir`. A folder that was moved away and back
 * has moved its own change time and that of the folder it is in; a new name in it has moved its own
 * only. So `quiet`, no name in `dir` has changed, proves that a folder in it stayed where it was.
 */
static enum seen_state note_judge(const struct note *n, const char *path, int dir,
                                  struct identity *ret)
{
    struct identity parent;
    const char *name = relpath_name(path);
    if (identity_get(dir, "", &parent) < 0)
        return SEEN_UNKNOWN;
    bool quiet = parent.ctime_ns < n->fresh_ns;
    if (name > path) {
        _cleanup_free_ char *above = strndup(path, (size_t)(name - path - 1));
        const struct seen_entry *e = above ? seen_find(n->seen, above) : NULL;
        if (!e || e->stable != n->number || e->hides || !identity_same_inode(&e->id, &parent))
            return SEEN_UNKNOWN;
    }
    int r = identity_get(dir, name, ret);
    if (r == -ENOENT)
        return quiet ? SEEN_ABSENT : SEEN_UNKNOWN;
    bool unchanged = r == 0 && (ret->ctime_ns < n->fresh_ns || (S_ISDIR(ret->mode) && quiet));
    return unchanged ? SEEN_KNOWN : SEEN_UNKNOWN;
}

static int note_path(struct note *n, const char *path, bool content)
{
    struct identity id = {0};
    struct seen_base *base = NULL;
    _cleanup_fd_ int dir = -1;
    struct seen_entry *e = seen_find(n->seen, path);
    if (e && (e->state != SEEN_KNOWN || !S_ISDIR(e->id.mode)))
        return 0;
    int r = beneath_open_parent(n->folder, path, &dir);
    enum seen_state state = r < 0 ? SEEN_UNKNOWN : note_judge(n, path, dir, &id);
    if (e) { /* a folder that is known: is it still there, for the paths in it that are new? */
        if (state == SEEN_KNOWN && identity_same_inode(&e->id, &id))
            e->stable = n->number;
        return 0;
    }
    if (state == SEEN_KNOWN && content && S_ISREG(id.mode) && seen_has_room(n->seen, id.size) &&
        seen_base_read(dir, relpath_name(path), &id, SEEN_CONTENT_MAX, &base) == -ESTALE)
        state = SEEN_UNKNOWN;
    r = seen_set(n->seen, path, state, &id, base, false);
    if (r == 0 && state == SEEN_KNOWN && S_ISDIR(id.mode))
        seen_find(n->seen, path)->stable = n->number;
    return r == -ENOSPC ? 0 : r; /* a path without a record is unknown */
}

int seen_note_touched(struct seen *s, int folder, int64_t fresh_ns, int conn, struct error *err)
{
    struct note n = {.seen = s, .folder = folder, .fresh_ns = fresh_ns, .number = clock_now()};
    _cleanup_(wire_reader_free) struct wire_reader in = WIRE_READER_INIT(conn);
    int r = changes_request(conn, WIRE_TOUCHED, NULL, 0, err);
    for (size_t count = 0; r >= 0; count++) {
        struct wire_frame f;
        struct wire_field field;
        r = changes_answer(&in, &f, err);
        if (r < 0 || f.type == WIRE_RESULT)
            return r < 0 ? r : 0;
        if (f.type != WIRE_ENTRY || count == TOUCHED_MAX || !wire_find(&f, WIRE_K_PATH, &field) ||
            !relpath_is_valid(field.data, field.size))
            return error_set(err, EPROTO, "the diff worker's answer is malformed");
        _cleanup_free_ char *path = wire_find_str(&f, WIRE_K_PATH);
        struct seen_entry *e = path ? seen_find(s, path) : NULL;
        if (path && wire_find_u64(&f, WIRE_K_HIDDEN, 0)) {
            if (e)
                e->hides = true; /* from now on the box does not see what comes into that folder */
        } else {
            r = path ? note_path(&n, path, wire_find_u64(&f, WIRE_K_BOTH, 0)) : -ENOMEM;
        }
        if (r < 0)
            return error_errno(err, -r, "cannot record what the folder has");
    }
    return r;
}
