#include <errno.h>
#include <string.h>

#include "boxes.h"
#include "keeper.h"
#include "git_box.h"
#include "session.h"
#include "tool_open.h"
#include "banned.h"

void tool_close(struct tool_open *t)
{
    t->session = tool_session_free(t->session);
    t->own = box_close(t->own);
    cleanup_close(&t->box.registry);
    t->box.registry = -1;
}

static int open_box(struct run_options *o, struct tool_open *t, struct error *err)
{
    if (o->box_id) {
        if (o->spec.fields || o->apply)
            return error_set(
                err, EINVAL,
                "--box names an existing box: it cannot be used with options for a new box");
        return boxes_find(o->box_id, &t->box.registry, &t->box.id, err);
    }
    _cleanup_git_box_ struct git_box git = {0};
    int r = box_spec_resolve(&o->spec, err);
    if (r == 0)
        git_box_prepare(&o->spec.box, true, &git);
    o->spec.box.adjustable = true; /* for request_network */
    if (r == 0)
        r = box_begin(&o->spec.box, &t->own, err);
    o->spec.box.git_config = o->spec.box.git_mask = NULL;
    t->box.box = t->own;
    if (r == 0)
        r = git_box_install(&git, &t->box, err);
    if (git.worktree.needed)
        o->spec.box.n_shares--; /* what it names ends here */
    return r;
}

/* The folder that the box was made from; NULL: an empty one, or the box does not say. */
static char *tool_workspace(const struct run_options *o, const struct tool_open *t)
{
    struct keeper_info info = {0};
    if (!o->box_id)
        return o->spec.box.workspace ? strdup(o->spec.box.workspace) : NULL;
    if (keeper_info(t->box.registry, &t->box.id, &info, NULL) < 0)
        return NULL;
    char *folder = TAKE_PTR(info.workspace);
    keeper_info_free(&info);
    return folder;
}

/* A folder that is gone has no settings. */
static int add_sources(const struct run_options *o, struct tool_open *t, struct error *err)
{
    _cleanup_config_ struct config config = {0};
    _cleanup_free_ char *folder = tool_workspace(o, t);
    if (folder && access(folder, F_OK) < 0)
        folder = (free(folder), NULL);
    int r = config_read_all(folder, o->trust, &config, err);
    return r < 0 ? r : tool_sources_add(t->session, &config, err);
}

int tool_open(struct run_options *o, const struct tool_confirm *confirm, struct tool_open *ret,
              struct error *err)
{
    struct tool_host host = run_options_host(o);
    *ret = (struct tool_open){.box = {.registry = -1}};
    int r = open_box(o, ret, err);
    if (r == 0)
        r = tool_session_new(&ret->box, "main", &ret->session, err);
    host.clone_max = ret->own ? o->spec.box.limits.disk : 0;
    if (confirm)
        host.confirm = *confirm;
    if (r == 0)
        r = tool_session_set_host(ret->session, &host, err);
    if (r == 0)
        r = add_sources(o, ret, err);
    if (r < 0)
        tool_close(ret);
    return r;
}
