/* The commands for pending changes: showing, applying, syncing and undoing them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "box.h"
#include "chat_command.h"
#include "json.h"
#include "session.h"
#include "banned.h"

#define PATHS_MAX   256
#define FILES_MAX   20000
#define PATIENCE_MS 2000

static int undo_run(struct conversation *c, const struct chat_entry *entry, struct chat_result *ret,
                    struct error *err)
{
    unsigned n = entry->n ? entry->n : 1, turns = history_turns(agent_history(c->agent));
    struct agent_undone undone;
    if (turns == 0)
        return error_set(err, EINVAL, "nothing to undo: there is no turn yet");
    if (n > turns)
        return error_set(err, EINVAL, "only %u turn%s can be undone", turns, turns == 1 ? "" : "s");
    int r = agent_undo(c->agent, n, &undone, err);
    if (r < 0)
        return r;
    if (c->sink.redraws) {
        c->sink.user(c->sink.data, NULL);
        r = conversation_replay(c, err);
    }
    agent_undone_text(&undone, &ret->text);
    return r < 0 ? r : conversation_pending(c, ret, err);
}

const struct chat_command CHAT_UNDO = {.name = "undo",
                                       .args = "[N]",
                                       .help = "undo the last turn, or N turns, with their files",
                                       .takes = ARGS_OPTIONAL_NUMBER,
                                       .flags = CHAT_CHANGES_FILES,
                                       .busy = "undoing",
                                       .run = undo_run};

/* A diff may be as large as the disk of the box: it comes through a pipe, and what exceeds the
 * buffer is dropped. */
struct diff_reader {
    int fd;
    struct buf *out;
    bool cut;
};

