/*
 * Which of a box's changes are written to the folder, and in which order.
 *
 * What is new and changed is written before what is gone is removed, so that a file the box moved
 * always exists somewhere; only where one has to make room for the other (a file became a folder)
 * it is the other way round.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply.h"
#include "encoding.h"
#include "io.h"
#include "linediff.h"
#include "relpath.h"
#include "banned.h"

#define MERGED_MAX (2 * MERGE_SIZE_MAX + (1u << 20))

/* Beside the outcomes of box.h: something that is to be removed first is in the way. */
#define APPLY_BLOCKED (APPLY_REFUSED + 1)

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

static bool path_is_at_or_below(const char *path, const char *top)
{
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static int apply_list_add(void *data, const struct changes_entry *e)
{
    struct apply_list *list = data;
    const struct apply_options *o = list->options;
    bool selected = o->n_paths == 0;
    for (size_t i = 0; i < o->n_paths && !selected; i++)
        selected =
            path_is_at_or_below(e->path, o->paths[i]) || path_is_at_or_below(o->paths[i], e->path);
    if (!selected)
        return 0;
    list->bytes +=
        strlen(e->path) + (e->target ? strlen(e->target) : 0) + sizeof(struct apply_item);
    if (list->bytes > CHANGES_BYTES_MAX)
        return -E2BIG;
    if (!list_grow(&list->at, list->count, sizeof *list->at))
        return -ENOMEM;
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
    ret->options = ap->options;
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

int apply_path_open(struct apply *ap, const char *path, bool create, struct apply_path *ret,
                    struct error *err)
{
    const char *name = relpath_name(path);
    *ret = (struct apply_path){.path = path,
                               .dir = -1,
                               .seen = seen_find(ap->seen, path),
                               .state = seen_state_of(ap->seen, path),
                               .parent_seen = true};
    int r = apply_open_parent(ap, path, create, &ret->dir);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
        return r;
    if (r < 0)
        return error_errno(err, -r, "cannot open its folder");
    r = identity_get(ret->dir, name, &ret->now);
    if (r < 0 && r != -ENOENT)
        return error_errno(err, -r, "cannot look at it");
    ret->there = r == 0;
    if (name > path) {
        struct identity parent;
        _cleanup_free_ char *above = strndup(path, (size_t)(name - path - 1));
        const struct seen_entry *e = above ? seen_find(ap->seen, above) : NULL;
        bool known = e && e->state == SEEN_KNOWN && identity_get(ret->dir, "", &parent) == 0;
        ret->parent_seen = known && identity_same_inode(&e->id, &parent);
        ret->parent_replaced = known && !ret->parent_seen;
    }
    return 0;
}

void apply_path_close(struct apply_path *p)
{
    cleanup_close(&p->dir);
}

bool apply_path_is_seen(const struct apply_path *p)
{
    if (!p->there || p->state != SEEN_KNOWN || !p->seen || !p->parent_seen)
        return false;
    return S_ISDIR(p->now.mode) ? identity_same_inode(&p->seen->id, &p->now)
                                : identity_same(&p->seen->id, &p->now);
}

int apply_fetch(struct apply *ap, const struct changes_entry *e, const struct fetch_sink *sink,
                struct error *err)
{
    _cleanup_fd_ int conn = -1;
    int r = ap->connect(ap->data, &conn);
    if (r < 0)
        return error_errno(err, -r, "cannot reach the diff worker");
    return changes_fetch(conn, e->path, e->size, sink, err);
}

static int base_put(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct seen_base *b = data;
    memcpy(b->data + offset, bytes, n); /* changes_fetch keeps offset + n within the size */
    return 0;
}

int apply_fetch_base(struct apply *ap, const struct changes_entry *e, size_t max,
                     struct seen_base **ret, struct error *err)
{
    if (e->size > max)
        return -EFBIG;
    _cleanup_free_ struct seen_base *b = seen_base_new(NULL, e->size);
    if (!b)
        return error_errno(err, ENOMEM, "cannot read the box's version");
    int r = apply_fetch(ap, e, &(struct fetch_sink){base_put, b}, err);
    if (r == 0)
        *ret = TAKE_PTR(b);
    return r;
}

struct compare_sink {
    int fd;
    uint64_t at;
};

static int compare_put(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct compare_sink *c = data;
    if (offset != c->at) /* what has holes is taken to differ */
        return -ECANCELED;
    for (size_t done = 0; done < n;) {
        char space[16384];
        size_t want = n - done < sizeof space ? n - done : sizeof space;
        if (io_read_at(c->fd, space, want, offset + done) != (ssize_t)want ||
            memcmp(space, (const char *)bytes + done, want) != 0)
            return -ECANCELED;
        done += want;
    }
    c->at = offset + n;
    return 0;
}

/* Is what the folder has at that path already what the box has? 1, 0, or a negative errno. */
static int apply_is_same(struct apply *ap, const struct apply_path *p,
                         const struct changes_entry *e, struct error *err)
{
    char target[PATH_MAX + 1];
    struct identity after;
    const char *name = relpath_name(p->path);
    if ((p->now.mode & S_IFMT) != (e->mode & S_IFMT))
        return 0;
    if (S_ISLNK(e->mode)) {
        ssize_t n = readlinkat(p->dir, name, target, sizeof target);
        return e->target && n >= 0 && (size_t)n == strlen(e->target) &&
               memcmp(target, e->target, (size_t)n) == 0;
    }
    if ((p->now.mode & 0777) != (e->mode & 0777) || p->now.size != e->size)
        return 0;
    _cleanup_fd_ int fd =
        openat(p->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    struct compare_sink c = {.fd = fd};
    int r = apply_fetch(ap, e, &(struct fetch_sink){compare_put, &c}, err);
    if (r < 0)
        return r == -ECANCELED ? 0 : r;
    return c.at == e->size && identity_get(fd, "", &after) == 0 && identity_same(&after, &p->now);
}

void apply_merged_free(struct apply_merged *m)
{
    seen_base_unref(m->bytes);
    seen_base_unref(m->theirs);
    *m = (struct apply_merged){0};
}

int apply_merge(struct apply *ap, const struct apply_path *p, const struct changes_entry *e,
                struct apply_merged *ret, struct error *err)
{
    static const struct merge_labels LABELS = {"folder", "box"};
    _cleanup_free_ struct seen_base *mine = NULL;
    _cleanup_buf_ struct buf out = BUF_INIT(MERGED_MAX);
    const struct seen_entry *seen = p->state == SEEN_KNOWN && p->parent_seen ? p->seen : NULL;
    int r = apply_is_same(ap, p, e, err);
    if (r)
        return r < 0 ? r : APPLY_MERGE_SAME;
    if (!S_ISREG(p->now.mode) || !S_ISREG(e->mode) || (seen && !S_ISREG(seen->id.mode)))
        return APPLY_MERGE_CONFLICT;

    r = seen_base_read(p->dir, relpath_name(p->path), &p->now, MERGE_SIZE_MAX, &mine);
    if (r == -ENOMEM)
        return error_errno(err, ENOMEM, "cannot read your version");
    if (r < 0) /* too large, not readable, or another by now */
        return APPLY_MERGE_CONFLICT;
    r = apply_fetch_base(ap, e, MERGE_SIZE_MAX, &ret->theirs, err);
    if (r == -EFBIG || r == -EACCES || r == -ENOENT || r == -ELOOP)
        return APPLY_MERGE_CONFLICT;
    if (r < 0)
        return r;

    /* The merged permissions are those of the side that changed them. */
    mode_t my_mode = p->now.mode & 0777, their_mode = e->mode & 0777;
    mode_t before = seen ? seen->id.mode & 0777 : their_mode;
    ret->mode = my_mode == before ? their_mode : my_mode;
    bool modes_merge = my_mode == before || their_mode == before || my_mode == their_mode;

    const struct seen_base *base = seen ? seen->base : NULL;
    if (base && modes_merge && seen_base_same(base, ret->theirs) && ret->mode == my_mode)
        return APPLY_MERGE_ONLY_FOLDER;
    if (base && modes_merge && seen_base_same(base, mine) && ret->mode == their_mode)
        return APPLY_MERGE_ONLY_BOX;
    r = merge_texts(&(struct merge_text){base ? base->data : NULL, base ? base->size : 0},
                    &(struct merge_text){mine->data, mine->size},
                    &(struct merge_text){ret->theirs->data, ret->theirs->size}, &LABELS, &out);
    if (r >= 0 && !(ret->bytes = seen_base_new(out.data, out.len)))
        r = -ENOMEM;
    if (r < 0 && r != -EILSEQ && r != -E2BIG)
        return error_errno(err, -r, "cannot merge");
    return r != 0 || !base ? APPLY_MERGE_CONFLICT
           : modes_merge   ? APPLY_MERGE_CLEAN
                           : APPLY_MERGE_MODE;
}

/* The functions that decide about one path return its outcome, with ap->why, APPLY_BLOCKED, or a
 * negative errno. */
static int apply_because(struct apply *ap, int outcome, const char *why)
{
    ap->why = why;
    return outcome;
}

/* Records what the folder has at a path now (NULL: nothing). Takes `base` over. */
static int apply_record(struct apply *ap, const char *path, const struct identity *id,
                        struct seen_base *base, bool base_differs, int outcome, struct error *err)
{
    int r = seen_set(ap->seen, path, id ? SEEN_KNOWN : SEEN_ABSENT, id, base, base_differs);
    if (r < 0 && r != -ENOSPC)
        return error_errno(err, -r, "cannot record the write");
    return apply_because(ap, outcome, NULL);
}

/* Writes the box's version in place of what is there, or where nothing is. */
static int apply_put_theirs(struct apply *ap, const struct apply_path *p,
                            const struct changes_entry *e, const char *link_to, struct error *err)
{
    struct identity id;
    const struct apply_content c = {.entry = e, .mode = e->mode, .link_to = link_to};
    int r = apply_put(ap, p->dir, e->path, &c, p->there ? &p->now : NULL, &id, err);
    if (r != APPLY_DONE)
        return r;
    struct seen_base *base = seen_read_base(ap->seen, p->dir, relpath_name(e->path), &id);
    return apply_record(ap, e->path, &id, base, false, APPLY_DONE, err);
}

/* Writes merged bytes to the folder and, later, to the box. Until the box has them, the common
 * ancestor of both is the box's version. */
static int apply_put_merged(struct apply *ap, const struct apply_path *p,
                            const struct changes_entry *e, const struct apply_merged *m,
                            const char *why, struct error *err)
{
    struct identity id;
    const struct apply_content c = {.entry = e, .mode = S_IFREG | m->mode, .bytes = m->bytes};
    int r = apply_put(ap, p->dir, e->path, &c, &p->now, &id, err);
    if (r != APPLY_DONE)
        return r;
    r = apply_record(ap, e->path, &id, seen_base_ref(m->theirs), true, APPLY_MERGED, err);
    if (r >= 0 && box_edits_add(&ap->edits, BOX_EDIT_BYTES, e->path, m->mode,
                                seen_base_ref(m->bytes), &id) < 0)
        return error_errno(err, ENOMEM, "cannot merge");
    return r < 0 ? r : apply_because(ap, APPLY_MERGED, why);
}

/* The user chose their version: the box gets it. */
static int apply_keep_mine(struct apply *ap, const struct apply_path *p, struct error *err)
{
    if (p->there && !S_ISREG(p->now.mode) && !S_ISLNK(p->now.mode))
        return apply_because(
            ap, APPLY_CONFLICT,
            "your version is neither a file nor a link: it cannot be copied into the box");
    if (box_edits_add(&ap->edits, p->there ? BOX_EDIT_FOLDER : BOX_EDIT_GONE, p->path, 0, NULL,
                      p->there ? &p->now : NULL) < 0)
        return error_errno(err, ENOMEM, "cannot keep your version");
    return apply_because(ap, APPLY_SAME, "kept your version, and gave it to the box");
}

/* A conflict on a file or link that the box has: does what the options say about it. */
static int apply_resolve(struct apply *ap, const struct apply_path *p,
                         const struct changes_entry *e, const struct apply_merged *m,
                         const char *why, struct error *err)
{
    enum apply_choice choice = ap->options->on_conflict;
    if (choice == APPLY_MINE)
        return apply_keep_mine(ap, p, err);
    if (choice == APPLY_THEIRS && !(p->there && S_ISDIR(p->now.mode)))
        return apply_put_theirs(ap, p, e, NULL, err);
    if (choice == APPLY_MARKERS && m->bytes)
        return apply_put_merged(ap, p, e, m, "with conflict markers", err);
    return apply_because(ap, APPLY_CONFLICT, why);
}

/* A file or link that the box added or changed. `link_to` as in apply_content. */
static int apply_file(struct apply *ap, const struct changes_entry *e, const char *link_to,
                      struct error *err)
{
    _cleanup_(apply_path_close) struct apply_path p;
    _cleanup_(apply_merged_free) struct apply_merged m = {0};
    enum apply_choice choice = ap->options->on_conflict;
    int r = apply_path_open(ap, e->path, choice == APPLY_THEIRS, &p, err);
    if (r == -ENOTDIR || r == -ELOOP || (r == 0 && p.there && S_ISDIR(p.now.mode)))
        return APPLY_BLOCKED;
    if (r == -ENOENT)
        return choice == APPLY_MINE ? apply_keep_mine(ap, &p, err)
                                    : apply_because(ap, APPLY_CONFLICT, WHY_DELETED);
    if (r < 0)
        return r;
    if (!p.there && p.state == SEEN_KNOWN && !S_ISDIR(p.seen->id.mode))
        return apply_resolve(ap, &p, e, &m, WHY_DELETED, err);
    if (!p.there && p.parent_replaced)
        return apply_resolve(ap, &p, e, &m, WHY_MOVED, err);
    if (!p.there || (apply_path_is_seen(&p) && !p.seen->base_differs))
        return apply_put_theirs(ap, &p, e, link_to, err);

    /* Another version is in the place: it may be the same, or one that can be merged. */
    r = apply_merge(ap, &p, e, &m, err);
    if (r == APPLY_MERGE_SAME) {
        struct seen_base *base = seen_read_base(ap->seen, p.dir, relpath_name(e->path), &p.now);
        return apply_record(ap, e->path, &p.now, base, false, APPLY_SAME, err);
    }
    if (r == APPLY_MERGE_CLEAN)
        return apply_put_merged(ap, &p, e, &m, NULL, err);
    if (r == APPLY_MERGE_ONLY_BOX)
        return apply_put_theirs(ap, &p, e, NULL, err);
    if (r == APPLY_MERGE_ONLY_FOLDER) /* the box changed nothing since the last merge */
        return apply_because(ap, APPLY_SAME, NULL);
    if (r < 0)
        return r;
    bool is_new = p.state == SEEN_ABSENT || (e->kind == WIRE_ADDED && p.state != SEEN_KNOWN);
    const char *why = r == APPLY_MERGE_MODE ? WHY_MODE
                      : p.parent_replaced   ? WHY_MOVED
                      : is_new              ? WHY_OTHER
                                            : WHY_CHANGED;
    return apply_resolve(ap, &p, e, &m, why, err);
}

/* A folder that the box added, or whose permissions it changed. Modes of new ones are set at the
 * end. */
static int apply_dir(struct apply *ap, const struct changes_entry *e, struct error *err)
{
    _cleanup_(apply_path_close) struct apply_path p;
    int r = apply_path_open(ap, e->path, false, &p, err);
    if (r == -ENOTDIR || r == -ELOOP || (r == 0 && p.there && !S_ISDIR(p.now.mode)))
        return APPLY_BLOCKED;
    if (r == -ENOENT)
        return apply_because(ap, APPLY_CONFLICT, WHY_DELETED);
    if (r < 0)
        return r;
    if (!p.there && (e->kind == WIRE_MODIFIED || p.parent_replaced))
        return apply_because(ap, APPLY_CONFLICT, p.parent_replaced ? WHY_MOVED : WHY_DELETED);
    if (!p.there) {
        r = apply_make_dir(ap, p.dir, e->path, err);
        if (r == APPLY_DONE)
            r = identity_get(p.dir, relpath_name(e->path), &p.now);
        return r == 0 ? apply_record(ap, e->path, &p.now, NULL, false, APPLY_DONE, err) : r;
    }
    if (e->kind == WIRE_ADDED || (p.now.mode & 0777) == (e->mode & 0777))
        return apply_because(ap, APPLY_SAME, NULL);
    bool seen = apply_path_is_seen(&p);
    bool mine = !seen || (p.now.mode & 0777) != (p.seen->id.mode & 0777);
    if (mine && ap->options->on_conflict != APPLY_THEIRS)
        return apply_because(ap, APPLY_CONFLICT, seen ? WHY_MODE : WHY_MOVED);
    r = apply_set_dir_mode(ap, e->path, e->mode, &p.now, err);
    if (r < 0)
        return r;
    p.now.mode = (p.now.mode & ~(mode_t)0777) | (e->mode & 0777);
    return apply_record(ap, e->path, &p.now, NULL, false, APPLY_DONE, err);
}

static int apply_deletion(struct apply *ap, const struct changes_entry *e, struct error *err)
{
    _cleanup_(apply_path_close) struct apply_path p;
    enum apply_choice choice = ap->options->on_conflict;
    int r = apply_path_open(ap, e->path, false, &p, err);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || (r == 0 && !p.there))
        return apply_record(ap, e->path, NULL, NULL, false, APPLY_SAME, err);
    if (r < 0)
        return r;
    bool folder = S_ISDIR(p.now.mode);
    if (!apply_path_is_seen(&p) && choice == APPLY_MINE && !folder)
        return apply_keep_mine(ap, &p, err);
    if (!apply_path_is_seen(&p) && (choice != APPLY_THEIRS || folder))
        return apply_because(ap, APPLY_CONFLICT, p.parent_replaced ? WHY_MOVED : WHY_CHANGED);
    r = apply_remove(ap, p.dir, e->path, &p.now, err);
    return r == APPLY_DONE ? apply_record(ap, e->path, NULL, NULL, false, APPLY_DONE, err) : r;
}

/* Of a file with several names, the first one that is written; the others become links to it. */
struct link_group {
    uint64_t number;
    const char *path;
};

static int link_compare(const void *a, const void *b)
{
    const struct link_group *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* One item, from the decision to its report; counts what was not applied. `links` is a tree of
 * link groups. */
static int apply_one(struct apply *ap, struct apply_item *i, void **links, int *not_applied,
                     struct error *err)
{
    const struct changes_entry *e = &i->e;
    int r;
    ap->why = NULL;
    if (relpath_touches_git(e->path)) {
        r = apply_because(ap, APPLY_REFUSED, WHY_GIT);
    } else if (e->kind == WIRE_DELETED) {
        r = apply_deletion(ap, e, err);
    } else if (ap->git_dirs && git_dirs_refuse(ap->git_dirs, e->path)) {
        r = apply_because(ap, APPLY_REFUSED, WHY_GIT_DIR);
    } else if (S_ISDIR(e->mode)) {
        r = apply_dir(ap, e, err);
    } else if (S_ISREG(e->mode) || S_ISLNK(e->mode)) {
        const struct link_group key = {.number = e->link};
        struct link_group **found = e->link ? tfind(&key, links, link_compare) : NULL;
        r = apply_file(ap, e, found ? (*found)->path : NULL, err);
        /* Without memory the next name becomes a file of its own. */
        struct link_group *g = r == APPLY_DONE && e->link && !found ? malloc(sizeof *g) : NULL;
        if (g)
            *g = (struct link_group){.number = e->link, .path = e->path};
        if (g && !tsearch(g, links, link_compare))
            free(g);
    } else {
        r = apply_because(ap, APPLY_REFUSED, "only files, links and folders are applied");
    }

    if (r < 0) {
        _cleanup_buf_ struct buf name = BUF_INIT(4 * RELPATH_MAX + 16);
        cquote_append(&name, "", e->path);
        const char *text = buf_cstr(&name);
        return error_wrap(err, "cannot apply %.300s", text ? text : "a file");
    }
    if (r == APPLY_BLOCKED && !i->later) {
        i->later = true;
        return 0;
    }
    i->later = false;
    if (r == APPLY_BLOCKED)
        r = apply_because(ap, APPLY_CONFLICT, WHY_IN_PLACE);
    if (i->silent && (r != APPLY_CONFLICT || e->kind == WIRE_DELETED))
        return 0;
    *not_applied += r == APPLY_CONFLICT || r == APPLY_REFUSED;
    if (ap->report)
        ap->report->say(ap->report->data, e->path, (enum apply_outcome)r, ap->why);
    return 0;
}

static bool apply_folder_has(void *data, const char *path)
{
    struct stat st;
    _cleanup_fd_ int dir = -1;
    return apply_open_parent(data, path, false, &dir) == 0 &&
           fstatat(dir, relpath_name(path), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int apply_changes(struct apply *ap, struct error *err)
{
    _cleanup_(apply_list_free) struct apply_list list = {0};
    void *links = NULL;
    int not_applied = 0;
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
            git_dirs_settle(ap->git_dirs, apply_folder_has, ap);
        else
            r = error_errno(err, ENOMEM, "cannot apply the changes");
    }

    /* First what comes, then what goes (the deepest first), then what had to wait for that. */
    for (int pass = 0; pass < 3 && r >= 0; pass++)
        for (size_t n = 0; n < list.count && r >= 0; n++) {
            struct apply_item *i = &list.at[pass == 1 ? list.count - 1 - n : n];
            if (pass == 2 ? i->later : (i->e.kind == WIRE_DELETED) == (pass == 1))
                r = apply_one(ap, i, &links, &not_applied, err);
        }
    tdestroy(links, free);

    /* Folders that were made have a mode that lets them be filled; now they get their own, the
     * deepest first. */
    for (size_t i = list.count; r >= 0 && i-- > 0;) {
        const struct changes_entry *e = &list.at[i].e;
        struct seen_entry *made = seen_find(ap->seen, e->path);
        if (e->kind != WIRE_ADDED || !S_ISDIR(e->mode) || !made || made->state != SEEN_KNOWN ||
            (made->id.mode & 0777) != 0700 || made->id.mode == e->mode)
            continue;
        r = apply_set_dir_mode(ap, e->path, e->mode, NULL, err);
        if (r == 0)
            made->id.mode = (made->id.mode & ~(mode_t)0777) | (e->mode & 0777);
    }
    ap->git_dirs = git_dirs_free(ap->git_dirs);
    apply_journal_close(ap);
    return r < 0 ? r : not_applied;
}
