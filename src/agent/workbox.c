#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "workbox.h"
#include "workbox_private.h"
#include "banned.h"

static struct workbox *alloc(struct error *err)
{
    struct workbox *w = calloc(1, sizeof *w);
    if (!w) {
        error_set(err, ENOMEM, "no memory");
        return NULL;
    }
    w->box.registry = -1;
    w->hearing = -1;
    return w;
}

int workbox_new(const struct box_options *o, struct workbox **ret, struct error *err)
{
    const struct keeper_life life = {.ttl_ns = WORKBOX_IDLE_NS, .idle = true};
    struct workbox *w = alloc(err);
    if (!w)
        return -ENOMEM;
    w->mode = o->mode;
    w->pristine = w->plain = true;
    int r = keeper_begin(o, &life, &w->hearing, err);
    if (r < 0) {
        workbox_free(w, false);
        return r;
    }
    *ret = w;
    return 0;
}

int workbox_ready(struct workbox *w, struct error *err)
{
    if (w->hearing < 0)
        return 0;
    int r = keeper_hear(w->hearing, &w->box.id, err);
    close(TAKE_FD(w->hearing));
    return r < 0 ? r : registry_open(true, &w->box.registry, err);
}

/* A beginning of a name would do for a person; a history has all of it. */
static int find_id(int registry, const char *id, struct registry_id *ret, struct error *err)
{
    if (strlen(id) != REGISTRY_ID_LEN || strchr(id, '/') || strchr(id, '.'))
        return error_set(err, ENOENT, "the box '%.32s' has gone", id);
    return registry_find(registry, id, ret, err);
}

int workbox_find(const char *id, struct workbox **ret, struct error *err)
{
    struct keeper_info info = {0};
    struct workbox *w = alloc(err);
    if (!w)
        return -ENOMEM;
    int r = registry_open(false, &w->box.registry, err);
    if (r == 0)
        r = find_id(w->box.registry, id, &w->box.id, err);
    if (r == 0)
        r = keeper_info(w->box.registry, &w->box.id, &info, err);
    if (r < 0) {
        workbox_free(w, false);
        return r == -EPIPE ? -ENOENT : r;
    }
    w->mode = info.mode;
    keeper_info_free(&info);
    *ret = w;
    return 0;
}

struct workbox *workbox_free(struct workbox *w, bool remove)
{
    if (!w)
        return NULL;
    if (remove && workbox_ready(w, NULL) == 0 && w->box.registry >= 0)
        keeper_remove(w->box.registry, &w->box.id, NULL);
    cleanup_close(&w->hearing);
    cleanup_close(&w->box.registry);
    free(w);
    return NULL;
}

const char *workbox_id(const struct workbox *w)
{
    return w->box.id.text;
}

struct tool_box *workbox_tools(struct workbox *w)
{
    return &w->box;
}

int workbox_snapshot(struct workbox *w, char ret_name[KEEPER_SNAPSHOT_NAME], struct error *err)
{
    if (w->pristine) {
        w->pristine = false;
        snprintf(ret_name, KEEPER_SNAPSHOT_NAME, "%s", KEEPER_ORIGIN);
        return 0;
    }
    return keeper_snapshot(w->box.registry, &w->box.id, ret_name, err);
}

void workbox_touch(struct workbox *w)
{
    w->pristine = false;
}

int workbox_restore(struct workbox *w, const char *name, struct error *err)
{
    int r = keeper_restore(w->box.registry, &w->box.id, name, err);
    if (r == 0)
        w->pristine = strcmp(name, KEEPER_ORIGIN) == 0;
    return r;
}

int workbox_fork(struct workbox *w, const char *snapshot, struct workbox **ret, struct error *err)
{
    struct workbox *fork = alloc(err);
    if (!fork)
        return -ENOMEM;
    fork->mode = w->mode;
    fork->pristine = true; /* as the fork began: that is its origin */
    if (!snapshot && w->pristine)
        snapshot = KEEPER_ORIGIN;
    fork->plain = w->plain && snapshot && strcmp(snapshot, KEEPER_ORIGIN) == 0;
    int r = registry_open(true, &fork->box.registry, err);
    if (r == 0)
        r = keeper_fork(w->box.registry, &w->box.id, snapshot, 1, &fork->box.id, err);
    if (r < 0) {
        workbox_free(fork, false);
        return r;
    }
    *ret = fork;
    return 0;
}

int workbox_diff(struct workbox *w, int out, struct error *err)
{
    return keeper_diff(w->box.registry, &w->box.id, false, out, err);
}

int workbox_apply(struct workbox *w, const struct apply_report *report, struct error *err)
{
    return keeper_apply(w->box.registry, &w->box.id, report, err);
}
