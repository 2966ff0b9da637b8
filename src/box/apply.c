#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply.h"
#include "apply_file.h"
#include "apply_list.h"
#include "apply_merge.h"
#include "apply_spot.h"
#include "encoding.h"
#include "git_dirs.h"
#include "note.h"
#include "relpath.h"
#include "banned.h"

/* Beside the outcomes of box.h: something that is to be removed first is in the way. */
#define BLOCKED (APPLY_REFUSED + 1)

static const char WHY_GIT[] =
    "changes under .git are not applied: a hook or config there would run on the host";
static const char WHY_GIT_DIR[] = "its folder is or would become a git directory, whose "
                                  "configuration runs programs: look at it, then use "
                                  "--allow-git-dirs";
static const char WHY_CHANGED[] = "it changed in your folder since the box read it";
static const char WHY_DELETED[] = "it was deleted in your folder since the box read it";
static const char WHY_OTHER[] = "your folder has another file of that name now";
static const char WHY_MOVED[] = "its folder was replaced in your folder since the box read it";
static const char WHY_IN_PLACE[] = "something else is in its place in your folder";
static const char WHY_MODE[] = "its permissions changed in your folder, too";

/* What became of one item, and why. */
struct verdict {
    int outcome; /* an apply_outcome, BLOCKED, or a negative errno with the error set */
    const char *why;
};

static struct verdict verdict(int outcome, const char *why)
{
    return (struct verdict){.outcome = outcome, .why = why};
}

/* What a step of apply_file.h answered. */
static struct verdict verdict_of_step(int r, const char *why)
{
    return r > 0 ? verdict(APPLY_CONFLICT, why) : verdict(r < 0 ? r : APPLY_DONE, NULL);
}

/* Records what the folder has at a path now. `base` is taken over. */
static struct verdict record(struct apply *ap, const char *path, const struct identity *id,
                             struct seen_base *base, bool base_differs, int outcome,
                             struct error *err)
{
    int r = seen_set(ap->job->seen, path, id ? SEEN_KNOWN : SEEN_ABSENT, id, base, base_differs);
    if (r < 0 && r != -ENOSPC)
        return verdict(error_errno(err, -r, "cannot record the write"), NULL);
    return verdict(outcome, NULL);
}

/* Writes the box's version in place of what is there, or where nothing is. */
static struct verdict put_theirs(struct apply *ap, struct apply_spot *s,
                                 const struct changes_entry *e, const char *link_to,
                                 struct error *err)
{
    struct identity id;
    const char *why = NULL;
    const struct apply_content c = {.entry = e, .mode = e->mode, .link_to = link_to};
    int r = apply_put(ap, s->dir, e->path, &c, s->there ? &s->now : NULL, &id, &why, err);
    if (r != 0)
        return verdict_of_step(r, why);
    return record(ap, e->path, &id, apply_read_base(ap, s->dir, e->path, &id), false, APPLY_DONE,
                  err);
}

/* Writes merged bytes to the folder and, later, to the box. Until the box has them, the common
 * ancestor of both is the box's version. */
static struct verdict put_merged(struct apply *ap, struct apply_spot *s,
                                 const struct changes_entry *e, struct apply_merged *m, int outcome,
                                 const char *said, struct error *err)
{
    struct identity id;
    const char *why = NULL;
    const struct apply_content c = {.entry = e, .mode = S_IFREG | m->mode, .bytes = m->bytes};
    int r = apply_put(ap, s->dir, e->path, &c, &s->now, &id, &why, err);
    if (r != 0)
        return verdict_of_step(r, why);
    struct verdict v = record(ap, e->path, &id, seen_base_ref(m->theirs), true, outcome, err);
    if (v.outcome >= 0 && box_edits_add(ap->job->edits, BOX_EDIT_BYTES, e->path, m->mode,
                                        seen_base_ref(m->bytes), &id) < 0)
        return verdict(error_errno(err, ENOMEM, "cannot merge"), NULL);
    v.why = said;
    return v;
}

/* The person chose their version: the box gets it. */
static struct verdict keep_mine(struct apply *ap, const struct apply_spot *s, struct error *err)
{
    enum box_edit_kind kind = s->there ? BOX_EDIT_FOLDER : BOX_EDIT_GONE;
    if (s->there && !S_ISREG(s->now.mode) && !S_ISLNK(s->now.mode))
        return verdict(
            APPLY_CONFLICT,
            "your version is neither a file nor a link: it cannot be copied into the box");
    if (box_edits_add(ap->job->edits, kind, s->path, 0, NULL, s->there ? &s->now : NULL) < 0)
        return verdict(error_errno(err, ENOMEM, "cannot keep your version"), NULL);
    return verdict(APPLY_SAME, "kept your version, and gave it to the box");
}

