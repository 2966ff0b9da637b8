/*
 * Which of a box's changes are written to the folder, and in which order.
 *
 * What is new and changed is written before what is gone is removed, so that a file the box moved
 * is never nowhere; only where one has to make room for the other (a file became a folder) it is
 * the other way round.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply.h"
#include "encoding.h"
#include "git_dirs.h"
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

/* The functions that decide about one path return its outcome, with ap->why, BLOCKED, or a negative
 * errno. */
static int outcome(struct apply *ap, int result, const char *why)
{
    ap->why = why;
    return result;
}

/* Records what the folder has at a path now (NULL: nothing). `base` is taken over. */
static int record(struct apply *ap, const char *path, const struct identity *id,
                  struct seen_base *base, bool base_differs, int result, struct error *err)
{
    int r = seen_set(ap->seen, path, id ? SEEN_KNOWN : SEEN_ABSENT, id, base, base_differs);
    if (r < 0 && r != -ENOSPC)
        return error_errno(err, -r, "cannot record the write");
    return outcome(ap, result, NULL);
}

/* Writes the box's version in place of what is there, or where nothing is. */
static int put_theirs(struct apply *ap, const struct apply_path *p, const struct changes_entry *e,
                      const char *link_to, struct error *err)
{
    struct identity id;
    const struct apply_content c = {.entry = e, .mode = e->mode, .link_to = link_to};
    int r = apply_put(ap, p->dir, e->path, &c, p->there ? &p->now : NULL, &id, err);
    if (r != APPLY_DONE)
        return r;
    struct seen_base *base = seen_read_base(ap->seen, p->dir, relpath_name(e->path), &id);
    return record(ap, e->path, &id, base, false, APPLY_DONE, err);
}

/* Writes merged bytes to the folder and, later, to the box. Until the box has them, the common
 * ancestor of both is the box's version. */
static int put_merged(struct apply *ap, const struct apply_path *p, const struct changes_entry *e,
                      const struct apply_merged *m, const char *why, struct error *err)
{
    struct identity id;
    const struct apply_content c = {.entry = e, .mode = S_IFREG | m->mode, .bytes = m->bytes};
    int r = apply_put(ap, p->dir, e->path, &c, &p->now, &id, err);
    if (r == APPLY_DONE)
        r = record(ap, e->path, &id, seen_base_ref(m->theirs), true, APPLY_MERGED, err);
    if (r == APPLY_MERGED && box_edits_add(&ap->edits, BOX_EDIT_BYTES, e->path, m->mode,
                                           seen_base_ref(m->bytes), &id) < 0)
        return error_errno(err, ENOMEM, "cannot merge");
    return r == APPLY_MERGED ? outcome(ap, r, why) : r;
}

/* The person chose their version: the box gets it. */
static int keep_mine(struct apply *ap, const struct apply_path *p, struct error *err)
{
    enum box_edit_kind kind = p->there ? BOX_EDIT_FOLDER : BOX_EDIT_GONE;
    if (p->there && !S_ISREG(p->now.mode) && !S_ISLNK(p->now.mode))
        return outcome(
            ap, APPLY_CONFLICT,
            "your version is neither a file nor a link: it cannot be copied into the box");
    if (box_edits_add(&ap->edits, kind, p->path, 0, NULL, p->there ? &p->now : NULL) < 0)
        return error_errno(err, ENOMEM, "cannot keep your version");
    return outcome(ap, APPLY_SAME, "kept your version, and gave it to the box");
}

/* A conflict on a file or link that the box has: what the options say about it. */
static int resolve_file(struct apply *ap, const struct apply_path *p, const struct changes_entry *e,
                        const struct apply_merged *m, const char *why, struct error *err)
{
    enum apply_choice choice = ap->options->on_conflict;
    if (choice == APPLY_MINE)
        return keep_mine(ap, p, err);
    if (choice == APPLY_THEIRS && !(p->there && S_ISDIR(p->now.mode)))
        return put_theirs(ap, p, e, NULL, err);
    if (choice == APPLY_MARKERS && m && m->bytes)
        return put_merged(ap, p, e, m, "with conflict markers", err);
    return outcome(ap, APPLY_CONFLICT, why);
}

