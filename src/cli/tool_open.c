#include <errno.h>
#include <string.h>

#include "boxes.h"
#include "sources.h"
#include "tool_open.h"
#include "banned.h"

void tool_close(struct tool_open *t)
{
    t->session = tool_session_free(t->session);
    t->own = box_close(t->own);
    cleanup_close(&t->box.registry);
    t->box.registry = -1;
}

/* Options that make a box mean nothing to one that is there. */
static int refuse_makers(const struct run_options *o, struct error *err)
{
    struct run_options plain;
    run_options_init(&plain);
    /* Both began as zeros and were filled by the same function, so that their padding is the same, too. */
    bool same = memcmp(&plain.box, &o->box, sizeof plain.box) == 0 && /* NOLINT(bugprone-*) */
                !o->image && !o->vm && !o->apply;
    return same ? 0
                : error_set(err, EINVAL,
                            "--box names a box that is there: options that make one do not go with it");
}

static int open_box(struct run_options *o, struct tool_open *t, struct error *err)
{
    if (o->box_id) {
        int r = refuse_makers(o, err);
        return r < 0 ? r : boxes_find(o->box_id, &t->box.registry, &t->box.id, err);
    }
    int r = run_options_resolve(o, err);
    if (r == 0)
        r = box_begin(&o->box, &t->own, err);
    t->box.box = t->own;
    return r;
}

int tool_open(struct run_options *o, struct tool_open *ret, struct error *err)
{
    *ret = (struct tool_open){.box = {.registry = -1}};
    int r = open_box(o, ret, err);
    if (r == 0)
        r = tool_session_new(&ret->box, "main", &ret->session, err);
    if (r == 0)
        r = tool_sources_add(ret->session, ret->own ? o->box.workspace : NULL, err);
    if (r < 0)
        tool_close(ret);
    return r;
}
