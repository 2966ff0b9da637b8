#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply_list.h"
#include "apply_merge.h"
#include "apply_spot.h"
#include "relpath.h"
#include "sync.h"
#include "banned.h"

static const char WHY_BOTH[] = "you and the box changed it";
static const char WHY_YOU_DELETED[] = "you deleted it, and the box changed it";
static const char WHY_BOX_DELETED[] = "you changed it, and the box deleted it";

struct sync {
    struct apply ap;
    const struct apply_report *report;
    int conflicts;
};

static void sync_say(struct sync *y, const char *path, enum apply_outcome outcome, const char *why)
{
    y->conflicts += outcome == APPLY_CONFLICT;
    if (y->report && y->report->say)
        y->report->say(y->report->data, path, outcome, why);
}

/* The box keeps its version, and the next apply writes it over what the folder has now. */
static int sync_keep_box(struct sync *y, const struct apply_spot *s)
{
    struct seen_base *base = s->there ? apply_read_base(&y->ap, s->dir, s->path, &s->now) : NULL;
    int r = seen_set(y->ap.job->seen, s->path, s->there ? SEEN_KNOWN : SEEN_ABSENT, &s->now, base,
                     false);
    return r == -ENOSPC ? 0 : r;
}

/* Gives the box the folder's version: a file, a link, or nothing. */
static int sync_give(struct sync *y, const struct apply_spot *s)
{
    return box_edits_add(y->ap.job->edits, s->there ? BOX_EDIT_FOLDER : BOX_EDIT_GONE, s->path, 0,
                         NULL, s->there ? &s->now : NULL);
}

static int sync_resolve(struct sync *y, const struct apply_spot *s, struct apply_merged *m,
                        const char *why)
{
    int r = 0;
    switch (y->ap.job->options->on_conflict) {
    case APPLY_MINE:
        r = sync_give(y, s);
        sync_say(y, s->path, APPLY_DONE, "the box has your version now");
        return r;
    case APPLY_THEIRS:
        r = sync_keep_box(y, s);
        sync_say(y, s->path, APPLY_SAME, "the box keeps its version");
        return r;
    case APPLY_MARKERS:
        if (!m || !m->bytes)
            break;
        r = box_edits_add(y->ap.job->edits, BOX_EDIT_BYTES, s->path, m->mode,
                          seen_base_ref(m->bytes), &s->now);
        sync_say(y, s->path, APPLY_MERGED, "with conflict markers");
        return r;
    case APPLY_REPORT:
        break;
    }
    sync_say(y, s->path, APPLY_CONFLICT, why);
    return 0;
}

/* Both have a version, and the folder's is not the one that the box saw. */
static int sync_both(struct sync *y, const struct changes_entry *e, const struct apply_spot *s,
                     struct error *err)
{
    _cleanup_(apply_merged_free) struct apply_merged m = {0};
    int r = apply_is_same(&y->ap, s->dir, e, &s->now, err);
    if (r != 0)
        return r < 0 ? r : sync_keep_box(y, s);
    const struct seen_entry *seen = s->state == SEEN_KNOWN && s->parent_seen ? s->seen : NULL;
    r = apply_merge(&y->ap, s->dir, e, &s->now, seen, &m, err);
    if (r < 0)
        return r;
    switch ((enum apply_merge_result)r) {
    case APPLY_MERGE_CLEAN:
        r = box_edits_add(y->ap.job->edits, BOX_EDIT_BYTES, s->path, m.mode, seen_base_ref(m.bytes),
                          &s->now);
        sync_say(y, s->path, APPLY_MERGED, NULL);
        return r;
    case APPLY_MERGE_ONLY_FOLDER:
        r = sync_give(y, s);
        sync_say(y, s->path, APPLY_DONE, NULL);
        return r;
    case APPLY_MERGE_ONLY_BOX:
        return sync_keep_box(y, s);
    case APPLY_MERGE_CONFLICT:
    case APPLY_MERGE_MODE:
        break;
    }
    return sync_resolve(y, s, &m, WHY_BOTH);
}

/* Did the box leave the content as it saw it? Then a deletion by the person wins. */
static bool sync_box_left_it(struct sync *y, const struct changes_entry *e,
                             const struct apply_spot *s)
{
    struct seen_base *theirs = NULL;
    if (!s->seen || !s->seen->base || !S_ISREG(e->mode) || e->size != s->seen->base->size ||
        apply_fetch(&y->ap, e, SEEN_CONTENT_MAX, &theirs, NULL) < 0)
        return false;
    bool same = seen_base_same(theirs, s->seen->base);
    seen_base_unref(theirs);
    return same;
}

static int sync_path(struct sync *y, const struct changes_entry *e, struct error *err)
{
    _cleanup_(apply_spot_close) struct apply_spot s = {.dir = -1, .path = e->path};
    int r = apply_spot_open(&y->ap, e->path, false, &s, err);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
        s.seen = seen_find(y->ap.job->seen, e->path);
        s.state = seen_state_of(y->ap.job->seen, e->path);
    } else if (r < 0) {
        return r;
    }
    if (apply_spot_is_seen(&s) && !s.seen->base_differs)
        return 0;
    if (e->kind == WIRE_DELETED)
        return s.there ? sync_resolve(y, &s, NULL, WHY_BOX_DELETED) : 0;
    if (s.there)
        return sync_both(y, e, &s, err);
    if (s.state != SEEN_KNOWN)
        return 0;
    if (!sync_box_left_it(y, e, &s))
        return sync_resolve(y, &s, NULL, WHY_YOU_DELETED);
    r = sync_give(y, &s);
    sync_say(y, e->path, APPLY_DONE, NULL);
    return r;
}

int sync_folder(const struct apply_job *job, const struct apply_report *report, struct error *err)
{
    _cleanup_(apply_list_free) struct apply_list list = {0};
    struct sync y = {.ap = {.job = job, .journal = APPLY_JOURNAL_NONE}, .report = report};
    int r = apply_list_read(job, false, &list, err);
    for (size_t i = 0; r == 0 && i < list.count; i++) {
        const struct changes_entry *e = &list.at[i].e;
        bool file = S_ISREG(e->mode) || S_ISLNK(e->mode);
        if (!file || relpath_touches_git(e->path) || !apply_is_selected(job->options, e->path))
            continue;
        r = sync_path(&y, e, err);
        if (r == -ENOMEM)
            error_errno(err, ENOMEM, "cannot sync %.300s", e->path);
    }
    return r < 0 ? r : y.conflicts;
}
