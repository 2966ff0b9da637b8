#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "keep.h"
#include "banned.h"

#define TOLD_BYTES (WIRE_BODY_MAX / 2) /* of all that is told; it is kept until the end */

static void paths_free(struct stage_paths *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->items[i]);
    free(p->items);
}

void stage_free(struct stage *s)
{
    paths_free(&s->files);
    paths_free(&s->own);
    cleanup_close(&s->folder);
    free(s->folder_path);
}

int stage_paths_add(struct stage_paths *p, const void *path, size_t n, size_t max)
{
    if (p->count >= max)
        return -ENOBUFS;
    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : 16;
        char **items = realloc(p->items, room * sizeof *items);
        if (!items)
            return -ENOMEM;
        p->items = items;
        p->room = room;
    }
    char *copy = strndup(path, n);
    if (!copy)
        return -ENOMEM;
    p->items[p->count++] = copy;
    return 0;
}

/* The first file whose path is not before this one, which may be continued by one more character.
 */
static size_t lower_bound(const struct stage_paths *p, const char *path, char behind)
{
    size_t low = 0, high = p->count, n = strlen(path);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(p->items[middle], path, n);
        if (order == 0)
            order = (unsigned char)p->items[middle][n] - (unsigned char)behind;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool stage_has(const struct stage *s, const char *path)
{
    size_t at = lower_bound(&s->files, path, 0);
    return at < s->files.count && strcmp(s->files.items[at], path) == 0;
}

static bool is_beneath(const char *path, const char *above)
{
    size_t n = strlen(above);
    return strncmp(path, above, n) == 0 && path[n] == '/';
}

bool stage_has_beneath(const struct stage *s, const char *path)
{
    size_t at = lower_bound(&s->files, path, '/');
    return at < s->files.count && is_beneath(s->files.items[at], path);
}

bool stage_is_own(const struct stage *s, const char *path)
{
    for (size_t i = 0; i < s->own.count; i++)
        if (strcmp(path, s->own.items[i]) == 0 || is_beneath(path, s->own.items[i]))
            return true;
    return false;
}

void stage_tell(struct stage *s, enum wire_change kind, const char *path, bool folder)
{
    struct buf *out = &s->call->out;
    size_t n = strlen(path);
    s->changes++;
    if (s->told == STAGE_TOLD_MAX || out->len + n > TOLD_BYTES)
        return;
    size_t at = wire_begin(out, WIRE_ENTRY);
    wire_put_u64(out, WIRE_K_KIND, kind);
    wire_put_str(out, WIRE_K_PATH, path);
    if (folder)
        wire_put_u64(out, WIRE_K_MODE, S_IFDIR);
    wire_end(out, at);
    s->told++;
}
