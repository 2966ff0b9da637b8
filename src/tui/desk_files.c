/* The desk: what is pending, taking it back, and writing it to the person's folder. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "box.h"
#include "desk_private.h"
#include "session.h"
#include "banned.h"

int put_number(struct buf *out, uint64_t n)
{
    if (n < 1000)
        return buf_printf(out, "%" PRIu64, n);
    int r = put_number(out, n / 1000);
    return r < 0 ? r : buf_printf(out, ",%03u", (unsigned)(n % 1000));
}

int changes_summary(const struct agent_changes *c, struct buf *out)
{
    if (c->count == 0)
        return buf_append_str(out, c->commits ? "commits" : "nothing");
    put_number(out, c->count);
    buf_printf(out, " file%s, +", c->count == 1 ? "" : "s");
    put_number(out, c->added);
    buf_append_str(out, " −");
    return put_number(out, c->deleted);
}

int desk_changes(struct desk *d, struct answer *a, struct error *err)
{
    struct agent_changes now = {0};
    int r = agent_changes(d->agent, &now, err);
    if (r < 0)
        return r;
    agent_changes_free(&a->changes);
    a->changes = now;
    a->changes_known = true;
    return 0;
}

int desk_undo(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    unsigned n = j->n ? j->n : 1, turns = history_turns(agent_history(d->agent));
    if (turns == 0)
        return error_set(err, EINVAL, "nothing to undo: there was no turn yet");
    if (n > turns)
        return error_set(err, EINVAL, "there %s only %u turn%s to undo", turns == 1 ? "is" : "are",
                         turns, turns == 1 ? "" : "s");
    struct agent_undone undone;
    int r = agent_undo(d->agent, n, &undone, err);
    if (r < 0)
        return r;
    if (d->sink.redraws) {
        d->sink.anew(d->sink.data);
        r = desk_recall(d, err);
    }
    agent_undone_text(&undone, &a->text);
    return r < 0 ? r : desk_changes(d, a, err);
}

/* A diff may be as large as the box's disk: it comes through a pipe, and what is over the limit is
 * let go. */
struct drain {
    int fd;
    struct buf *to;
    bool cut;
};

