#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"
#include "wire.h"
#include "banned.h"

#define SLACK       256
#define SLACK_BYTES (1u << 20)

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

void hits_free(struct hits *h)
{
    for (size_t i = 0; i < h->count; i++) {
        free(h->list[i].path);
        buf_free(&h->list[i].frames);
    }
    free(h->list);
    free(h->last_path_with_matches);
    free(h->last_path_counted);
    pthread_mutex_destroy(&h->lock);
}

static bool path_is_behind(const char *path, const char *last)
{
    return last && hits_compare_paths(path, last) > 0;
}

unsigned hits_room(struct hits *h, const char *path)
{
    pthread_mutex_lock(&h->lock);
    bool behind = path_is_behind(path, h->last_path_with_matches);
    pthread_mutex_unlock(&h->lock);
    return behind ? 0 : h->limits.matches > UINT_MAX ? UINT_MAX : (unsigned)h->limits.matches;
}

static int hits_set_last(char **last, const char *path)
{
    if (*last && hits_compare_paths(path, *last) >= 0)
        return 0;
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    free(*last);
    *last = copy;
    return 0;
}

/* Sorts the files, and drops matches and files behind those that fill the limits. */
static int hits_prune(struct hits *h)
{
    uint64_t matches = 0, bytes = 0;
    size_t full = 0;
    int r = 0;
    qsort(h->list, h->count, sizeof *h->list, hits_file_compare);
    for (; full < h->count && matches < h->limits.matches && bytes < h->limits.bytes; full++) {
        matches += h->list[full].kept;
        bytes += h->list[full].frames.len;
    }
    if (full > 0 && full < h->count)
        r = hits_set_last(&h->last_path_with_matches, h->list[full - 1].path);
    for (size_t i = full; i < h->count; i++) {
        struct hits_file *f = &h->list[i];
        h->kept -= f->kept;
        h->bytes -= f->frames.len;
        f->kept = 0;
        buf_free(&f->frames);
        f->frames = BUF_INIT(0);
    }
    if (r < 0 || h->count <= h->limits.files)
        return r;
    while (h->count > h->limits.files) {
        struct hits_file *last = &h->list[--h->count];
        h->kept -= last->kept;
        h->bytes -= last->frames.len;
        free(last->path);
        buf_free(&last->frames);
    }
    return h->count ? hits_set_last(&h->last_path_counted, h->list[h->count - 1].path) : 0;
}

static int hits_add_locked(struct hits *h, const char *path, struct scan_result *found)
{
    const struct hits_limits *l = &h->limits;
    h->files++;
    h->matches += found->count;
    if (path_is_behind(path, h->last_path_counted))
        return 0;
    if (h->count > 2 * l->files + SLACK || h->kept > 2 * l->matches + SLACK ||
        h->bytes > 2 * l->bytes + SLACK_BYTES) {
        int r = hits_prune(h);
        if (r < 0)
            return r;
    }
    if (h->count == h->room) {
        size_t room = h->room ? 2 * h->room : 64;
        struct hits_file *more = reallocarray(h->list, room, sizeof *more);
        if (!more)
            return -ENOMEM;
        h->list = more;
        h->room = room;
    }
    char *copy = strdup(path);
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
    int r = -ENOMEM;
    if (!found->frames.failed) {
        pthread_mutex_lock(&h->lock);
        r = hits_add_locked(h, path, found);
        pthread_mutex_unlock(&h->lock);
    }
    buf_free(&found->frames);
    found->frames = BUF_INIT(0);
    return r;
}

int hits_send(struct hits *h, int (*send)(void *data, const uint8_t *frame, size_t n), void *data,
              bool *ret_all)
{
    _cleanup_buf_ struct buf entry = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX);
    uint64_t matches = 0, bytes = 0;
    bool full = false;
    qsort(h->list, h->count, sizeof *h->list, hits_file_compare);
    size_t files = h->count < h->limits.files ? h->count : h->limits.files;
    for (size_t i = 0; i < files; i++) {
        const struct hits_file *f = &h->list[i];
        struct wire_frame frame;
        entry.len = 0;
        size_t begin = wire_begin(&entry, WIRE_ENTRY);
        wire_put_str(&entry, WIRE_K_PATH, f->path);
        wire_put_u64(&entry, WIRE_K_COUNT, f->count);
        wire_end(&entry, begin);
        int r = entry.failed ? -ENOMEM : send(data, entry.data, entry.len);
        for (size_t at = 0; r >= 0 && at < f->frames.len && !full;) {
            ssize_t n = wire_parse(f->frames.data + at, f->frames.len - at, &frame);
            if (n <= 0)
                return -EPROTO;
            full = matches == h->limits.matches || bytes + (size_t)n > h->limits.bytes;
            if (full)
                break;
            r = send(data, f->frames.data + at, (size_t)n);
            matches++;
            bytes += (size_t)n;
            at += (size_t)n;
        }
        if (r < 0)
            return r;
    }
    *ret_all = files == h->files && matches == h->matches;
    return 0;
}