static void *diff_read_thread(void *data)
{
    struct diff_reader *d = data;
    char bytes[16384];
    ssize_t n;
    while ((n = read(d->fd, bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR)) {
        size_t room = d->out->max - d->out->len, got = n > 0 ? (size_t)n : 0;
        d->cut = d->cut || got > room;
        buf_append(d->out, bytes, got < room ? got : room);
    }
    return NULL;
}

static int diff_run(struct conversation *c, const struct chat_entry *entry, struct chat_result *ret,
                    struct error *err)
{
    int pair[2];
    pthread_t thread;
    int r = conversation_pending(c, ret, err);
    if (r < 0)
        return r;
    if (ret->changes.count == 0)
        return buf_append_str(&ret->text, "No pending changes.\n");
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot create a pipe");
    struct diff_reader reader = {.fd = pair[0], .out = &ret->diff};
    r = -pthread_create(&thread, NULL, diff_read_thread, &reader);
    if (r < 0) {
        close(pair[0]);
        close(pair[1]);
        return error_errno(err, -r, "cannot start a thread");
    }
    r = agent_diff(c->agent, pair[1], err);
    close(pair[1]);
    pthread_join(thread, NULL);
    close(pair[0]);
    if (r < 0)
        return r;
    summary_of_changes(&ret->changes, &ret->text);
    return buf_append_str(&ret->text,
                          reader.cut ? " (only the first part of the diff is shown)\n" : "\n");
}

const struct chat_command CHAT_DIFF = {.name = "diff",
                                       .args = "",
                                       .help = "show the pending changes",
                                       .flags = CHAT_REVIEWS,
                                       .run = diff_run};

/* Applying and syncing. */

struct tally {
    struct buf *out;
    size_t done, conflicts, refused, notes;
};

static void apply_on_path(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct tally *t = data;
    t->done += outcome == APPLY_DONE || outcome == APPLY_MERGED;
    t->conflicts += outcome == APPLY_CONFLICT;
    t->refused += outcome == APPLY_REFUSED;
    if (outcome == APPLY_MERGED)
        buf_printf(t->out, "merged: %s (your changes and the box's)\n", path);
    else if (outcome == APPLY_CONFLICT)
        buf_printf(t->out, "conflict: %s: %s\n", path,
                   why ? why : "changed in your folder and in the box");
    else if (outcome == APPLY_REFUSED)
        buf_printf(t->out, "not applied: %s: %s\n", path, why ? why : "refused");
}

static void apply_on_note(void *data, const char *line)
{
    struct tally *t = data;
    t->notes++;
    buf_printf(t->out, "%s\n", line);
}

/* Splits the PATHs of the command: they stand between blanks; a pending path with blanks in it
 * stands alone. /apply refuses a path without a pending change in it. */
static int apply_paths(struct conversation *c, char *text, bool apply, const char **paths,
                       size_t *ret_n, struct error *err)
{
    struct agent_changes pending = {0};
    bool whole = false;
    size_t n = 0;
    int r = agent_changes(c->agent, &pending, err);
    for (size_t i = 0; i < pending.count; i++)
        whole = whole || strcmp(pending.items[i].path, text) == 0;
    if (whole)
        paths[n++] = text;
    for (char *rest = whole ? NULL : text, *word; n < PATHS_MAX && (word = strsep(&rest, " \t\n"));)
        if (*word)
            paths[n++] = word;
    for (size_t i = 0; r == 0 && apply && i < n; i++) {
        size_t length = strlen(paths[i]), k = 0;
        while (length > 0 && paths[i][length - 1] == '/')
            length--;
        for (; k < pending.count; k++) {
            const char *p = pending.items[k].path;
            if (strncmp(p, paths[i], length) == 0 && (p[length] == 0 || p[length] == '/'))
                break;
        }
        if (k == pending.count)
            r = error_set(err, ENOENT, "no pending change in '%s'; /diff shows the changes",
                          paths[i]);
    }
    agent_changes_free(&pending);
    *ret_n = n;
    return r;
}

/* Of /apply and /sync. */
static int apply_run(struct conversation *c, const struct chat_entry *entry,
                     struct chat_result *ret, struct error *err)
{
    const char *paths[PATHS_MAX];
    bool apply = entry->command == &CHAT_APPLY;
    struct buf *out = &ret->text;
    struct tally t = {.out = out};
    struct tool_apply_options how = {.files = {.on_conflict = (enum apply_choice)entry->n,
                                               .allow_git_dirs = c->o->allow_git_dirs,
                                               .paths = paths},
                                     .report = {.say = apply_on_path, .data = &t},
                                     .note = apply_on_note,
                                     .data = &t};
    _cleanup_free_ char *text = entry->text ? strdup(entry->text) : NULL;
    int r = entry->text && !text ? error_set(err, ENOMEM, "no memory") : 0;
    if (text)
        r = apply_paths(c, text, apply, paths, &how.files.n_paths, err);
    if (r == 0)
        r = apply ? agent_apply(c->agent, &how, err)
                  : agent_sync(c->agent, &how.files, &how.report, err);
    if (r < 0)
        return r;
    size_t left = t.conflicts + t.refused;
    const char *plural = t.done == 1 ? "" : "s";
    if (apply && left)
        buf_printf(out, "Applied %zu change%s; %zu not applied, still in the box.\n", t.done,
                   plural, left);
    else if (apply && t.done)
        buf_printf(out, "Applied %zu change%s to your folder.\n", t.done, plural);
    else if (t.done)
        buf_printf(out, "Synced %zu file%s from your folder into the box.\n", t.done, plural);
    else if (!apply && !left)
        buf_append_str(out, "The box already has the changes of your folder.\n");
    if (t.conflicts)
        buf_printf(out,
                   "Resolve with /%s mine, theirs or markers, and PATH for one of them: your "
                   "version, the box's, or both between conflict markers.\n",
                   entry->command->name);
    r = conversation_pending(c, ret, err);
    if (r == 0 && apply && !left && !t.done && !t.notes)
        buf_append_str(out,
                       ret->changes.count ? "Nothing was applied.\n" : "No pending changes.\n");
    return r;
}

const struct chat_command CHAT_APPLY = {.name = "apply",
                                        .args = "[CHOICE] [PATH]",
                                        .help =
                                            "apply the changes; CHOICE: mine, theirs or markers",
                                        .takes = ARGS_CHOICE,
                                        .completes = COMPLETES_CHOICES,
                                        .busy = "applying",
                                        .run = apply_run};

const struct chat_command CHAT_SYNC = {.name = "sync",
                                       .args = "[CHOICE] [PATH]",
                                       .help = "bring the changes of your folder into the box",
                                       .takes = ARGS_CHOICE,
                                       .completes = COMPLETES_CHOICES,
                                       .flags = CHAT_CHANGES_FILES,
                                       .busy = "syncing",
                                       .run = apply_run};

/* The names of files, for completion. */
static int file_names_run(struct conversation *c, const struct chat_entry *entry,
                          struct chat_result *ret, struct error *err)
{
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    struct tool_session *tools = conversation_tools(c, err);
    json_t *input = json_pack("{s:i}", "limit", FILES_MAX), *file;
    size_t i;
    if (!tools || !input) {
        json_decref(input);
        return -EIO;
    }
    tool_call(tools,
              &(struct tool_request){.tool = &TOOL_LIST_FILES,
                                     .input = input,
                                     .cancel = c->cancel,
                                     .patience_ms = PATIENCE_MS},
              &result);
    json_decref(input);
    ret->names = json_array();
    json_array_foreach(json_object_get(result.data, "entries"), i, file)
    {
        const char *path = json_get_string(file, "path");
        const char *type = json_get_string(file, "type");
        if (!path || !type || json_object_get(file, "path_base64"))
            continue;
        bool folder = strcmp(type, "folder") == 0 && path[0] && path[strlen(path) - 1] != '/';
        json_array_append_new(ret->names, json_sprintf("%s%s", path, folder ? "/" : ""));
    }
    return 0;
}

const struct chat_command CHAT_FILE_NAMES = {.run = file_names_run, .flags = CHAT_INTERNAL};