/* A conflict on a file or link that the box has: what the options say about it. */
static struct verdict resolve_file(struct apply *ap, struct apply_spot *s,
                                   const struct changes_entry *e, struct apply_merged *m,
                                   const char *why, struct error *err)
{
    switch (ap->job->options->on_conflict) {
    case APPLY_MINE:
        return keep_mine(ap, s, err);
    case APPLY_THEIRS:
        if (s->there && S_ISDIR(s->now.mode))
            break;
        return put_theirs(ap, s, e, NULL, err);
    case APPLY_MARKERS:
        if (m && m->bytes)
            return put_merged(ap, s, e, m, APPLY_MERGED, "with conflict markers", err);
        break;
    case APPLY_REPORT:
        break;
    }
    return verdict(APPLY_CONFLICT, why);
}

/* Somebody else's version is in the place: it may be the same, or one that can be merged. */
static struct verdict settle_file(struct apply *ap, struct apply_spot *s,
                                  const struct changes_entry *e, struct error *err)
{
    int same = apply_is_same(ap, s->dir, e, &s->now, err);
    if (same < 0)
        return verdict(same, NULL);
    if (same)
        return record(ap, e->path, &s->now, apply_read_base(ap, s->dir, e->path, &s->now), false,
                      APPLY_SAME, err);
    _cleanup_(apply_merged_free) struct apply_merged m = {0};
    const struct seen_entry *base = s->state == SEEN_KNOWN && s->parent_seen ? s->seen : NULL;
    int r = apply_merge(ap, s->dir, e, &s->now, base, &m, err);
    if (r < 0)
        return verdict(r, NULL);
    if (r == APPLY_MERGE_CLEAN)
        return put_merged(ap, s, e, &m, APPLY_MERGED, NULL, err);
    if (r == APPLY_MERGE_ONLY_BOX)
        return put_theirs(ap, s, e, NULL, err);
    if (r == APPLY_MERGE_ONLY_FOLDER) /* the box changed nothing since the last merge */
        return verdict(APPLY_SAME, NULL);
    const char *why = s->parent_replaced                                 ? WHY_MOVED
                      : s->state == SEEN_KNOWN                           ? WHY_CHANGED
                      : e->kind == WIRE_ADDED || s->state == SEEN_ABSENT ? WHY_OTHER
                                                                         : WHY_CHANGED;
    if (r == APPLY_MERGE_MODE)
        why = WHY_MODE;
    return resolve_file(ap, s, e, &m, why, err);
}

static struct verdict put_file(struct apply *ap, const struct changes_entry *e, const char *link_to,
                               struct error *err)
{
    _cleanup_(apply_spot_close) struct apply_spot s = {.dir = -1};
    bool force = ap->job->options->on_conflict == APPLY_THEIRS;
    int r = apply_spot_open(ap, e->path, force, &s, err);
    if (r == -ENOTDIR || r == -ELOOP)
        return verdict(BLOCKED, NULL);
    if (r == -ENOENT && ap->job->options->on_conflict == APPLY_MINE)
        return keep_mine(ap, &(struct apply_spot){.path = e->path}, err);
    if (r == -ENOENT)
        return verdict(APPLY_CONFLICT, WHY_DELETED);
    if (r < 0)
        return verdict(r, NULL);
    if (s.there && S_ISDIR(s.now.mode))
        return verdict(BLOCKED, NULL);
    if (!s.there && s.state == SEEN_KNOWN && !S_ISDIR(s.seen->id.mode))
        return resolve_file(ap, &s, e, NULL, WHY_DELETED, err);
    if (!s.there && s.parent_replaced)
        return resolve_file(ap, &s, e, NULL, WHY_MOVED, err);
    if (!s.there || (apply_spot_is_seen(&s) && !s.seen->base_differs))
        return put_theirs(ap, &s, e, link_to, err);
    return settle_file(ap, &s, e, err);
}

/* A folder that the box added, or whose permissions it changed. Modes are set at the end
 * (settle_modes). */