static int put_file(struct apply *ap, const struct changes_entry *e, const char *link_to,
                    struct error *err)
{
    _cleanup_(apply_path_close) struct apply_path p;
    _cleanup_(apply_merged_free) struct apply_merged m = {0};
    enum apply_choice choice = ap->options->on_conflict;
    int r = apply_path_open(ap, e->path, choice == APPLY_THEIRS, &p, err);
    if (r == -ENOTDIR || r == -ELOOP || (r == 0 && p.there && S_ISDIR(p.now.mode)))
        return BLOCKED;
    if (r == -ENOENT)
        return choice == APPLY_MINE ? keep_mine(ap, &p, err)
                                    : outcome(ap, APPLY_CONFLICT, WHY_DELETED);
    if (r < 0)
        return r;
    if (!p.there && p.state == SEEN_KNOWN && !S_ISDIR(p.seen->id.mode))
        return resolve_file(ap, &p, e, NULL, WHY_DELETED, err);
    if (!p.there && p.parent_replaced)
        return resolve_file(ap, &p, e, NULL, WHY_MOVED, err);
    if (!p.there || (apply_path_is_seen(&p) && !p.seen->base_differs))
        return put_theirs(ap, &p, e, link_to, err);

    /* Somebody else's version is in the place: it may be the same, or one that can be merged. */
    r = apply_is_same(ap, &p, e, err);
    if (r < 0)
        return r;
    if (r) {
        struct seen_base *base = seen_read_base(ap->seen, p.dir, relpath_name(e->path), &p.now);
        return record(ap, e->path, &p.now, base, false, APPLY_SAME, err);
    }
    r = apply_merge(ap, &p, e, &m, err);
    if (r < 0)
        return r;
    if (r == APPLY_MERGE_CLEAN)
        return put_merged(ap, &p, e, &m, NULL, err);
    if (r == APPLY_MERGE_ONLY_BOX)
        return put_theirs(ap, &p, e, NULL, err);
    if (r == APPLY_MERGE_ONLY_FOLDER) /* the box changed nothing since the last merge */
        return outcome(ap, APPLY_SAME, NULL);
    bool is_new = p.state == SEEN_ABSENT || (e->kind == WIRE_ADDED && p.state != SEEN_KNOWN);
    const char *why = r == APPLY_MERGE_MODE ? WHY_MODE
                      : p.parent_replaced   ? WHY_MOVED
                      : is_new              ? WHY_OTHER
                                            : WHY_CHANGED;
    return resolve_file(ap, &p, e, &m, why, err);
}

/* A folder that the box added, or whose permissions it changed. Modes of new ones are set at the
 * end. */
static int put_folder(struct apply *ap, const struct changes_entry *e, struct error *err)
{
    _cleanup_(apply_path_close) struct apply_path p;
    int r = apply_path_open(ap, e->path, false, &p, err);
    if (r == -ENOTDIR || r == -ELOOP || (r == 0 && p.there && !S_ISDIR(p.now.mode)))
        return BLOCKED;
    if (r == -ENOENT)
        return outcome(ap, APPLY_CONFLICT, WHY_DELETED);
    if (r < 0)
        return r;
    if (!p.there && (e->kind == WIRE_MODIFIED || p.parent_replaced))
        return outcome(ap, APPLY_CONFLICT, p.parent_replaced ? WHY_MOVED : WHY_DELETED);
    if (!p.there) {
        r = apply_make_dir(ap, p.dir, e->path, err);
        if (r == APPLY_DONE)
            r = identity_get(p.dir, relpath_name(e->path), &p.now);
        return r == 0 ? record(ap, e->path, &p.now, NULL, false, APPLY_DONE, err) : r;
    }
    if (e->kind == WIRE_ADDED || (p.now.mode & 0777) == (e->mode & 0777))
        return outcome(ap, APPLY_SAME, NULL);
    bool seen = apply_path_is_seen(&p);
    bool mine = !seen || (p.now.mode & 0777) != (p.seen->id.mode & 0777);
    if (mine && ap->options->on_conflict != APPLY_THEIRS)
        return outcome(ap, APPLY_CONFLICT, seen ? WHY_MODE : WHY_MOVED);
    r = apply_set_dir_mode(ap, e->path, e->mode, &p.now, err);
    if (r < 0)
        return r;
    p.now.mode = (p.now.mode & ~(mode_t)0777) | (e->mode & 0777);
    return record(ap, e->path, &p.now, NULL, false, APPLY_DONE, err);
}

