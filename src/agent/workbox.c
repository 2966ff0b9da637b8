#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "workbox.h"
#include "banned.h"

static struct workbox *workbox_alloc(struct error *err)
{
    struct workbox *w = calloc(1, sizeof *w);
    if (!w) {
        error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    w->hearing = -1;
    return w;
}

int workbox_new(const struct box_options *o, struct workbox **ret, struct error *err)
{
    const struct keeper_life life = {.ttl_ns = WORKBOX_IDLE_NS, .idle = true};
    struct workbox *w = workbox_alloc(err);
    if (!w)
        return -ENOMEM;
    w->mode = o->mode;
    w->pristine = w->plain = true;
    struct box_options with = *o;
    git_box_prepare(&with, true, &w->git);
    int r = keeper_begin(&with, &life, &w->hearing, err);
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
    struct registry_id id;
    int r = keeper_hear(w->hearing, &id, err);
    close(TAKE_FD(w->hearing));
    if (r == 0)
        r = keeper_attach(&id, &w->box, err);
    if (r == 0 && w->git.worktree.needed) {
        r = git_box_install(&w->git, w->box, err);
        w->pristine = w->plain = false; /* the box is not as it began: an undo must not lose that */
    }
    return r;
}

int workbox_find(const char *id, struct workbox **ret, struct error *err)
{
    _cleanup_box_info_ struct box_info info = {0};
    /* The beginning of a name would do for a person; a history has all of it. */
    if (strlen(id) != REGISTRY_ID_LEN || strchr(id, '/') || strchr(id, '.'))
        return error_set(err, ENOENT, "the box '%.32s' is gone", id);
    struct workbox *w = workbox_alloc(err);
    if (!w)
        return -ENOMEM;
    int r = keeper_find(id, &w->box, err);
    if (r == 0)
        r = box_info(w->box, &info, err);
    if (r < 0) {
        workbox_free(w, false);
        return r == -EPIPE ? -ENOENT : r;
    }
    w->mode = info.mode;
    w->git.worktree.needed = info.workspace && git_worktree_is_linked(info.workspace);
    *ret = w;
    return 0;
}

struct workbox *workbox_free(struct workbox *w, bool remove)
{
    if (!w)
        return NULL;
    if (remove && workbox_ready(w, NULL) == 0 && w->box)
        keeper_remove(w->box, NULL);
    cleanup_close(&w->hearing);
    box_close(w->box);
    git_box_free(&w->git);
    free(w);
    return NULL;
}

const char *workbox_id(const struct workbox *w)
{
    return w->box ? box_id(w->box) : "";
}

int workbox_snapshot(struct workbox *w, char ret_name[KEEPER_SNAPSHOT_NAME], struct error *err)
{
    w->delivered = false;
    if (w->pristine) {
        w->pristine = false;
        snprintf(ret_name, KEEPER_SNAPSHOT_NAME, "%s", KEEPER_ORIGIN);
        return 0;
    }
    return keeper_snapshot(w->box, ret_name, err);
}

void workbox_reverted_free(struct workbox_reverted *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->paths[i]);
    free(r->paths);
    buf_free(&r->failures);
    *r = WORKBOX_REVERTED_INIT;
}

static void reverted_add(void *data, const char *path, const char *why)
{
    struct workbox_reverted *r = data;
    if (why && r->failed++ < 5) {
        buf_printf(&r->failures, "%s%.400s: %s", r->failures.len ? "; " : "", path, why);
        return;
    }
    char **paths = why ? NULL : reallocarray(r->paths, r->count + 1, sizeof *paths);
    char *copy = paths ? strdup(path) : NULL;
    r->paths = paths ? paths : r->paths;
    if (copy)
        r->paths[r->count++] = copy;
}

int workbox_restore(struct workbox *w, const char *name, struct workbox_reverted *reverted,
                    struct error *err)
{
    const struct restore_report report = {.say = reverted_add, .data = reverted};
    int r = keeper_restore(w->box, name, &report, err);
    w->delivered = false;
    if (r == 0)
        w->pristine = strcmp(name, KEEPER_ORIGIN) == 0 && reverted->count == 0;
    return r;
}

int workbox_fork(struct workbox *w, const char *snapshot, struct workbox **ret, struct error *err)
{
    _cleanup_reverted_ struct workbox_reverted reverted = WORKBOX_REVERTED_INIT;
    const struct restore_report report = {.say = reverted_add, .data = &reverted};
    struct registry_id id;
    struct workbox *fork = workbox_alloc(err);
    if (!fork)
        return -ENOMEM;
    if (!snapshot && w->pristine)
        snapshot = KEEPER_ORIGIN;
    int r = keeper_fork(w->box, snapshot, 1, &report, &id, err);
    if (r == 0)
        r = keeper_attach(&id, &fork->box, err);
    if (r < 0) {
        workbox_free(fork, false);
        return r;
    }
    fork->mode = w->mode;
    fork->pristine = true; /* as the fork began: that is its origin */
    fork->plain =
        w->plain && snapshot && strcmp(snapshot, KEEPER_ORIGIN) == 0 && reverted.count == 0;
    *ret = fork;
    return 0;
}

int workbox_apply(struct workbox *w, const struct tool_apply_options *o, struct error *err)
{
    int r = tool_apply(w->box, o, err);
    w->delivered = r == 0;
    return r;
}

int workbox_sync(struct workbox *w, const struct apply_options *o,
                 const struct apply_report *report, struct error *err)
{
    return w->mode != BOX_COW || w->pristine ? 0 : box_sync(w->box, o, report, err);
}
