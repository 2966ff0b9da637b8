#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "workbox.h"
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
    int r = keeper_hear(w->hearing, &w->box.id, err);
    close(TAKE_FD(w->hearing));
    if (r == 0)
        r = registry_open(true, &w->box.registry, err);
    if (r == 0 && w->git.worktree.needed) {
        r = git_box_install(&w->git, &w->box, err);
        w->pristine = w->plain = false; /* the box is not as it began: an undo must not lose that */
    }
    return r;
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
    w->git.worktree.needed = info.workspace && git_worktree_is_linked(info.workspace);
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
    git_box_free(&w->git);
    free(w);
    return NULL;
}

const char *workbox_id(const struct workbox *w)
{
    return w->box.id.text;
}

bool workbox_is_cow(const struct workbox *w)
{
    return w->mode == BOX_COW;
}

struct tool_box *workbox_tools(struct workbox *w)
{
    return &w->box;
}

int workbox_snapshot(struct workbox *w, char ret_name[KEEPER_SNAPSHOT_NAME], struct error *err)
{
    w->delivered = false;
    if (w->pristine) {
        w->pristine = false;
        snprintf(ret_name, KEEPER_SNAPSHOT_NAME, "%s", KEEPER_ORIGIN);
        return 0;
    }
    return keeper_snapshot(w->box.registry, &w->box.id, ret_name, err);
}

void workbox_touch(struct workbox *w)
{
    w->pristine = w->delivered = false;
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
    struct workbox_reverted unread = WORKBOX_REVERTED_INIT, *to = reverted ? reverted : &unread;
    const struct restore_report report = {.say = reverted_add, .data = to};
    int r = keeper_restore(w->box.registry, &w->box.id, name, &report, err);
    w->delivered = false;
    if (r == 0)
        w->pristine = strcmp(name, KEEPER_ORIGIN) == 0 && to->count == 0;
    workbox_reverted_free(&unread);
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
    struct workbox_reverted reverted = WORKBOX_REVERTED_INIT;
    const struct restore_report report = {.say = reverted_add, .data = &reverted};
    int r = registry_open(true, &fork->box.registry, err);
    if (r == 0)
        r = keeper_fork(w->box.registry, &w->box.id, snapshot, 1, &report, &fork->box.id, err);
    fork->plain = fork->plain && reverted.count == 0;
    workbox_reverted_free(&reverted);
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

int workbox_apply(struct workbox *w, const struct tool_apply_options *o, struct error *err)
{
    int r = tool_apply(&w->box, o, err);
    w->delivered = r == 0;
    return r;
}

int workbox_sync(struct workbox *w, const struct apply_options *o,
                 const struct apply_report *report, struct error *err)
{
    if (w->mode != BOX_COW || w->pristine)
        return 0;
    return keeper_sync(w->box.registry, &w->box.id, o, report, err);
}

int workbox_note(struct workbox *w, struct error *err)
{
    return w->mode == BOX_COW ? keeper_note(w->box.registry, &w->box.id, err) : 0;
}
