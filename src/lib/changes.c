/* What became of a box's files: changes, diff, apply, snapshots, forks. One thread at a time for
 * each box. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec_result.h"
#include "entry.h"
#include "lib_box.h"
#include "tool_apply.h"
#include "tool.h"
#include "banned.h"

#define DIFF_MAX (256u << 20)

/* The beginning of every call here: the owner's lock is held if it succeeds. */
static int changes_begin(struct entry *e, hutch_box *b, const void *ret, const char *name,
                         struct hutch_error *out)
{
    int r = entry_begin(e, b, HANDLE_BOX, out);
    if (r == 0)
        r = entry_need(e, ret, name);
    if (r == 0)
        pthread_mutex_lock(&b->owner);
    return r;
}

static int changes_end(struct entry *e, hutch_box *b, int r)
{
    pthread_mutex_unlock(&b->owner);
    return entry_end(e, r);
}

int hutch_box_changes(hutch_box *b, char **ret_list, struct hutch_error *err)
{
    struct entry e;
    struct box_changes changes = {0};
    int r = changes_begin(&e, b, ret_list, "ret_list", err);
    if (r < 0)
        return entry_end(&e, r);
    r = box_changes(b->box, &changes, &e.error);
    if (r == 0)
        r = json_give(changes_json(&changes), ret_list, &e.error);
    box_changes_free(&changes);
    return changes_end(&e, b, r);
}

/* A file in memory that takes so many bytes and not one more. */
static int diff_open_file(size_t size, struct error *err)
{
    _cleanup_fd_ int fd = memfd_create("hutch-diff", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
        return error_errno(err, errno, "cannot keep the diff");
    return TAKE_FD(fd);
}

static int diff_read(int fd, char **ret, size_t *ret_size, struct error *err)
{
    off_t size = lseek(fd, 0, SEEK_CUR);
    _cleanup_free_ char *bytes = size < 0 ? NULL : malloc((size_t)size + 1);
    if (!bytes)
        return error_set(err, ENOMEM, "no memory for the diff");
    for (off_t done = 0; done < size;) {
        ssize_t n = pread(fd, bytes + done, (size_t)(size - done), done);
        if (n < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot read the diff");
        done += n > 0 ? n : 0;
    }
    bytes[size] = 0;
    *ret_size = (size_t)size;
    *ret = TAKE_PTR(bytes);
    return 0;
}

static int changes_diff(hutch_box *b, char **ret, size_t *ret_size, struct error *err)
{
    _cleanup_fd_ int fd = diff_open_file(DIFF_MAX, err);
    int r = fd < 0 ? fd : box_diff(b->box, false, fd, err);
    if (r == -EPERM) /* what a seal says */
        return error_set(err, EFBIG, "the diff is larger than %u MiB; ask for the changes instead",
                         DIFF_MAX >> 20);
    return r < 0 ? r : diff_read(fd, ret, ret_size, err);
}

int hutch_box_diff(hutch_box *b, char **ret_diff, size_t *ret_size, struct hutch_error *err)
{
    struct entry e;
    size_t size = 0;
    int r = changes_begin(&e, b, ret_diff, "ret_diff", err);
    if (r < 0)
        return entry_end(&e, r);
    r = changes_diff(b, ret_diff, &size, &e.error);
    if (r == 0 && ret_size)
        *ret_size = size;
    return changes_end(&e, b, r);
}

struct applied {
    json_int_t done;
    json_t *conflicts, *refused, *notes;
};

static void changes_note(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct applied *a = data;
    a->done += outcome == APPLY_DONE || outcome == APPLY_MERGED;
    if (outcome != APPLY_CONFLICT && outcome != APPLY_REFUSED)
        return;
    bool conflict = outcome == APPLY_CONFLICT;
    const char *text = why        ? why
                       : conflict ? "it changed in your folder since the box read it"
                                  : "refused";
    json_array_append_new(
        conflict ? a->conflicts : a->refused,
        json_pack("{s:o, s:s}", "path", text_json(path, strlen(path)), "why", text));
}

static void changes_note_line(void *data, const char *line)
{
    struct applied *a = data;
    json_array_append_new(a->notes, text_json(line, strlen(line)));
}

int hutch_box_apply(hutch_box *b, char **ret_report, struct hutch_error *err)
{
    struct entry e;
    int r = changes_begin(&e, b, ret_report, "ret_report", err);
    if (r < 0)
        return entry_end(&e, r);
    struct applied a = {.conflicts = json_array(), .refused = json_array(), .notes = json_array()};
    const struct tool_apply_options how = {
        .report = {.say = changes_note, .data = &a}, .note = changes_note_line, .data = &a};
    r = tool_apply(b->box, &how, &e.error);
    json_t *report = json_pack("{s:I, s:o, s:o, s:o}", "applied", a.done, "conflicts", a.conflicts,
                               "refused", a.refused, "notes", a.notes);
    if (r >= 0)
        r = json_give(report, ret_report, &e.error);
    else
        json_decref(report);
    return changes_end(&e, b, r);
}

static int snapshot_take(hutch_box *b, hutch_snapshot **ret, struct error *err)
{
    _cleanup_free_ hutch_snapshot *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    s->handle = handle_new(HANDLE_SNAPSHOT);
    int r = box_snapshot(b->box, &s->snapshot, err);
    if (r == 0)
        *ret = TAKE_PTR(s);
    return r;
}

int hutch_box_snapshot(hutch_box *b, hutch_snapshot **ret, struct hutch_error *err)
{
    struct entry e;
    int r = changes_begin(&e, b, ret, "ret", err);
    if (r < 0)
        return entry_end(&e, r);
    return changes_end(&e, b, snapshot_take(b, ret, &e.error));
}

void hutch_snapshot_free(hutch_snapshot *s)
{
    struct entry e;
    entry_begin_plain(&e, NULL);
    if (handle_close(s, HANDLE_SNAPSHOT, NULL)) {
        snapshot_free(s->snapshot);
        free(s);
    }
    entry_end(&e, 0);
}

static int snapshot_fork(struct snapshot *s, hutch_box **ret, struct error *err)
{
    struct box *box = NULL;
    int r = box_fork(s, &box, err);
    return r < 0 ? r : box_handle(box, ret, err);
}

int hutch_snapshot_fork(hutch_snapshot *s, hutch_box **ret, struct hutch_error *err)
{
    struct entry e;
    int r = entry_begin(&e, s, HANDLE_SNAPSHOT, err);
    if (r == 0)
        r = entry_need(&e, ret, "ret");
    if (r == 0)
        r = snapshot_fork(s->snapshot, ret, &e.error);
    return entry_end(&e, r);
}

int hutch_box_fork(hutch_box *b, hutch_box **ret, struct hutch_error *err)
{
    struct entry e;
    struct snapshot *s = NULL;
    int r = changes_begin(&e, b, ret, "ret", err);
    if (r < 0)
        return entry_end(&e, r);
    r = box_snapshot(b->box, &s, &e.error);
    if (r == 0)
        r = snapshot_fork(s, ret, &e.error);
    snapshot_free(s);
    return changes_end(&e, b, r);
}
