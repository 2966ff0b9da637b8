#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "seen.h"
#include "banned.h"

struct seen {
    unsigned refs; /* atomic */
    void *tree;    /* of the entries, by path */
    struct seen_entry *first;
    size_t count, bytes;
};

struct seen_base *seen_base_new(const void *data, size_t n)
{
    struct seen_base *b = malloc(sizeof *b + n);
    if (!b)
        return NULL;
    b->refs = 1;
    b->size = n;
    if (n)
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

static int entry_compare(const void *a, const void *b)
{
    return strcmp(((const struct seen_entry *)a)->path, ((const struct seen_entry *)b)->path);
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

static void tree_keep(void *entry) {}

struct seen *seen_unref(struct seen *s)
{
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return NULL;
    tdestroy(s->tree, tree_keep);
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
        if (seen_set(copy, e->path, e->state, &e->id, seen_base_ref(e->base), e->base_differs) <
            0) {
            seen_unref(copy);
            return -ENOMEM;
        }
        copy->first->hides = e->hides; /* the newest is the first */
    }
    seen_unref(*s);
    *s = copy;
    return 0;
}

/* tfind needs a key that looks like an entry. */
static struct seen_entry *find_n(const struct seen *s, const char *path, size_t n)
{
    if (!s)
        return NULL;
    _cleanup_free_ struct seen_entry *key = malloc(sizeof *key + n + 1);
    if (!key)
        return NULL;
    memcpy(key->path, path, n);
    key->path[n] = 0;
    struct seen_entry **found = tfind(key, &s->tree, entry_compare);
    return found ? *found : NULL;
}

const struct seen_entry *seen_find(const struct seen *s, const char *path)
{
    return find_n(s, path, strlen(path));
}

enum seen_state seen_state_of(const struct seen *s, const char *path)
{
    const struct seen_entry *e = seen_find(s, path);
    if (e)
        return e->state;
    size_t n = strlen(path);
    for (const char *slash; !e && (slash = memrchr(path, '/', n)); n = (size_t)(slash - path))
        e = find_n(s, path, (size_t)(slash - path));
    return e && e->state == SEEN_ABSENT ? SEEN_ABSENT : SEEN_UNKNOWN;
}

const struct seen_entry *seen_first(const struct seen *s)
{
    return s ? s->first : NULL;
}

bool seen_has_room(const struct seen *s, size_t n)
{
    return n <= SEEN_CONTENT_MAX && s->bytes + n <= SEEN_BYTES_MAX;
}

static struct seen_entry *entry_add(struct seen *s, const char *path)
{
    size_t n = strlen(path) + 1;
    struct seen_entry *e = calloc(1, sizeof *e + n);
    if (!e)
        return NULL;
    memcpy(e->path, path, n);
    if (!tsearch(e, &s->tree, entry_compare)) {
        free(e);
        return NULL;
    }
    e->next = s->first;
    s->first = e;
    s->count++;
    return e;
}

int seen_set(struct seen *s, const char *path, enum seen_state state, const struct identity *id,
             struct seen_base *base, bool base_differs)
{
    struct seen_entry *e = find_n(s, path, strlen(path));
    int r = 0;
    if (!e && s->count >= SEEN_PATHS_MAX)
        r = -ENOSPC;
    else if (!e && !(e = entry_add(s, path)))
        r = -ENOMEM;
    if (r < 0) {
        seen_base_unref(base);
        return r;
    }
    if (base && base != e->base && !seen_has_room(s, base->size)) {
        seen_base_unref(base);
        base = NULL;
    }
    s->bytes += (base ? base->size : 0) - (e->base ? e->base->size : 0);
    seen_base_unref(e->base);
    e->state = state;
    e->id = id ? *id : (struct identity){0};
    e->base = base;
    e->base_differs = base_differs;
    return 0;
}

void seen_set_stable(struct seen *s, const char *path, int64_t note)
{
    struct seen_entry *e = find_n(s, path, strlen(path));
    if (e)
        e->stable = note;
}

void seen_set_hides(struct seen *s, const char *path)
{
    struct seen_entry *e = find_n(s, path, strlen(path));
    if (e)
        e->hides = true;
}

void seen_moved(struct seen *s, const struct identity *before, const struct identity *after)
{
    for (struct seen_entry *e = s->first; e; e = e->next)
        if (e->state == SEEN_KNOWN && identity_same(&e->id, before))
            e->id = *after;
}
