#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apply_list.h"
#include "banned.h"

void apply_list_free(struct apply_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free((char *)list->at[i].e.path);
        free((char *)list->at[i].e.target);
    }
    free(list->at);
}

static int apply_list_add(void *data, const struct changes_entry *e)
{
    struct apply_list *list = data;
    list->bytes +=
        strlen(e->path) + (e->target ? strlen(e->target) : 0) + sizeof(struct apply_item);
    if (list->bytes > CHANGES_BYTES_MAX)
        return -E2BIG;
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        struct apply_item *at = realloc(list->at, room * sizeof *at);
        if (!at)
            return -ENOMEM;
        list->at = at;
        list->room = room;
    }
    struct apply_item i = {.e = *e, .silent = e->implied};
    i.e.path = strdup(e->path);
    i.e.target = e->target ? strdup(e->target) : NULL;
    /* Of a file and a folder that trade places, one report is enough. */
    if (list->count && list->at[list->count - 1].e.kind == WIRE_DELETED &&
        strcmp(list->at[list->count - 1].e.path, e->path) == 0)
        list->at[list->count - 1].silent = true;
    list->at[list->count++] = i;
    return i.e.path && (i.e.target || !e->target) ? 0 : -ENOMEM;
}

int apply_list_read(const struct apply_job *job, bool folders, struct apply_list *ret,
                    struct error *err)
{
    _cleanup_fd_ int conn = -1;
    int r = job->connect(job->data, &conn);
    if (r < 0)
        return error_errno(err, -r, "cannot reach the diff worker");
    r = changes_each(conn, folders, apply_list_add, ret, err);
    if (r > 0)
        return error_set(err, E2BIG, "the box changed more files than can be applied (%u)",
                         CHANGES_MAX);
    return r;
}

static bool is_at_or_below(const char *path, const char *top)
{
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == 0 || path[n] == '/');
}

bool apply_is_selected(const struct apply_options *o, const char *path)
{
    for (size_t i = 0; i < o->n_paths; i++)
        if (is_at_or_below(path, o->paths[i]) || is_at_or_below(o->paths[i], path))
            return true;
    return o->n_paths == 0;
}
