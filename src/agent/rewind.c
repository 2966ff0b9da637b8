/*
 * Earlier states of a session: undo goes back to one, a fork starts a second conversation from one.
 *
 * Before the first call of a turn that may change something, the history gets the name of a
 * snapshot of the box; a turn without one changed nothing, so the next one's stands for it, too.
 *
 * Undo restores the box to the snapshot of the first undone turn, commands included, and the turns
 * no longer count in the conversation. Nothing is deleted from the history. What was applied to the
 * folder stays there: the box shows the earlier state, so that its diff against the folder reverts
 * what was applied (box/restore.c).
 */
#include <errno.h>
#include <string.h>

#include "agent_session.h"
#include "folder_watch.h"
#include "json.h"
#include "banned.h"

struct box_state {
    unsigned turn;
    char box[16];
    char snapshot[KEEPER_SNAPSHOT_NAME];
};

/* The first state of a turn after turn `after`. -ENOENT: no such turn changed anything. */
static int box_state_find(struct agent *a, unsigned after, struct box_state *ret)
{
    bool found = false;
    for (size_t i = history_count(a->history); i-- > 0;) {
        const struct history_entry *e = history_entry(a->history, i);
        _cleanup_json_ json_t *m = NULL;
        if (!e->counts)
            continue;
        if (e->turn <= after)
            break;
        if (e->kind != HISTORY_SNAPSHOT || history_read(a->history, i, &m, NULL) < 0)
            continue;
        const char *box = json_get_string(m, "box"), *snapshot = json_get_string(m, "snapshot");
        unsigned turn = (unsigned)json_get_integer(m, "turn");
        if (!box || !snapshot || turn <= after)
            continue;
        found = true;
        ret->turn = turn;
        snprintf(ret->box, sizeof ret->box, "%s", box);
        snprintf(ret->snapshot, sizeof ret->snapshot, "%s", snapshot);
    }
    return found ? 0 : -ENOENT;
}

/* The name of the snapshot in the present box. A fork has the snapshots of the boxes that it was
 * forked from under their name and the box's. */
static void box_state_name(const struct agent *a, const struct box_state *s,
                           char ret[KEEPER_SNAPSHOT_NAME])
{
    if (strcmp(s->box, workbox_id(a->box)) == 0)
        snprintf(ret, KEEPER_SNAPSHOT_NAME, "%s", s->snapshot);
    else
        snprintf(ret, KEEPER_SNAPSHOT_NAME, "%.8s:%.6s", s->box, s->snapshot);
}

/* Restores the box and counts what that changed there. */
static int undo_restore(struct agent *a, const struct box_state *state, struct agent_undone *ret,
                        struct error *err)
{
    _cleanup_json_ json_t *before = NULL, *after = NULL;
    _cleanup_reverted_ struct workbox_reverted reverted = WORKBOX_REVERTED_INIT;
    char name[KEEPER_SNAPSHOT_NAME];
    box_state_name(a, state, name);
    int r = workbox_fingerprints(a->box, &before, err);
    if (r < 0)
        return r;
    r = workbox_restore(a->box, name, &reverted, err);
    if (r == -ENOENT) {
        ret->files = UNDO_STATE_GONE;
        return 0;
    }
    if (r < 0)
        return r;
    agent_forget_background(a);
    ret->files = UNDO_RESTORED;
    r = workbox_fingerprints(a->box, &after, err);
    if (r < 0)
        return r;
    ret->restored = fingerprints_differ(before, after);
    for (size_t i = 0; i < reverted.count; i++)
        ret->applied += json_object_get(after, reverted.paths[i]) != NULL;
    ret->failed = reverted.failed;
    snprintf(ret->failures, sizeof ret->failures, "%s",
             reverted.failed && buf_cstr(&reverted.failures) ? (char *)reverted.failures.data : "");
    return 0;
}

