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
        return buf_append_str(out, "nothing");
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
        return error_set(err, EINVAL, "there is nothing to take back: no turn was taken yet");
    if (n > turns)
        return error_set(err, EINVAL, "there %s only %u turn%s to take back", turns == 1 ? "is" : "are",
                         turns, turns == 1 ? "" : "s");
    int r = agent_undo(d->agent, n, err);
    if (r < 0)
        return r;
    if (d->sink.redraws) {
        d->sink.anew(d->sink.data);
        r = desk_recall(d, err);
    }
    if (n == 1)
        buf_printf(&a->text, "Turn %u is taken back, its files and its part of the conversation.\n", turns);
    else
        buf_printf(&a->text,
                   "Turns %u to %u are taken back, their files and their part of the conversation.\n",
                   turns - n + 1, turns);
    return r < 0 ? r : desk_changes(d, a, err);
}

/* A diff may be as large as the box's disk: it comes through a pipe, and what is over the limit is let go. */
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
        return buf_append_str(&a->text, "Nothing is changed that was not applied.\n");
    r = read_diff(d, &a->diff, &cut, err);
    if (r < 0)
        return r;
    changes_summary(&a->changes, &a->text);
    return buf_append_str(&a->text, cut ? " (only the beginning of the diff is shown)\n" : "\n");
}

/* Applying. */

struct tally {
    struct buf *out;
    size_t done, left;
};

static void on_applied(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct tally *t = data;
    t->done += outcome == APPLY_DONE;
    if (outcome != APPLY_CONFLICT && outcome != APPLY_REFUSED)
        return;
    t->left++;
    buf_printf(t->out, "%s: %s: %s\n", outcome == APPLY_CONFLICT ? "conflict" : "not applied", path,
               why                         ? why
               : outcome == APPLY_CONFLICT ? "it changed in your folder meanwhile"
                                           : "refused");
}

int desk_apply(struct desk *d, struct answer *a, struct error *err)
{
    struct tally tally = {.out = &a->text};
    int r = agent_apply(d->agent, &(struct apply_report){.say = on_applied, .data = &tally}, err);
    if (r < 0)
        return r;
    if (tally.left)
        buf_printf(&a->text, "Applied %zu change%s; %zu left alone, still in the box.\n", tally.done,
                   tally.done == 1 ? "" : "s", tally.left);
    else if (tally.done)
        buf_printf(&a->text, "Applied %zu change%s to your folder.\n", tally.done,
                   tally.done == 1 ? "" : "s");
    else
        buf_append_str(&a->text, "There is nothing to apply.\n");
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
    json_array_foreach(json_object_get(result.data, "entries"), i, entry) add_entry(a->names, entry);
    return 0;
}