static void *drain(void *data)
{
    struct drain *d = data;
    char bytes[16384];
    ssize_t n;
    while ((n = read(d->fd, bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR)) {
        size_t room = d->to->max - d->to->len, take = n > 0 && (size_t)n < room ? (size_t)n : room;
        if (n <= 0)
            continue;
        d->cut = d->cut || (size_t)n > room;
        buf_append(d->to, bytes, take);
    }
    return NULL;
}

static int read_diff(struct desk *d, struct buf *to, bool *ret_cut, struct error *err)
{
    int pair[2];
    pthread_t thread;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    struct drain drained = {.fd = pair[0], .to = to};
    int r = -pthread_create(&thread, NULL, drain, &drained);
    if (r < 0) {
        close(pair[0]);
        close(pair[1]);
        return error_errno(err, -r, "cannot start a thread");
    }
    r = agent_diff(d->agent, pair[1], err);
    close(pair[1]);
    pthread_join(thread, NULL);
    close(pair[0]);
    *ret_cut = drained.cut;
    return r;
}

int desk_diff(struct desk *d, struct answer *a, struct error *err)
{
    bool cut = false;
    int r = desk_changes(d, a, err);
    if (r < 0)
        return r;
    if (a->changes.count == 0)
        return buf_append_str(&a->text, "No pending changes.\n");
    r = read_diff(d, &a->diff, &cut, err);
    if (r < 0)
        return r;
    changes_summary(&a->changes, &a->text);
    return buf_append_str(&a->text, cut ? " (only the beginning of the diff is shown)\n" : "\n");
}

/* Applying and syncing. */

#define PATHS_MAX 256

struct tally {
    struct buf *out;
    size_t done, conflicts, refused, notes;
};

static void on_applied(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct tally *t = data;
    t->done += outcome == APPLY_DONE || outcome == APPLY_MERGED;
    t->conflicts += outcome == APPLY_CONFLICT;
    t->refused += outcome == APPLY_REFUSED;
    if (outcome == APPLY_MERGED)
        buf_printf(t->out, "merged: %s (your changes and the box's)\n", path);
    else if (outcome == APPLY_CONFLICT)
        buf_printf(t->out, "conflict: %s: %s\n", path,
                   why ? why : "it changed in your folder and in the box");
    else if (outcome == APPLY_REFUSED)
        buf_printf(t->out, "not applied: %s: %s\n", path, why ? why : "refused");
}

/* The paths of a command, which point into `text`. One that has blanks in it stands alone. */
static size_t split_paths(char *text, const struct agent_changes *pending,
                          const char *paths[PATHS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < pending->count; i++)
        if (strcmp(pending->items[i].path, text) == 0) {
            paths[0] = text;
            return 1;
        }
    for (char *word; n < PATHS_MAX && (word = strsep(&text, " \t\n"));)
        if (*word)
            paths[n++] = word;
    return n;
}

static bool is_pending(const struct agent_changes *pending, const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    for (size_t i = 0; i < pending->count; i++) {
        const char *p = pending->items[i].path;
        if (strncmp(p, path, n) == 0 && (p[n] == 0 || p[n] == '/'))
            return true;
    }
    return false;
}

static void on_apply_note(void *data, const char *line)
{
    struct tally *t = data;
    t->notes++;
    buf_printf(t->out, "%s\n", line);
}

/* Carries an apply or a sync out, with the choice and the paths that the command has. */
static int run_with_choice(struct desk *d, const struct job *j, struct tally *tally,
                           struct error *err)
{
    const char *paths[PATHS_MAX];
    struct agent_changes pending = {0};
    struct tool_apply_options how = {
        .files = {.on_conflict = (enum apply_choice)j->n, .allow_git_dirs = d->o->allow_git_dirs},
        .report = {.say = on_applied, .data = tally},
        .note = on_apply_note,
        .data = tally};
    _cleanup_free_ char *text = j->text ? strdup(j->text) : NULL;
    int r = j->text && !text ? error_set(err, ENOMEM, "no memory") : 0;
    if (r == 0 && text)
        r = agent_changes(d->agent, &pending, err);
    if (r == 0 && text) {
        how.files.n_paths = split_paths(text, &pending, paths);
        how.files.paths = paths;
    }
    for (size_t i = 0; r == 0 && j->kind == JOB_APPLY && i < how.files.n_paths; i++)
        if (!is_pending(&pending, paths[i]))
            r = error_set(err, ENOENT,
                          "there is no pending change in '%s'; /diff shows what there is",
                          paths[i]);
    agent_changes_free(&pending);
    if (r == 0)
        r = j->kind == JOB_APPLY ? agent_apply(d->agent, &how, err)
                                 : agent_sync(d->agent, &how.files, &how.report, err);
    return r < 0 ? r : 0;
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void put_choices(const struct tally *t, const char *command, struct buf *out)
{
    if (t->conflicts)
        buf_printf(out,
                   "Choose with /%s mine, theirs or markers, and PATH for one of them: the version "
                   "of your "
                   "folder, the box's, or both between conflict markers.\n",
                   command);
}

int desk_apply(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct tally t = {.out = &a->text};
    int r = run_with_choice(d, j, &t, err);
    if (r < 0)
        return r;
    size_t left = t.conflicts + t.refused;
    if (left)
        buf_printf(&a->text, "Applied %zu change%s; %zu not applied, still in the box.\n", t.done,
                   plural(t.done), left);
    else if (t.done)
        buf_printf(&a->text, "Applied %zu change%s to your folder.\n", t.done, plural(t.done));
    put_choices(&t, "apply", &a->text);
    r = desk_changes(d, a, err);
    if (r == 0 && !left && !t.done && !t.notes)
        buf_append_str(&a->text,
                       a->changes.count ? "Nothing was applied.\n" : "No pending changes.\n");
    return r;
}

int desk_sync(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct tally t = {.out = &a->text};
    int r = run_with_choice(d, j, &t, err);
    if (r < 0)
        return r;
    if (t.done)
        buf_printf(&a->text, "Synced %zu file%s from your folder into the box.\n", t.done,
                   plural(t.done));
    else if (!t.conflicts && !t.refused)
        buf_append_str(&a->text, "The box has your folder's changes already.\n");
    put_choices(&t, "sync", &a->text);
    return desk_changes(d, a, err);
}

/* Names for completion. */

#define FILES_MAX 20000

static void add_entry(json_t *names, const json_t *entry)
{
    const char *path = json_string_value(json_object_get(entry, "path"));
    const char *type = json_string_value(json_object_get(entry, "type"));
    if (!path || !type || json_object_get(entry, "path_base64"))
        return;
    bool folder = strcmp(type, "folder") == 0 && path[0] && path[strlen(path) - 1] != '/';
    json_array_append_new(names, json_sprintf("%s%s", path, folder ? "/" : ""));
}

int desk_files(struct desk *d, struct answer *a, struct error *err)
{
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    struct tool_session *tools = agent_tools(d->agent);
    json_t *input = json_pack("{s:i}", "limit", FILES_MAX), *entry;
    size_t i;
    if (!tools || !input) {
        json_decref(input);
        return error_set(err, EIO, "the files cannot be listed");
    }
    tool_call(tools,
              &(struct tool_request){
                  .name = "list_files", .input = input, .cancel = d->cancel, .patience_ms = 2000},
              &result);
    json_decref(input);
    a->names = json_array();
    json_array_foreach(json_object_get(result.data, "entries"), i, entry)
        add_entry(a->names, entry);
    return 0;
}