static struct verdict put_folder(struct apply *ap, const struct changes_entry *e, struct error *err)
{
    _cleanup_(apply_spot_close) struct apply_spot s = {.dir = -1};
    const char *why = NULL;
    int r = apply_spot_open(ap, e->path, false, &s, err);
    if (r == -ENOTDIR || r == -ELOOP)
        return verdict(BLOCKED, NULL);
    if (r == -ENOENT)
        return verdict(APPLY_CONFLICT, WHY_DELETED);
    if (r < 0)
        return verdict(r, NULL);
    if (s.there && !S_ISDIR(s.now.mode))
        return verdict(BLOCKED, NULL);
    if (!s.there && (e->kind == WIRE_MODIFIED || s.parent_replaced))
        return verdict(APPLY_CONFLICT, s.parent_replaced ? WHY_MOVED : WHY_DELETED);
    if (!s.there) {
        r = apply_make_dir(ap, s.dir, e->path, &why, err);
        if (r == 0)
            r = identity_get(s.dir, relpath_name(e->path), &s.now);
        return r != 0 ? verdict_of_step(r, why)
                      : record(ap, e->path, &s.now, NULL, false, APPLY_DONE, err);
    }
    if (e->kind == WIRE_ADDED || (s.now.mode & 0777) == (e->mode & 0777))
        return verdict(APPLY_SAME, NULL);
    bool mine = !apply_spot_is_seen(&s) || (s.now.mode & 0777) != (s.seen->id.mode & 0777);
    if (mine && ap->job->options->on_conflict != APPLY_THEIRS)
        return verdict(APPLY_CONFLICT, apply_spot_is_seen(&s) ? WHY_MODE : WHY_MOVED);
    r = apply_set_dir_mode(ap, e->path, e->mode, &s.now, err);
    if (r < 0)
        return verdict(r, NULL);
    s.now.mode = (s.now.mode & ~(mode_t)0777) | (e->mode & 0777);
    return record(ap, e->path, &s.now, NULL, false, APPLY_DONE, err);
}

static struct verdict take_away(struct apply *ap, const struct changes_entry *e, struct error *err)
{
    _cleanup_(apply_spot_close) struct apply_spot s = {.dir = -1};
    enum apply_choice choice = ap->job->options->on_conflict;
    const char *why = NULL;
    int r = apply_spot_open(ap, e->path, false, &s, err);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || (r == 0 && !s.there))
        return record(ap, e->path, NULL, NULL, false, APPLY_SAME, err);
    if (r < 0)
        return verdict(r, NULL);
    bool folder = S_ISDIR(s.now.mode);
    if (!apply_spot_is_seen(&s)) {
        why = s.parent_replaced ? WHY_MOVED : WHY_CHANGED;
        if (choice == APPLY_MINE && !folder)
            return keep_mine(ap, &s, err);
        if (choice != APPLY_THEIRS || folder)
            return verdict(APPLY_CONFLICT, why);
    }
    r = apply_remove(ap, s.dir, e->path, &s.now, &why, err);
    return r != 0 ? verdict_of_step(r, why)
                  : record(ap, e->path, NULL, NULL, false, APPLY_DONE, err);
}

/* Files with several names: the first that is written, others are linked to. */
struct link_group {
    uint64_t number;
    const char *path;
};