static int remove_path(struct apply *ap, const struct changes_entry *e, struct error *err)
{
    _cleanup_(apply_path_close) struct apply_path p;
    enum apply_choice choice = ap->options->on_conflict;
    int r = apply_path_open(ap, e->path, false, &p, err);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || (r == 0 && !p.there))
        return record(ap, e->path, NULL, NULL, false, APPLY_SAME, err);
    if (r < 0)
        return r;
    bool folder = S_ISDIR(p.now.mode);
    if (!apply_path_is_seen(&p) && choice == APPLY_MINE && !folder)
        return keep_mine(ap, &p, err);
    if (!apply_path_is_seen(&p) && (choice != APPLY_THEIRS || folder))
        return outcome(ap, APPLY_CONFLICT, p.parent_replaced ? WHY_MOVED : WHY_CHANGED);
    r = apply_remove(ap, p.dir, e->path, &p.now, err);
    return r == APPLY_DONE ? record(ap, e->path, NULL, NULL, false, APPLY_DONE, err) : r;
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

/* A file that has the same content as one that was written before, under another name, becomes a
 * link to that one. */
static int put_linked_file(struct apply *ap, const struct changes_entry *e, void **links,
                           struct error *err)
{
    const struct link_group key = {.number = e->link};
    struct link_group **found = e->link ? tfind(&key, links, link_compare) : NULL;
    int r = put_file(ap, e, found ? (*found)->path : NULL, err);
    struct link_group *g = r == APPLY_DONE && e->link && !found ? malloc(sizeof *g) : NULL;
    if (!g)
        return r; /* without memory the next name becomes a file of its own */
    *g = (struct link_group){.number = e->link, .path = e->path};
    if (!tsearch(g, links, link_compare))
        free(g);
    return r;
}

/* One item, from the decision to its report; counts what was not applied. */
static int settle_item(struct apply *ap, struct apply_item *i, void **links, int *not_applied,
                       struct error *err)
{
    const struct changes_entry *e = &i->e;
    int r;
    ap->why = NULL;
    if (relpath_touches_git(e->path))
        r = outcome(ap, APPLY_REFUSED, WHY_GIT);
    else if (e->kind == WIRE_DELETED)
        r = remove_path(ap, e, err);
    else if (ap->git_dirs && git_dirs_refuse(ap->git_dirs, e->path))
        r = outcome(ap, APPLY_REFUSED, WHY_GIT_DIR);
    else if (S_ISDIR(e->mode))
        r = put_folder(ap, e, err);
    else if (S_ISREG(e->mode) || S_ISLNK(e->mode))
        r = put_linked_file(ap, e, links, err);
    else
        r = outcome(ap, APPLY_REFUSED, "only files, links and folders are applied");

    if (r < 0) {
        _cleanup_buf_ struct buf name = BUF_INIT(4 * RELPATH_MAX + 16);
        cquote_append(&name, "", e->path);
        const char *text = buf_cstr(&name);
        return error_wrap(err, "cannot apply %.300s", text ? text : "a file");
    }
    if (r == BLOCKED && !i->later) {
        i->later = true;
        return 0;
    }
    i->later = false;
    if (r == BLOCKED)
        r = outcome(ap, APPLY_CONFLICT, WHY_IN_PLACE);
    if (i->silent && (r != APPLY_CONFLICT || e->kind == WIRE_DELETED))
        return 0;
    *not_applied += r == APPLY_CONFLICT || r == APPLY_REFUSED;
    if (ap->report)
        ap->report->say(ap->report->data, e->path, (enum apply_outcome)r, ap->why);
    return 0;
}

