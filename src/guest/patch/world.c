#include <errno.h>
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "world.h"
#include "banned.h"

void world_init(struct world *w, struct source source)
{
    *w = (struct world){.source = source, .notes = BUF_INIT(WORLD_NOTES_MAX)};
}

static void keep_node(void *node) {}

void world_free(struct world *w)
{
    tdestroy(w->tree, keep_node);
    for (size_t i = 0; i < w->count; i++) {
        free(w->entries[i]->path);
        free(w->entries[i]->data);
        free(w->entries[i]);
    }
    for (size_t i = 0; i < w->n_made; i++)
        free(w->made[i]);
    free(w->entries);
    free(w->made);
    buf_free(&w->notes);
    *w = (struct world){0};
}

void world_reset(struct world *w)
{
    for (size_t i = 0; i < w->count; i++) {
        struct world_file *e = w->entries[i];
        e->doomed = e->moves = e->gone = e->written = false;
    }
    for (; w->n_made > 0; w->n_made--)
        free(w->made[w->n_made - 1]);
    w->total = 0;
    for (size_t i = 0; i < w->count; i++)
        w->total += w->entries[i]->loaded ? w->entries[i]->size : 0;
    w->notes.len = 0;
    w->notes.failed = false;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct world_file *)a)->path, ((const struct world_file *)b)->path);
}

/* Room for one more pointer. */
static int grow(void *list, size_t count, size_t *room)
{
    void **items;
    if (count < *room)
        return 0;
    size_t more = *room ? *room * 2 : 16;
    memcpy(&items, list, sizeof items);
    void **grown = realloc(items, more * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    memcpy(list, &grown, sizeof grown);
    *room = more;
    return 0;
}

static struct world_file *entry_free(struct world_file *e)
{
    if (e)
        free(e->path);
    free(e);
    return NULL;
}

int world_get(struct world *w, const char *path, struct world_file **ret)
{
    struct world_file key = {.path = (char *)path}, **found = tfind(&key, &w->tree, compare);
    if (found) {
        *ret = *found;
        return 0;
    }
    if (grow(&w->entries, w->count, &w->room) < 0)
        return -ENOMEM;
    struct world_file *e = calloc(1, sizeof *e);
    if (e)
        e->path = strdup(path);
    int r = e && e->path ? w->source.look(w->source.data, path, &e->seen) : -ENOMEM;
    if (r >= 0 && !tsearch(e, &w->tree, compare))
        r = -ENOMEM;
    if (r < 0) {
        entry_free(e);
        return r;
    }
    w->entries[w->count++] = e;
    *ret = e;
    return 0;
}

bool world_exists(struct world *w, const char *path)
{
    struct world_file *e;
    if (world_get(w, path, &e) < 0)
        return false;
    return e->written || (e->seen.mode != 0 && !e->gone);
}

static int count_total(struct world *w, uint64_t size)
{
    if (size > WORLD_TOTAL_MAX || w->total > WORLD_TOTAL_MAX - size)
        return -E2BIG;
    w->total += size;
    return 0;
}

int world_load(struct world *w, struct world_file *e, struct error *err)
{
    if (e->loaded)
        return 0;
    if (e->seen.size > WORLD_FILE_MAX)
        return error_set(err, EFBIG, "is larger than %u MiB, too large to be patched",
                         WORLD_FILE_MAX >> 20);
    if (count_total(w, e->seen.size) < 0)
        return error_set(err, E2BIG,
                         "the files of this diff have more than %u MiB together: apply it in parts",
                         WORLD_TOTAL_MAX >> 20);
    int r = w->source.read(w->source.data, e->path, &e->seen, &e->data, &e->size);
    if (r == -ESTALE)
        return error_set(err, ESTALE, "is being changed by somebody else");
    if (r < 0)
        return error_errno(err, -r, "cannot be read");
    e->loaded = true;
    return 0;
}

int world_keep(struct world *w, uint8_t *data, size_t size)
{
    int r = grow(&w->made, w->n_made, &w->made_room);
    if (r >= 0)
        r = count_total(w, size);
    if (r < 0) {
        free(data);
        return r;
    }
    w->made[w->n_made++] = data;
    return 0;
}

void world_note(struct world *w, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n > 0 && w->notes.len + sizeof text < WORLD_NOTES_MAX)
        buf_append(&w->notes, text, strlen(text) + 1);
}