static int link_compare(const void *a, const void *b)
{
    const struct link_group *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static const char *links_find(void *const *tree, uint64_t number)
{
    const struct link_group key = {.number = number};
    struct link_group **found = number ? tfind(&key, tree, link_compare) : NULL;
    return found ? (*found)->path : NULL;
}

static void links_add(void **tree, uint64_t number, const char *path)
{
    struct link_group *g = number ? malloc(sizeof *g) : NULL;
    if (!g)
        return; /* then the next name becomes a file of its own */
    *g = (struct link_group){.number = number, .path = path};
    struct link_group **found = tsearch(g, tree, link_compare);
    if (!found || *found != g)
        free(g);
}

static struct verdict judge(struct apply *ap, const struct apply_item *i, void **links,
                            struct error *err)
{
    const struct changes_entry *e = &i->e;
    if (relpath_touches_git(e->path))
        return verdict(APPLY_REFUSED, WHY_GIT);
    if (e->kind == WIRE_DELETED)
        return take_away(ap, e, err);
    if (ap->git_dirs && git_dirs_refuse(ap->git_dirs, e->path))
        return verdict(APPLY_REFUSED, WHY_GIT_DIR);
    if (S_ISDIR(e->mode))
        return put_folder(ap, e, err);
    if (!S_ISREG(e->mode) && !S_ISLNK(e->mode))
        return verdict(APPLY_REFUSED, "only files, links and folders are applied");
    struct verdict v = put_file(ap, e, links_find(links, e->link), err);
    if (v.outcome == APPLY_DONE)
        links_add(links, e->link, e->path);
    return v;
}

/* One item from its judgement to its report; counts what was not applied. */
static int settle_item(struct apply *ap, struct apply_item *i, void **links,
                       const struct apply_report *report, int *not_applied, struct error *err)
{
    struct verdict v = judge(ap, i, links, err);
    if (v.outcome < 0) {
        _cleanup_buf_ struct buf name = BUF_INIT(4 * RELPATH_MAX + 16);
        cquote_append(&name, "", i->e.path);
        const char *text = buf_cstr(&name);
        return error_wrap(err, "cannot apply %.300s", text ? text : "a file");
    }
    if (v.outcome == BLOCKED && !i->later) {
        i->later = true;
        return 0;
    }
    i->later = false;
    if (v.outcome == BLOCKED)
        v = verdict(APPLY_CONFLICT, WHY_IN_PLACE);
    if (i->silent && (v.outcome != APPLY_CONFLICT || i->e.kind == WIRE_DELETED))
        return 0;
    *not_applied += v.outcome == APPLY_CONFLICT || v.outcome == APPLY_REFUSED;
    if (report && report->say)
        report->say(report->data, i->e.path, (enum apply_outcome)v.outcome, v.why);
    return 0;
}

/* Folders that were made have a mode that lets them be filled; now they get their own, the deepest
 * first. */
static int settle_modes(struct apply *ap, const struct apply_list *list, struct error *err)
{
    for (size_t i = list->count; i-- > 0;) {
        const struct changes_entry *e = &list->at[i].e;
        const struct seen_entry *made = seen_find(ap->job->seen, e->path);
        if (e->kind != WIRE_ADDED || !S_ISDIR(e->mode) || !made || made->state != SEEN_KNOWN ||
            (made->id.mode & 0777) != 0700 || made->id.mode == e->mode)
            continue;
        int r = apply_set_dir_mode(ap, e->path, e->mode, NULL, err);
        if (r < 0)
            return r;
        struct identity id = made->id;
        id.mode = (id.mode & ~(mode_t)0777) | (e->mode & 0777);
        seen_set(ap->job->seen, e->path, SEEN_KNOWN, &id, NULL, false);
    }
    return 0;
}

/* First what comes, then what goes (the deepest first), then what had to wait for that. */
static int settle_all(struct apply *ap, struct apply_list *list, const struct apply_report *report,
                      struct error *err)
{
    int not_applied = 0, r = 0;
    void *links = NULL;
    const struct apply_options *o = ap->job->options;
    for (int pass = 0; pass < 3 && r >= 0; pass++)
        for (size_t n = 0; n < list->count && r >= 0; n++) {
            struct apply_item *i = &list->at[pass == 1 ? list->count - 1 - n : n];
            bool turn = pass == 2 ? i->later : (i->e.kind == WIRE_DELETED) == (pass == 1);
            if (turn && apply_is_selected(o, i->e.path))
                r = settle_item(ap, i, &links, report, &not_applied, err);
        }
    tdestroy(links, free);
    if (r >= 0)
        r = settle_modes(ap, list, err);
    return r < 0 ? r : not_applied;
}

static bool folder_has(void *data, const char *path)
{
    struct apply *ap = data;
    struct stat st;
    _cleanup_fd_ int dir = -1;
    int r = apply_open_parent(ap, path, false, &dir);
    return r == 0 && fstatat(dir, relpath_name(path), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int find_git_dirs(struct apply *ap, const struct apply_list *list, struct error *err)
{
    int r = 0;
    ap->git_dirs = git_dirs_new();
    for (size_t i = 0; ap->git_dirs && r == 0 && i < list->count; i++)
        if (list->at[i].e.kind != WIRE_DELETED)
            r = git_dirs_add(ap->git_dirs, list->at[i].e.path);
    if (!ap->git_dirs || r < 0)
        return error_errno(err, ENOMEM, "cannot apply the changes");
    git_dirs_settle(ap->git_dirs, folder_has, ap);
    return 0;
}

int apply_changes(const struct apply_job *job, const struct apply_report *report, struct error *err)
{
    _cleanup_(apply_list_free) struct apply_list list = {0};
    struct apply ap = {.job = job, .journal = APPLY_JOURNAL_NONE, .as_root = geteuid() == 0};
    int r = identity_get(job->folder, "", &ap.owner);
    if (r < 0)
        return error_errno(err, -r, "cannot look at the folder");
    if (job->journal)
        r = apply_journal_open(&ap.journal, job->folder, err);
    if (r == 0)
        r = apply_list_read(job, true, &list, err);
    if (r == 0 && !job->options->allow_git_dirs)
        r = find_git_dirs(&ap, &list, err);
    if (r == 0)
        r = settle_all(&ap, &list, report, err);
    git_dirs_free(ap.git_dirs);
    apply_journal_close(&ap.journal);
    return r;
}
