/*
 * Bringing the folder's present state into a box.
 *
 * A file that the box did not touch shows through from the folder, once the overlay has forgotten
 * the names it looked up, which opening a view makes it do. Here are the others: paths that the box
 * changed and the person changed, too. They are merged as in an apply, but it is the box that gets
 * the result.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply.h"
#include "relpath.h"
#include "banned.h"

/* The functions that decide about one path return an apply_outcome with ap->why, SYNC_SILENT if
 * there is nothing to report, or a negative errno. */
#define SYNC_SILENT (APPLY_REFUSED + 1)

static int sync_outcome(struct apply *ap, int r, int result, const char *why)
{
    ap->why = why;
    return r < 0 ? r : result;
}

/* The box keeps its version, and the next apply writes it over what the folder has now. */
static int sync_keep_box(struct apply *ap, const struct apply_path *p)
{
    struct seen_base *base =
        p->there ? seen_read_base(ap->seen, p->dir, relpath_name(p->path), &p->now) : NULL;
    int r = seen_set(ap->seen, p->path, p->there ? SEEN_KNOWN : SEEN_ABSENT, &p->now, base, false);
    return r == -ENOSPC ? 0 : r;
}

/* Gives the box the folder's version: a file, a link, or nothing. */
static int sync_give(struct apply *ap, const struct apply_path *p)
{
    return box_edits_add(&ap->edits, p->there ? BOX_EDIT_FOLDER : BOX_EDIT_GONE, p->path, 0, NULL,
                         p->there ? &p->now : NULL);
}

static int sync_give_merged(struct apply *ap, const struct apply_path *p,
                            const struct apply_merged *m)
{
    return box_edits_add(&ap->edits, BOX_EDIT_BYTES, p->path, m->mode, seen_base_ref(m->bytes),
                         &p->now);
}

static int sync_resolve(struct apply *ap, const struct apply_path *p, const struct apply_merged *m,
                        const char *why)
{
    enum apply_choice choice = ap->options->on_conflict;
    if (choice == APPLY_MINE)
        return sync_outcome(ap, sync_give(ap, p), APPLY_DONE, "the box has your version now");
    if (choice == APPLY_THEIRS)
        return sync_outcome(ap, sync_keep_box(ap, p), APPLY_SAME, "the box keeps its version");
    if (choice == APPLY_MARKERS && m && m->bytes)
        return sync_outcome(ap, sync_give_merged(ap, p, m), APPLY_MERGED, "with conflict markers");
    return sync_outcome(ap, 0, APPLY_CONFLICT, why);
}

static int sync_path(struct apply *ap, const struct changes_entry *e, struct error *err)
{
    _cleanup_(apply_path_close) struct apply_path p;
    _cleanup_(apply_merged_free) struct apply_merged m = {0};
    int r = apply_path_open(ap, e->path, false, &p, err);
    if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ELOOP)
        return r;
    if (apply_path_is_seen(&p) && !p.seen->base_differs)
        return SYNC_SILENT;
    if (e->kind == WIRE_DELETED)
        return p.there ? sync_resolve(ap, &p, NULL, "you changed it, and the box deleted it")
                       : SYNC_SILENT;
    if (!p.there && p.state != SEEN_KNOWN)
        return SYNC_SILENT;
    if (!p.there) {
        /* If the box left the content as it saw it, the person's deletion wins. */
        const struct seen_base *base = p.seen ? p.seen->base : NULL;
        bool left = base && S_ISREG(e->mode) && e->size == base->size &&
                    apply_fetch_base(ap, e, SEEN_CONTENT_MAX, &m.theirs, NULL) == 0 &&
                    seen_base_same(m.theirs, base);
        return left ? sync_outcome(ap, sync_give(ap, &p), APPLY_DONE, NULL)
                    : sync_resolve(ap, &p, NULL, "you deleted it, and the box changed it");
    }

    /* Both have a version, and the folder's is not the one that the box saw. */
    r = apply_is_same(ap, &p, e, err);
    if (r == 0)
        r = apply_merge(ap, &p, e, &m, err);
    else if (r > 0)
        r = APPLY_MERGE_ONLY_BOX;
    if (r < 0)
        return r;
    if (r == APPLY_MERGE_CLEAN)
        return sync_outcome(ap, sync_give_merged(ap, &p, &m), APPLY_MERGED, NULL);
    if (r == APPLY_MERGE_ONLY_FOLDER)
        return sync_outcome(ap, sync_give(ap, &p), APPLY_DONE, NULL);
    if (r == APPLY_MERGE_ONLY_BOX)
        return sync_outcome(ap, sync_keep_box(ap, &p), SYNC_SILENT, NULL);
    return sync_resolve(ap, &p, &m, "you and the box changed it");
}

int sync_folder(struct apply *ap, struct error *err)
{
    _cleanup_(apply_list_free) struct apply_list list = {0};
    int conflicts = 0, r = apply_list_read(ap, false, &list, err);
    ap->lock = ap->journal = -1;
    for (size_t i = 0; r >= 0 && i < list.count; i++) {
        const struct changes_entry *e = &list.at[i].e;
        bool file = S_ISREG(e->mode) || S_ISLNK(e->mode);
        if (!file || relpath_touches_git(e->path) || !apply_is_selected(ap->options, e->path))
            continue;
        ap->why = NULL;
        r = sync_path(ap, e, err);
        if (r == -ENOMEM)
            error_errno(err, ENOMEM, "cannot sync %.300s", e->path);
        conflicts += r == APPLY_CONFLICT;
        if (r >= 0 && r != SYNC_SILENT && ap->report)
            ap->report->say(ap->report->data, e->path, (enum apply_outcome)r, ap->why);
    }
    return r < 0 ? r : conflicts;
}
