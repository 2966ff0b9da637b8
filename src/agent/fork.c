/* A second conversation from the end of a turn, with a copy of the history and a fork of the box.
 */
#include <errno.h>
#include <string.h>

#include "agent_private.h"
#include "folder_watch.h"
#include "banned.h"

static int copy_history(struct agent *a, unsigned turn, struct history **ret, struct error *err)
{
    struct history *h = NULL;
    int r = history_new(a->box_options.workspace, history_id(a->history), turn, &h, err);
    if (r == 0 && turn > 0)
        r = history_copy_until(a->history, turn, h, err);
    if (r < 0) {
        history_close(h);
        return r;
    }
    *ret = h;
    return 0;
}

/* Takes the box over, also on failure. */
int agent_fork_with(struct agent *a, struct workbox *box, unsigned turn,
                    const struct agent_sink *sink, struct agent **ret, struct error *err)
{
    struct agent *b = NULL;
    int r = agent_new(&a->options, sink, &b, err);
    if (r < 0) {
        workbox_free(box, true);
        return r;
    }
    b->box = box;
    b->box_options = a->box_options;
    b->folder = a->folder;
    b->folder_known = a->folder_known;
    b->folder_replaced = a->folder_replaced;
    b->watch_since = a->watch_since;
    if (b->folder_known && !b->folder_replaced)
        b->watch = folder_watch_new(b->box_options.workspace);
    b->options.record = NULL; /* a recording is of one conversation */
    r = copy_history(a, turn, &b->history, err);
    if (r == 0)
        history_defer(b->history);
    if (r == 0)
        r = agent_use_model(b, &a->spec, err);
    if (r == 0 && history_count(b->history) > 0) {
        agent_restore_usage(b);
        r = agent_record_box(b, err);
    }
    if (r < 0) {
        workbox_free(TAKE_PTR(b->box), true);
        agent_free(b);
        return r;
    }
    *ret = b;
    return 0;
}

/* The box as it was at the end of that turn: as a later turn found it, or as it is. */
static int fork_box(struct agent *a, unsigned turn, struct workbox **ret, struct error *err)
{
    struct box_state state;
    char name[KEEPER_SNAPSHOT_NAME];
    if (agent_find_state(a, turn, &state) < 0)
        return workbox_fork(a->box, NULL, ret, err);
    agent_state_name(a, &state, name);
    int r = workbox_fork(a->box, name, ret, err);
    return r == -ENOENT
               ? error_set(
                     err, ENOENT,
                     "the box that had the files of the end of turn %u is gone; fork from now "
                     "with /fork",
                     turn)
               : r;
}

int agent_fork(struct agent *a, unsigned turn, const struct agent_sink *sink, struct agent **ret,
               struct error *err)
{
    struct workbox *box = NULL;
    unsigned turns = history_turns(a->history);
    if (turn > turns)
        return error_set(err, EINVAL, "there are only %u turns to fork from", turns);
    int r = workbox_ready(a->box, err);
    if (r == 0)
        r = agent_notice(a, err);
    if (r == 0)
        r = fork_box(a, turn ? turn : turns, &box, err);
    return r < 0 ? r : agent_fork_with(a, box, turn ? turn : turns, sink, ret, err);
}
