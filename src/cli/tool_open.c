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

static int open_box(struct run_options *o, struct tool_open *t, struct error *err)
{
    if (o->box_id) {
        if (run_options_make(o) || o->apply)
            return error_set(err, EINVAL,
                             "--box names a box that is there: options that make one do not go with it");
        return boxes_find(o->box_id, &t->box.registry, &t->box.id, err);
    }
    int r = box_wish_resolve(&o->wish, err);
    if (r == 0)
        r = box_begin(&o->wish.box, &t->own, err);
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
        r = tool_sources_add(ret->session, ret->own ? o->wish.box.workspace : NULL, err);
    if (r < 0)
        tool_close(ret);
    return r;
}