/* First what comes, then what goes (the deepest first), then what had to wait for that. */
static int settle_all(struct apply *ap, struct apply_list *list, struct error *err)
{
    int not_applied = 0, r = 0;
    void *links = NULL;
    for (int pass = 0; pass < 3 && r >= 0; pass++)
        for (size_t n = 0; n < list->count && r >= 0; n++) {
            struct apply_item *i = &list->at[pass == 1 ? list->count - 1 - n : n];
            bool turn = pass == 2 ? i->later : (i->e.kind == WIRE_DELETED) == (pass == 1);
            if (turn && apply_is_selected(ap->options, i->e.path))
                r = settle_item(ap, i, &links, &not_applied, err);
        }
    tdestroy(links, free);

    /* Folders that were made have a mode that lets them be filled; now they get their own, the
     * deepest first. */
    for (size_t i = list->count; r >= 0 && i-- > 0;) {
        const struct changes_entry *e = &list->at[i].e;
        struct seen_entry *made = seen_find(ap->seen, e->path);
        if (e->kind != WIRE_ADDED || !S_ISDIR(e->mode) || !made || made->state != SEEN_KNOWN ||
            (made->id.mode & 0777) != 0700 || made->id.mode == e->mode)
            continue;
        r = apply_set_dir_mode(ap, e->path, e->mode, NULL, err);
        if (r == 0)
            made->id.mode = (made->id.mode & ~(mode_t)0777) | (e->mode & 0777);
    }
    return r < 0 ? r : not_applied;
}

static bool folder_has(void *data, const char *path)
{
    struct stat st;
    _cleanup_fd_ int dir = -1;
    return apply_open_parent(data, path, false, &dir) == 0 &&
           fstatat(dir, relpath_name(path), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int apply_changes(struct apply *ap, struct error *err)
{
    _cleanup_(apply_list_free) struct apply_list list = {0};
    ap->lock = ap->journal = -1;
    ap->as_root = geteuid() == 0;
    int r = identity_get(ap->folder, "", &ap->owner);
    if (r < 0)
        return error_errno(err, -r, "cannot look at the folder");
    if (ap->locks)
        r = apply_journal_open(ap, err);
    if (r == 0)
        r = apply_list_read(ap, true, &list, err);
    if (r == 0 && !ap->options->allow_git_dirs) {
        ap->git_dirs = git_dirs_new();
        bool added = ap->git_dirs;
        for (size_t i = 0; added && i < list.count; i++)
            if (list.at[i].e.kind != WIRE_DELETED)
                added = git_dirs_add(ap->git_dirs, list.at[i].e.path) == 0;
        if (added)
            git_dirs_settle(ap->git_dirs, folder_has, ap);
        else
            r = error_errno(err, ENOMEM, "cannot apply the changes");
    }
    if (r == 0)
        r = settle_all(ap, &list, err);
    ap->git_dirs = git_dirs_free(ap->git_dirs);
    apply_journal_close(ap);
    return r;
}

static int apply_list_add(void *data, const struct changes_entry *e)
{
    struct apply_list *list = data;
    list->bytes +=
        strlen(e->path) + (e->target ? strlen(e->target) : 0) + sizeof(struct apply_item);
    if (list->bytes > CHANGES_BYTES_MAX)
        return -E2BIG;
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        struct apply_item *at = reallocarray(list->at, room, sizeof *at);
        if (!at)
            return -ENOMEM;
        list->at = at;
        list->room = room;
    }
    struct apply_item i = {.e = *e, .silent = e->implied};
    i.e.path = strdup(e->path);
    i.e.target = e->target ? strdup(e->target) : NULL;
    /* Of a file and a folder that trade places, one report is enough. */
    struct apply_item *last = list->count ? &list->at[list->count - 1] : NULL;
    if (last && last->e.kind == WIRE_DELETED && strcmp(last->e.path, e->path) == 0)
        last->silent = true;
    list->at[list->count++] = i;
    return i.e.path && (i.e.target || !e->target) ? 0 : -ENOMEM;
}

int apply_list_read(struct apply *ap, bool folders, struct apply_list *ret, struct error *err)
{
    _cleanup_fd_ int conn = -1;
    int r = ap->connect(ap->data, &conn);
    if (r < 0)
        return error_errno(err, -r, "cannot reach the diff worker");
    r = changes_each(conn, folders, apply_list_add, ret, err);
    if (r > 0)
        return error_set(err, E2BIG, "the box changed more files than can be applied (%u)",
                         CHANGES_MAX);
    return r;
}

void apply_list_free(struct apply_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free((char *)list->at[i].e.path);
        free((char *)list->at[i].e.target);
    }
    free(list->at);
}

static bool path_is_at_or_below(const char *path, const char *top)
{
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == 0 || path[n] == '/');
}

bool apply_is_selected(const struct apply_options *o, const char *path)
{
    for (size_t i = 0; i < o->n_paths; i++)
        if (path_is_at_or_below(path, o->paths[i]) || path_is_at_or_below(o->paths[i], path))
            return true;
    return o->n_paths == 0;
}
