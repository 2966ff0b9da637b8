/*
 * Resuming a session: its box if it still exists, with all that runs in it; else a new one with the
 * changes that were saved beside the history. The person and the model learn what is gone.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent_session.h"
#include "host_folder.h"
#include "clock.h"
#include "banned.h"

int agent_close_calls(struct agent *a, const char *text, struct error *err)
{
    json_t *answer = NULL;
    size_t i = history_count(a->history); /* behind the last message that counts */
    while (i > 0 && (!history_entry(a->history, i - 1)->counts ||
                     history_entry(a->history, i - 1)->role == HISTORY_HUTCH))
        i--;
    if (i == 0 || history_entry(a->history, i - 1)->role != HISTORY_ASSISTANT)
        return 0;
    int r = history_read(a->history, i - 1, &answer, err);
    if (r < 0)
        return r;
    const char *stop = json_get_string(answer, "stop");
    if (stop && strcmp(stop, "interrupted") == 0 && a->prompt_notes.len == 0)
        prompt_note_printf(a, "The person interrupted you there.");
    json_t *results = results_for_open_calls(json_object_get(answer, "content"), text);
    json_decref(answer);
    return results ? agent_append(a, message_of_results(results), err) : 0;
}

/* The box that the history names last, and whether it ever named one. */
static bool resume_find_box(struct agent *a, bool *ret_had_one)
{
    json_t *last = history_last(a->history, "box");
    const char *id = json_get_string(last, "box");
    bool found = id && workbox_find(id, &a->box, NULL) == 0;
    const json_t *folder = json_object_get(last, "folder");
    agent_remember_folder(a);
    if (json_array_size(folder) == 2) {
        a->folder.dev = (dev_t)json_integer_value(json_array_get(folder, 0));
        a->folder.ino = (ino_t)json_integer_value(json_array_get(folder, 1));
        a->folder_known = a->box_options.workspace != NULL;
    }
    /* A folder that the box itself writes is never walked by the host. */
    a->folder_known &= found ? workbox_is_cow(a->box) : a->box_options.mode == BOX_COW;
    *ret_had_one = id != NULL;
    json_decref(last);
    return found;
}

/* The folder may come from the history, which is untrusted input. */
static int resume_check_workspace(const struct box_options *o, struct error *err)
{
    _cleanup_free_ char *path = NULL;
    if (!o->workspace)
        return 0;
    int r = host_folder_resolve(o->workspace, &path);
    if (r < 0)
        return error_errno(err, -r, "cannot open the folder of this session, '%s'", o->workspace);
    const char *why = host_folder_refuse(path, o->mode == BOX_DIRECT);
    return why ? error_set(err, EINVAL, "the workspace cannot be '%s': %s", path, why) : 0;
}

static int resume_remake_box(struct agent *a, bool had_one, struct error *err)
{
    struct error why = {0};
    int r = resume_check_workspace(&a->box_options, err);
    if (r == 0)
        r = workbox_new(&a->box_options, &a->box, err);
    if (r < 0 || !had_one)
        return r;
    r = workbox_ready(a->box, err);
    if (r < 0)
        return r;
    int missing = agent_load(a, &why);
    if (missing < 0)
        agent_note(a, "cannot restore the saved changes: %s", why.text);
    else if (missing > 0)
        agent_note(a, "%s", why.text);
    agent_note(a, "the box of this session is gone; this is a new one with the changes of its "
                  "workspace. Files elsewhere (/tmp, the home folder) and background processes are "
                  "lost");
    prompt_note_printf(a,
                       "The sandbox was made again: files of /workspace are as they were%s; other "
                       "files (/tmp, the home folder), shell variables and background processes "
                       "are gone.",
                       missing ? ", but some could not be restored" : "");
    return 0;
}

int agent_resume(struct agent *a, struct error *err)
{
    struct stat written;
    bool repaired = false, had_one = false;
    int r = history_open(a->options.resume, false, &a->history, &repaired, err);
    if (r < 0)
        return r;
    if (stat(history_path(a->history), &written) == 0)
        a->watch_since = (int64_t)written.st_mtim.tv_sec * NS_PER_S + written.st_mtim.tv_nsec;
    if (repaired)
        agent_note(a, "the last message was written only in part and is left out");
    const char *folder = history_workspace(a->history), *given = a->box_options.workspace;
    if (folder && (!given || strcmp(folder, given) != 0)) {
        agent_note(a, "this session works on %s", folder);
        a->box_options.workspace = folder;
    }
    a->box_recorded = resume_find_box(a, &had_one);
    if (a->box_recorded && a->options.box_options_given)
        agent_note(a, "this session's box still exists; box options do not change it");
    if (!a->box_recorded)
        r = resume_remake_box(a, had_one, err);
    if (r < 0)
        return r;
    agent_restore_usage(a);
    if (a->box_recorded)
        agent_restore_background(a);
    agent_check_folder(a, !a->box_recorded);
    return 0;
}
