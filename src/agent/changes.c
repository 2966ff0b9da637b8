/*
 * The changes of a session's box: listing them, applying them to the folder, taking the folder's
 * changes in; ID.patch, which keeps them beside the history for a box that has to be made again;
 * and earlier states: undo goes back to one, a fork starts a second conversation from one.
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
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent_session.h"
#include "json.h"
#include "banned.h"

int agent_changes(struct agent *a, struct agent_changes *ret, struct error *err)
{
    int r = workbox_ready(a->box, err);
    if (r == 0)
        r = agent_notice(a, err);
    if (r == 0)
        r = workbox_changes(a->box, ret, err);
    if (r == 0) {
        a->pending = ret->count + ret->commits;
        a->pending_known = a->n_running == 0;
    }
    return r;
}

int agent_diff(struct agent *a, int out, struct error *err)
{
    int r = workbox_ready(a->box, err);
    return r < 0 ? r : box_diff(a->box->box, false, out, err);
}

/* Passes on the report of an apply; what it wrote is not a change by the person. */
struct apply_relay {
    struct agent *agent;
    const struct apply_report *to;
};

static void apply_relay_report(void *data, const char *path, enum apply_outcome outcome,
                               const char *why)
{
    struct apply_relay *relay = data;
    if (relay->agent->watch && (outcome == APPLY_DONE || outcome == APPLY_MERGED))
        folder_watch_accept(relay->agent->watch, path);
    if (relay->to && relay->to->say)
        relay->to->say(relay->to->data, path, outcome, why);
}

/* Looks at what is left to apply, and saves it. */
static int agent_after_apply(struct agent *a, int r, int conflicts, struct error *err)
{
    struct agent_changes left = {0};
    if (r == 0)
        r = agent_changes(a, &left, err);
    agent_changes_free(&left);
    if (r == 0)
        r = agent_save(a, err);
    return r < 0 ? r : conflicts;
}

int agent_apply(struct agent *a, const struct tool_apply_options *o, struct error *err)
{
    struct tool_apply_options how = o ? *o : (struct tool_apply_options){0};
    struct apply_relay relay = {.agent = a, .to = o ? &o->report : NULL};
    int r = workbox_ready(a->box, err);
    if (r == 0)
        agent_check_folder(a, false);
    if (r == 0 && a->folder_replaced)
        r = error_set(
            err, ESTALE,
            "nothing was applied: the folder %s was removed or replaced since the session "
            "began; 'hutch box apply %s --new-folder' applies the changes there, 'hutch "
            "box diff %s' prints them as a patch",
            a->box_options.workspace, workbox_id(a->box), workbox_id(a->box));
    how.session = history_id(a->history);
    how.disk = a->box_options.limits.disk;
    how.report = (struct apply_report){.say = apply_relay_report, .data = &relay};
    int conflicts = r < 0 ? r : tool_apply(a->box->box, &how, err);
    a->box->delivered = conflicts == 0;
    if (conflicts < 0)
        return conflicts;
    if (a->watch_since)
        agent_seen_folder(a);
    r = agent_append(a, message_of_hutch("applied", "{s:i}", "conflicts", conflicts), err);
    return agent_after_apply(a, r, conflicts, err);
}

int agent_sync(struct agent *a, const struct apply_options *o, const struct apply_report *report,
               struct error *err)
{
    int r = workbox_ready(a->box, err);
    if (r == 0)
        r = agent_notice(a, err);
    if (r == 0)
        agent_check_folder(a, false);
    if (r == 0 && a->folder_replaced)
        return error_set(err, ESTALE,
                         "the folder %s was removed or replaced since the session began",
                         a->box_options.workspace);
    int conflicts = r < 0 ? r : workbox_sync(a->box, o, report, err);
    if (conflicts < 0)
        return conflicts;
    return agent_after_apply(a, 0, conflicts, err);
}

static int patch_open_folder(const struct agent *a, int *ret_folder,
                             char ret_name[HISTORY_ID_MAX + 8], struct error *err)
{
    snprintf(ret_name, HISTORY_ID_MAX + 8, "%s.patch", history_id(a->history));
    return history_folder(a->options.histories, ret_folder, err);
}

int agent_save(struct agent *a, struct error *err)
{
    char name[HISTORY_ID_MAX + 8];
    _cleanup_fd_ int folder = -1;
    int r = patch_open_folder(a, &folder, name, err);
    if (r < 0 || !a->pending_known || a->pending > 0)
        return r < 0 ? r : workbox_save(a->box, folder, name, err);
    if (unlinkat(folder, name, 0) < 0 && errno != ENOENT)
        return error_errno(err, errno, "cannot remove %s", name);
    return 0;
}

int agent_load(struct agent *a, struct error *err)
{
    char name[HISTORY_ID_MAX + 8];
    _cleanup_fd_ int folder = -1;
    int r = patch_open_folder(a, &folder, name, err);
    if (r < 0 || faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return r;
    return workbox_load(a->box, folder, name, err);
}

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
    a->n_running = 0;
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
    r = history_new(a->options.histories, a->box_options.workspace, history_id(a->history), turn,
                    &b->history, err);
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
