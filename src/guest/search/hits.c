#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hits.h"
#include "wire.h"
#include "banned.h"

#define SLACK       256
#define SLACK_BYTES (1u << 20)

struct hits_end {
    struct hits_end *next;
    char path[];
};

struct hits_file {
    char *path;
    uint64_t count;
    unsigned kept;
    struct buf frames;
};

int hits_compare_paths(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    int x = *a == '/' ? 0 : (unsigned char)*a, y = *b == '/' ? 0 : (unsigned char)*b;
    /* Where one ends and the other has a slash, the one that ends is first. */
    return x != y ? x - y : (*a != 0) - (*b != 0);
}

static int hits_file_compare(const void *a, const void *b)
{
    return hits_compare_paths(((const struct hits_file *)a)->path,
                              ((const struct hits_file *)b)->path);
}

void hits_init(struct hits *h, const struct hits_limits *limits)
{
    *h = (struct hits){.limits = *limits};
    pthread_mutex_init(&h->lock, NULL);
}

static void hits_file_free(struct hits_file *f)
{
    free(f->path);
    buf_free(&f->frames);
}

void hits_free(struct hits *h)
{
    for (size_t i = 0; i < h->count; i++)
        hits_file_free(&h->list[i]);
    free(h->list);
    while (h->ends) {
        struct hits_end *next = h->ends->next;
        free(h->ends);
        h->ends = next;
    }
    pthread_mutex_destroy(&h->lock);
}

static bool path_is_behind(const char *path, const char *end)
{
    return end && hits_compare_paths(path, end) > 0;
}

unsigned hits_room(struct hits *h, const char *path)
{
    if (path_is_behind(path, atomic_load(&h->last_path_with_matches)))
        return 0;
    return h->limits.matches > UINT_MAX ? UINT_MAX : (unsigned)h->limits.matches;
}

/* Sets a smaller end. Other threads may still read the one before, so all of them live as long as
 * the collection. */
static int hits_set_end(struct hits *h, _Atomic(const char *) *end, const char *path)
{
    const char *old = atomic_load(end);
    if (old && hits_compare_paths(path, old) >= 0)
        return 0;
    size_t n = strlen(path) + 1;
    struct hits_end *e = malloc(sizeof *e + n);
    if (!e)
        return -ENOMEM;
    memcpy(e->path, path, n);
    e->next = h->ends;
    h->ends = e;
    atomic_store(end, e->path);
    return 0;
}

static void hits_drop_frames(struct hits *h, struct hits_file *f)
{
    h->kept -= f->kept;
    h->bytes -= f->frames.len;
    f->kept = 0;
    buf_free(&f->frames);
    f->frames = BUF_INIT(0);
}

/* Drops the matches of all files behind those that fill the limits. */
static int hits_prune_matches(struct hits *h)
{
    uint64_t matches = 0, bytes = 0;
    size_t i = 0;
    for (; i < h->count && matches < h->limits.matches && bytes < h->limits.bytes; i++) {
        matches += h->list[i].kept;
        bytes += h->list[i].frames.len;
    }
    int r = i > 0 && i < h->count ? hits_set_end(h, &h->last_path_with_matches, h->list[i - 1].path)
                                  : 0;
    for (; i < h->count; i++)
        hits_drop_frames(h, &h->list[i]);
    return r;
}

static int hits_prune(struct hits *h)
{
    qsort(h->list, h->count, sizeof *h->list, hits_file_compare);
    int r = hits_prune_matches(h);
    if (r < 0 || h->count <= h->limits.files)
        return r;
    while (h->count > h->limits.files) {
        struct hits_file *last = &h->list[--h->count];
        hits_drop_frames(h, last);
        hits_file_free(last);
    }
    return h->count > 0 ? hits_set_end(h, &h->last_path_counted, h->list[h->count - 1].path) : 0;
}

static int hits_make_room(struct hits *h)
{
    const struct hits_limits *l = &h->limits;
    if (h->count > 2 * l->files + SLACK || h->kept > 2 * l->matches + SLACK ||
        h->bytes > 2 * l->bytes + SLACK_BYTES) {
        int r = hits_prune(h);
        if (r < 0)
            return r;
    }
    if (h->count < h->room)
        return 0;
    size_t room = h->room ? 2 * h->room : 64;
    struct hits_file *more = reallocarray(h->list, room, sizeof *more);
    if (!more)
        return -ENOMEM;
    h->list = more;
    h->room = room;
    return 0;
}

static int hits_add_locked(struct hits *h, const char *path, struct scan_result *found)
{
    h->files++;
    h->matches += found->count;
    if (path_is_behind(path, atomic_load(&h->last_path_counted)))
        return 0;
    int r = hits_make_room(h);
    char *copy = r < 0 ? NULL : strdup(path);
    if (!copy)
        return -ENOMEM;
    h->list[h->count++] = (struct hits_file){copy, found->count, found->kept, found->frames};
    h->kept += found->kept;
    h->bytes += found->frames.len;
    found->frames = BUF_INIT(0);
    return 0;
}

int hits_add(struct hits *h, const char *path, struct scan_result *found)
{
    if (found->frames.failed)
        return -ENOMEM;
    pthread_mutex_lock(&h->lock);
    int r = hits_add_locked(h, path, found);
    pthread_mutex_unlock(&h->lock);
    buf_free(&found->frames);
    found->frames = BUF_INIT(0);
    return r;
}

struct hits_sending {
    const struct hits_sink *sink;
    const struct hits_limits *limits;
    uint64_t matches, bytes;
    bool full;
};

static int hits_send_frames(struct hits_sending *t, const struct hits_file *f)
{
    struct wire_frame frame;
    for (size_t at = 0; at < f->frames.len && !t->full;) {
        ssize_t n = wire_parse(f->frames.data + at, f->frames.len - at, &frame);
        if (n <= 0)
            return -EPROTO;
        t->full = t->matches == t->limits->matches || t->bytes + (size_t)n > t->limits->bytes;
        if (t->full)
            return 0;
        int r = t->sink->frame(t->sink->data, f->frames.data + at, (size_t)n);
        if (r < 0)
            return r;
        t->matches++;
        t->bytes += (size_t)n;
        at += (size_t)n;
    }
    return 0;
}

int hits_send(struct hits *h, const struct hits_sink *sink, bool *ret_all)
{
    struct hits_sending t = {.sink = sink, .limits = &h->limits};
    qsort(h->list, h->count, sizeof *h->list, hits_file_compare);
    size_t n = h->count < h->limits.files ? h->count : h->limits.files;
    for (size_t i = 0; i < n; i++) {
        int r = sink->file(sink->data, h->list[i].path, h->list[i].count);
        if (r >= 0)
            r = hits_send_frames(&t, &h->list[i]);
        if (r < 0)
            return r;
    }
    *ret_all = n == h->files && t.matches == h->matches;
    return 0;
}