int agent_undo(struct agent *a, unsigned n, struct agent_undone *ret, struct error *err)
{
    unsigned turns = history_turns(a->history);
    struct agent_changes changes = {0};
    struct box_state state;
    if (n == 0 || n > turns)
        return error_set(err, EINVAL, turns ? "there are only %u turns to undo" : "nothing to undo",
                         turns);
    *ret = (struct agent_undone){.first = turns - n + 1, .last = turns};
    int r = agent_ready(a, err);
    if (r == 0)
        r = agent_notice(a, err);
    if (r == 0 && box_state_find(a, turns - n, &state) == 0) {
        r = undo_restore(a, &state, ret, err);
        if (r < 0)
            error_wrap(err, "cannot restore the files");
    }
    if (r == 0)
        r = agent_append(a, message_of_hutch("undo", "{s:i}", "to", (int)(turns - n)), err);
    if (r < 0)
        return r;
    a->prompt_notes.len = 0;
    a->sync_due = true;
    a->context = context_free(a->context);
    r = agent_ready(a, err);
    if (r == 0)
        r = agent_changes(a, &changes, err);
    agent_changes_free(&changes);
    return r == 0 ? agent_save(a, err) : r;
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

int agent_undone_text(const struct agent_undone *u, struct buf *out)
{
    bool one = u->first == u->last;
    const char *it = one ? "it" : "them";
    if (one)
        buf_printf(out, "Undid turn %u", u->last);
    else
        buf_printf(out, "Undid turns %u to %u", u->first, u->last);
    switch (u->files) {
    case UNDO_NO_CHANGES:
        buf_printf(out, ": %s changed no files; removed %s from the conversation.\n",
                   one ? "it" : "they", it);
        break;
    case UNDO_STATE_GONE:
        buf_append_str(
            out,
            " in the conversation only: the box that had the earlier files is gone, so the files "
            "stay as they are.\n");
        break;
    case UNDO_RESTORED:
        buf_printf(out, ": restored %zu file%s in the box and removed %s from the conversation.",
                   u->restored, plural(u->restored), it);
        if (u->applied)
            buf_printf(out,
                       " %zu file%s of %s %s applied to your folder: the pending diff reverts %s; "
                       "/apply to do "
                       "so.",
                       u->applied, plural(u->applied), it, u->applied == 1 ? "was" : "were",
                       u->applied == 1 ? "it" : "them");
        buf_append_str(out, "\n");
        break;
    }
    if (u->failed)
        buf_printf(out, "Could not restore %zu file%s that %s applied: %s%s\n", u->failed,
                   plural(u->failed), u->failed == 1 ? "was" : "were", u->failures,
                   u->failed > 5 ? "; …" : "");
    return out->failed ? -ENOMEM : 0;
}

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
    r = history_new(a->box_options.workspace, history_id(a->history), turn, &b->history, err);
    if (r == 0 && turn > 0)
        r = history_copy_until(a->history, turn, b->history, err);
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

int agent_fork(struct agent *a, unsigned turn, const struct agent_sink *sink, struct agent **ret,
               struct error *err)
{
    struct workbox *box = NULL;
    struct box_state state = {0};
    char name[KEEPER_SNAPSHOT_NAME] = "";
    unsigned turns = history_turns(a->history);
    if (turn > turns)
        return error_set(err, EINVAL, "there are only %u turns to fork from", turns);
    turn = turn ? turn : turns;
    int r = workbox_ready(a->box, err);
    if (r == 0)
        r = agent_notice(a, err);
    if (r < 0)
        return r;
    /* The box as it was at the end of that turn: as a later turn found it, or as it is. */
    if (box_state_find(a, turn, &state) == 0)
        box_state_name(a, &state, name);
    r = workbox_fork(a->box, name[0] ? name : NULL, &box, err);
    if (r == -ENOENT && name[0])
        return error_set(err, ENOENT,
                         "the box with the files of the end of turn %u is gone; fork the current "
                         "state with /fork",
                         turn);
    return r < 0 ? r : agent_fork_with(a, box, turn, sink, ret, err);
}
