/*
 * The changes of the box: listing them, applying them to the folder, taking the folder's changes
 * in; and ID.patch, which keeps them beside the history for a box that has to be made again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent_session.h"
#include "folder_watch.h"
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
    int conflicts = r < 0 ? r : workbox_apply(a->box, &how, err);
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
    return history_folder(ret_folder, err);
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
