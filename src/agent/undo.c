/*
 * Undo: the box goes back to what it was when the first undone turn began to change something,
 * commands included, and the turns no longer count in the conversation. Nothing is deleted from the
 * history.
 *
 * What was applied to the folder stays there: the box shows the earlier state, so that its diff
 * against the folder reverts what was applied (box/restore.c).
 */
#include <errno.h>
#include <string.h>

#include "agent_private.h"
#include "banned.h"

/* Restores the box and counts what that changed there. */
static int undo_restore(struct agent *a, const struct box_state *state, struct agent_undone *ret,
                        struct error *err)
{
    json_t *before = NULL, *after = NULL;
    struct workbox_reverted reverted = WORKBOX_REVERTED_INIT;
    int r = workbox_fingerprints(a->box, &before, err);
    if (r == 0)
        r = agent_go_to_state(a, state, &reverted, err);
    if (r == -ENOENT)
        ret->files = UNDO_STATE_GONE;
    if (r == 0) {
        agent_forget_background(a);
        ret->files = UNDO_RESTORED;
        r = workbox_fingerprints(a->box, &after, err);
    }
    if (r == 0) {
        ret->restored = fingerprints_differ(before, after);
        for (size_t i = 0; i < reverted.count; i++)
            ret->applied += json_object_get(after, reverted.paths[i]) != NULL;
        ret->failed = reverted.failed;
        snprintf(ret->failures, sizeof ret->failures, "%s",
                 reverted.failed && buf_cstr(&reverted.failures) ? (char *)reverted.failures.data
                                                                 : "");
    }
    workbox_reverted_free(&reverted);
    json_decref(before);
    json_decref(after);
    return r == -ENOENT && ret->files == UNDO_STATE_GONE ? 0 : r;
}

int agent_undo(struct agent *a, unsigned n, struct agent_undone *ret, struct error *err)
{
    unsigned turns = history_turns(a->history);
    struct agent_changes changes = {0};
    struct box_state state;
    if (n == 0 || n > turns)
        return error_set(err, EINVAL,
                         turns ? "there are only %u turns to undo" : "there is nothing to undo",
                         turns);
    *ret = (struct agent_undone){.first = turns - n + 1, .last = turns};
    int r = agent_ready(a, err);
    if (r == 0)
        r = agent_notice(a, err);
    if (r == 0 && agent_find_state(a, turns - n, &state) == 0) {
        r = undo_restore(a, &state, ret, err);
        if (r < 0)
            error_wrap(err, "cannot restore the files");
    }
    if (r == 0)
        r = agent_append(a, message_of_hutch("undo", "{s:i}", "to", (int)(turns - n)), err);
    if (r < 0)
        return r;
    a->aside.len = 0;
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
