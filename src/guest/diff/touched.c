#include <sys/stat.h>

#include "relpath.h"
#include "touched.h"
#include "walk.h"
#include "banned.h"

/* Nothing is compared, so this is cheap: one record per name in a layer, and per name of the folder
 * that is hidden by a deleted or replaced folder. Below a folder that only the box has, there is
 * nothing to record.
 */
static int touched_visit(struct walk *w, const struct walk_entry *e, void *data)
{
    struct answer *a = data;
    if (e->path_len > RELPATH_MAX || relpath_touches_git(e->path))
        return 0;
    answer_begin(a, WIRE_ENTRY);
    wire_put_str(&a->frame, WIRE_K_PATH, e->path);
    if (e->in_merged || !walk_is_hidden(w))
        wire_put_u64(&a->frame, WIRE_K_BOTH, 1);
    if (answer_end(a) < 0)
        return error_errno(walk_error(w), -a->status, "cannot send the list");
    if (!e->in_base)
        return 0;
    return S_ISDIR(e->base.st_mode) || (e->in_merged && S_ISDIR(e->merged.st_mode));
}

/* A folder whose names in the base the box cannot see: what comes there later, it has not seen
 * either. */
static int touched_leave(struct walk *w, void *data)
{
    struct answer *a = data;
    if (walk_path_len(w) == 0 || !walk_is_hidden(w) || walk_dir(w, WALK_BASE) < 0)
        return 0;
    answer_begin(a, WIRE_ENTRY);
    wire_put_str(&a->frame, WIRE_K_PATH, walk_path(w));
    wire_put_u64(&a->frame, WIRE_K_HIDDEN, 1);
    return answer_end(a) < 0 ? error_errno(walk_error(w), -a->status, "cannot send the list") : 0;
}

int touched_answer(const struct tree *t, struct answer *a, struct error *err)
{
    static const struct walk_ops OPS = {.visit = touched_visit, .leave = touched_leave};
    struct tree view = *t;
    view.copy = -1;
    int r = walk_run(&view, &OPS, a, err);
    if (r < 0)
        return r;
    answer_begin(a, WIRE_RESULT);
    answer_end(a);
    return answer_flush(a);
}
