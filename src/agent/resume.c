/*
 * Going on with a session: its box if it is still there, with all that runs in it; else a fresh one
 * with the changes that were saved beside the history. What is not there any more is told to the
 * person and to the model.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent_private.h"
#include "host_folder.h"
#include "clock.h"
#include "banned.h"

/* A result for each call of an answer. */
json_t *open_calls_answered(const json_t *content, const char *text)
{
    size_t i;
    json_t *block, *results = json_array();
    json_array_foreach(content, i, block)
    {
        const char *type = json_string_value(json_object_get(block, "type"));
        const char *id = json_string_value(json_object_get(block, "id"));
        if (type && id && strcmp(type, "tool_use") == 0)
            json_array_append_new(results, result_block_text(id, text));
    }
    if (json_array_size(results) > 0)
        return results;
    json_decref(results);
    return NULL;
}

/* The last message of the conversation that counts; false if there is none. */
static bool last_said(struct history *h, size_t *ret)
{
    for (size_t i = history_count(h); i-- > 0;) {
        const struct history_entry *e = history_entry(h, i);
        if (e->counts && e->role != HISTORY_HUTCH) {
            *ret = i;
            return true;
        }
    }
    return false;
}

int agent_close_calls(struct agent *a, const char *text, struct error *err)
{
    size_t i;
    json_t *answer = NULL;
    if (!last_said(a->history, &i) || history_entry(a->history, i)->role != HISTORY_ASSISTANT)
        return 0;
    int r = history_read(a->history, i, &answer, err);
    if (r < 0)
        return r;
    const char *stop = json_string_value(json_object_get(answer, "stop"));
    if (stop && strcmp(stop, "interrupted") == 0 && a->aside.len == 0)
        agent_aside(a, "The person interrupted you there.");
    json_t *results = open_calls_answered(json_object_get(answer, "content"), text);
    json_decref(answer);
    return results ? agent_append(a, message_of_results(results), err) : 0;
}

static void tell_lost(struct agent *a, const struct error *err, int missing)
{
    if (missing < 0)
        agent_note(a, "the saved changes could not be brought back: %s", err->text);
    else if (missing > 0)
        agent_note(a, "%s", err->text);
    agent_note(a, "the box of this session has gone; this is a fresh one with the changes of its "
                  "workspace. What "
                  "lay elsewhere (/tmp, the home folder) and what ran in the background is not "
                  "there any more");
    agent_aside(a,
                "The sandbox was made anew: files of /workspace are as they were%s; other files "
                "(/tmp, the home "
                "folder), shell variables and background processes are gone.",
                missing ? ", but some could not be brought back" : "");
}

/* The box that the history names last, and whether it ever named one. */
static bool find_box(struct agent *a, bool *ret_had_one)
{
    json_t *last = history_last(a->history, "box");
    const char *id = json_string_value(json_object_get(last, "box"));
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

/* The folder may come from the history, a file that says what its writer wants. */
static int check_workspace(const struct box_options *o, struct error *err)
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

static int remake_box(struct agent *a, bool had_one, struct error *err)
{
    struct error why = {0};
    int r = check_workspace(&a->box_options, err);
    if (r == 0)
        r = workbox_new(&a->box_options, &a->box, err);
    if (r < 0 || !had_one)
        return r;
    r = workbox_ready(a->box, err);
    if (r < 0)
        return r;
    tell_lost(a, &why, agent_load(a, &why));
    return 0;
}

static void go_to_workspace(struct agent *a)
{
    const char *folder = history_workspace(a->history);
    const char *given = a->box_options.workspace;
    if (!folder || (given && strcmp(folder, given) == 0))
        return;
    agent_note(a, "this session works on %s", folder);
    a->box_options.workspace = folder;
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
        agent_note(a, "the last message was not written to its end, and is left out");
    go_to_workspace(a);
    a->box_told = find_box(a, &had_one);
    if (a->box_told && a->options.makes)
        agent_note(a, "the box of this session is still there as it was made: the options for one "
                      "do not change it");
    if (!a->box_told)
        r = remake_box(a, had_one, err);
    if (r < 0)
        return r;
    agent_restore_usage(a);
    if (a->box_told)
        agent_restore_background(a);
    agent_check_folder(a, !a->box_told);
    return 0;
}
