/* The calls of box.h that compare a box with its folder: note, apply, sync. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "applied_log.h"
#include "apply.h"
#include "local_box.h"
#include "note.h"
#include "sync.h"
#include "banned.h"

static const struct apply_options DEFAULTS = {0};

static int connect_worker(void *worker, int *ret_fd)
{
    return machine_connect(worker, NULL, ret_fd);
}

void box_track(struct box *b)
{
    b->tracks = b->mode == BOX_COW && b->folder >= 0;
}

/* The person may have removed the folder and made it again: then the box's base is a folder without
 * a name, and a new one is not what the box worked on. *ret: the folder to work on. */
static int folder_open(const struct box *b, const struct apply_options *o, int *ret,
                       struct error *err)
{
    struct identity ours, now;
    if (b->folder < 0)
        return error_set(err, EINVAL, "this box has no folder to apply its changes to");
    if (b->mode != BOX_COW)
        return box_require_cow(b, err);
    int r = identity_get(b->folder, "", &ours);
    if (r < 0)
        return error_errno(err, -r, "cannot look at the folder %s", b->workspace);
    _cleanup_fd_ int fd = open(b->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool same = fd >= 0 && identity_get(fd, "", &now) == 0 && identity_same_inode(&ours, &now);
    if (!same && fd < 0)
        return error_set(
            err, ESTALE,
            "the folder %s was removed or moved since the box started; the box's changes are still "
            "in the box: see them with 'hutch box diff', save them with 'hutch box diff ID >FILE'",
            b->workspace);
    if (!same && !o->replaced_folder)
        return error_set(
            err, ESTALE,
            "the folder %s was replaced since the box started, and what it held is gone; the box's "
            "changes are still in the box: see them with 'hutch box diff', or write them to the "
            "new "
            "folder with 'hutch box apply --new-folder ID'",
            b->workspace);
    *ret = TAKE_FD(fd);
    return 0;
}

int box_view_note(struct box_view *v, struct error *err)
{
    struct box *b = v->box;
    _cleanup_fd_ int conn = -1;
    if (b->folder < 0)
        return 0;
    int r = seen_own(&b->seen);
    if (r == 0)
        r = connect_worker(v->diff_worker, &conn);
    if (r < 0)
        return error_errno(err, -r, "cannot record what the folder has");
    return note_touched(b->seen, b->folder, b->fresh_ns, conn, err);
}

/* Notes, and as no process has anything open, everything is looked up anew from now on. */
static int box_view_note_fresh(struct box_view *v, struct error *err)
{
    int r = box_view_note(v, err);
    if (r == 0 && v->alone)
        v->box->fresh_ns = v->began_ns;
    return r;
}

int local_note_seen(struct box *b, struct error *err)
{
    struct box_view v;
    struct usage now;
    if (!b->tracks || box_wait(b, NULL) < 0)
        return 0;
    machine_usage(b->machine, USAGE_DISK_STATE, &now);
    if (now.disk_state == b->noted_disk_state)
        return 0;
    int r = box_view_open(b, NULL, -1, &v, err);
    if (r < 0)
        return r;
    r = box_view_note_fresh(&v, err);
    if (r == 0)
        b->noted_disk_state = now.disk_state;
    box_view_close(&v);
    return r;
}

/* Apply and sync are the same but for their direction: the box stands still, what it saw is noted,
 * the folder and the box are compared, and what the box gets is written once its processes go on.
 */
static int box_exchange(struct box *b, bool apply, const struct apply_options *o,
                        const struct apply_report *report, struct error *err)
{
    struct box_view v;
    struct box_edits edits = {0};
    _cleanup_fd_ int folder = -1;
    o = o ? o : &DEFAULTS;
    int r = folder_open(b, o, &folder, err);
    if (r == 0 && apply && !b->log && !(b->log = applied_log_new()))
        r = error_errno(err, ENOMEM, "cannot apply the changes");
    if (r == 0) {
        box_time_after_now(); /* then what the person just saved counts as older than what follows
                               */
        r = box_view_open(b, NULL, -1, &v, err);
    }
    if (r < 0)
        return r;
    r = box_view_note_fresh(&v, err);
    const struct apply_job job = {.folder = folder,
                                  .seen = b->seen,
                                  .log = apply ? b->log : NULL,
                                  .options = o,
                                  .connect = connect_worker,
                                  .data = v.diff_worker,
                                  .bytes_max = apply ? b->limits.disk : 0,
                                  .journal = apply,
                                  .edits = &edits};
    if (r == 0)
        r = apply ? apply_changes(&job, report, err) : sync_folder(&job, report, err);
    box_view_close(&v);
    int written = edits.count ? box_edits_write(b, folder, &edits, r < 0 ? NULL : err) : 0;
    box_edits_free(&edits);
    return r >= 0 && written < 0 ? written : r;
}

int local_apply(struct box *b, const struct apply_options *o, const struct apply_report *report,
                struct error *err)
{
    return box_exchange(b, true, o, report, err);
}

int local_sync(struct box *b, const struct apply_options *o, const struct apply_report *report,
               struct error *err)
{
    return box_exchange(b, false, o, report, err);
}
