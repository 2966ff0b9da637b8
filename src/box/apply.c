#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apply.h"
#include "apply_file.h"
#include "apply_memory.h"
#include "beneath.h"
#include "clock.h"
#include "cquote.h"
#include "relpath.h"
#include "banned.h"

/* Beside the outcomes of box.h: something that is to be removed first is in the way. */
#define BLOCKED (APPLY_REFUSED + 1)

static const char UNDER_GIT[] =
    "changes under .git are not applied: a hook or config there would run on the host";

struct item {
    struct changes_entry e; /* owns its strings */
    bool later;
};

struct items {
    struct item *at;
    size_t count, room, bytes;
};

/* What became of one item, and why. */
struct verdict {
    int outcome; /* an apply_outcome, BLOCKED, or a negative errno with the error set */
    const char *why;
};

static struct verdict done(int r)
{
    return (struct verdict){.outcome = r < 0 ? r : APPLY_DONE};
}

static struct verdict conflict(const char *why)
{
    return (struct verdict){.outcome = APPLY_CONFLICT, .why = why};
}

static void items_free(struct items *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free((char *)list->at[i].e.path);
        free((char *)list->at[i].e.target);
    }
    free(list->at);
}

static int keep(void *data, const struct changes_entry *e)
{
    struct items *list = data;
    list->bytes += strlen(e->path) + (e->target ? strlen(e->target) : 0) + sizeof(struct item);
    if (list->bytes > CHANGES_BYTES_MAX)
        return -E2BIG;
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        struct item *at = realloc(list->at, room * sizeof *at);
        if (!at)
            return -ENOMEM;
        list->at = at;
        list->room = room;
    }
    struct item i = {.e = *e};
    i.e.path = strdup(e->path);
    i.e.target = e->target ? strdup(e->target) : NULL;
    list->at[list->count++] = i;
    return i.e.path && (i.e.target || !e->target) ? 0 : -ENOMEM;
}

static bool is_untouched(const struct apply *ap, const struct stat *st)
{
    return (int64_t)st->st_ctim.tv_sec * NS_PER_S + st->st_ctim.tv_nsec <= ap->since ||
           apply_memory_has(ap->memory, st);
}

/* A folder, which is in the list only when it is empty. */
static struct verdict put_folder(const struct apply *ap, int dir, const struct changes_entry *e,
                                 const struct stat *old, struct error *err)
{
    const char *name = relpath_name(e->path);
    if (old)
        return (struct verdict){.outcome = S_ISDIR(old->st_mode) ? APPLY_SAME : BLOCKED};
    if (mkdirat(dir, name, e->mode & 0777) < 0 ||
        (ap->as_root && fchownat(dir, name, ap->owner.st_uid, ap->owner.st_gid, AT_SYMLINK_NOFOLLOW) < 0))
        return done(error_errno(err, errno, "cannot create a folder"));
    return done(0);
}

/* Something is there that the person put there or changed: fine if it is the same thing. */
static struct verdict settle(const struct apply *ap, int dir, const struct changes_entry *e,
                             const struct stat *old, struct error *err)
{
    int same = apply_is_same(ap, dir, e, old, err);
    if (same < 0)
        return done(same);
    if (same && apply_memory_add(ap->memory, old) == 0)
        return (struct verdict){.outcome = APPLY_SAME};
    return conflict(e->kind == WIRE_ADDED ? "the folder has another file of that name by now"
                                          : "it was changed in the folder since the box began");
}

static struct verdict put_file(const struct apply *ap, int dir, const struct changes_entry *e,
                               const struct stat *old, struct error *err)
{
    if (!old && e->kind == WIRE_MODIFIED)
        return conflict("it was deleted in the folder since the box began");
    if (old && S_ISDIR(old->st_mode))
        return (struct verdict){.outcome = BLOCKED};
    bool ours = old && apply_memory_has(ap->memory, old);
    if (old && !ours && !(e->kind == WIRE_MODIFIED && is_untouched(ap, old)))
        return settle(ap, dir, e, old, err);
    int r = apply_write(ap, dir, e, old, err);
    if (r == -EEXIST)
        return conflict("the folder has another file of that name by now");
    return done(r);
}

static struct verdict put(const struct apply *ap, const struct changes_entry *e, struct error *err)
{
    struct stat st;
    _cleanup_fd_ int dir = -1;
    int r = apply_open_parent(ap, e->path, e->kind == WIRE_ADDED, &dir);
    if (r == -ENOTDIR || r == -ELOOP)
        return (struct verdict){.outcome = BLOCKED};
    if (r == -ENOENT)
        return conflict("it was deleted in the folder since the box began");
    if (r < 0)
        return done(error_errno(err, -r, "cannot open its folder"));
    bool there = fstatat(dir, relpath_name(e->path), &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && errno != ENOENT)
        return done(error_errno(err, errno, "cannot look at it"));
    return S_ISDIR(e->mode) ? put_folder(ap, dir, e, there ? &st : NULL, err)
                            : put_file(ap, dir, e, there ? &st : NULL, err);
}

static struct verdict take(const struct apply *ap, const struct changes_entry *e, struct error *err)
{
    struct stat st;
    _cleanup_fd_ int dir = -1;
    const char *name = relpath_name(e->path);
    int r = apply_open_parent(ap, e->path, false, &dir);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) /* beneath the folder there is no such file any more */
        return (struct verdict){.outcome = APPLY_SAME};
    if (r < 0)
        return done(error_errno(err, -r, "cannot open its folder"));
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? (struct verdict){.outcome = APPLY_SAME}
                               : done(error_errno(err, errno, "cannot look at it"));
    if (S_ISDIR(st.st_mode) != S_ISDIR(e->mode))
        return conflict("it was replaced in the folder since the box began");
    if (!S_ISDIR(st.st_mode) && !is_untouched(ap, &st))
        return conflict("it was changed in the folder since the box began");
    r = apply_remove(ap, dir, name, &st);
    if (r == -ENOTEMPTY || r == -EEXIST)
        return conflict("the folder has something in it by now");
    return done(r < 0 ? error_errno(err, -r, "cannot remove it") : 0);
}

static struct verdict judge(const struct apply *ap, const struct item *i, struct error *err)
{
    mode_t mode = i->e.mode;
    if (relpath_touches_git(i->e.path))
        return (struct verdict){.outcome = APPLY_REFUSED, .why = UNDER_GIT};
    if (i->e.kind == WIRE_DELETED) {
        struct verdict v = take(ap, &i->e, err);
        if (v.outcome == APPLY_DONE || v.outcome == APPLY_SAME)
            apply_remove_parents(ap, i->e.path, i->e.gone);
        return v;
    }
    if (!S_ISREG(mode) && !S_ISLNK(mode) && !S_ISDIR(mode))
        return (struct verdict){.outcome = APPLY_REFUSED, .why = "only files, links and folders are applied"};
    return put(ap, &i->e, err);
}

/* One item from its judgement to its report; counts what was not applied. */
static int settle_item(const struct apply *ap, struct item *i, const struct apply_report *report,
                       int *not_applied, struct error *err)
{
    struct verdict v = judge(ap, i, err);
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
        v = conflict("something else is in its place in the folder");
    *not_applied += v.outcome == APPLY_CONFLICT || v.outcome == APPLY_REFUSED;
    if (report && report->say)
        report->say(report->data, i->e.path, (enum apply_outcome)v.outcome, v.why);
    return 0;
}

/* First what comes, then what goes (the deepest first), then what had to wait for that. */
static int settle_all(const struct apply *ap, struct items *list, const struct apply_report *report,
                      struct error *err)
{
    int not_applied = 0, r = 0;
    for (size_t i = 0; i < list->count && r >= 0; i++)
        if (list->at[i].e.kind != WIRE_DELETED)
            r = settle_item(ap, &list->at[i], report, &not_applied, err);
    for (size_t i = list->count; i-- > 0 && r >= 0;)
        if (list->at[i].e.kind == WIRE_DELETED)
            r = settle_item(ap, &list->at[i], report, &not_applied, err);
    for (size_t i = 0; i < list->count && r >= 0; i++)
        if (list->at[i].later)
            r = settle_item(ap, &list->at[i], report, &not_applied, err);
    return r < 0 ? r : not_applied;
}

static int list_all(const struct apply *ap, struct items *list, struct error *err)
{
    _cleanup_fd_ int conn = -1;
    int r = ap->connect(ap->data, &conn);
    if (r < 0)
        return error_errno(err, -r, "cannot reach the scribe");
    r = changes_each(conn, keep, list, err);
    if (r > 0)
        return error_set(err, E2BIG, "the box changed more files than can be applied (%u)", CHANGES_MAX);
    return r;
}

int apply_changes(int folder_fd, int64_t since_realtime_ns, struct apply_memory *memory,
                  int (*connect)(void *data, int *ret_fd), void *data, const struct apply_report *report,
                  struct error *err)
{
    _cleanup_(items_free) struct items list = {0};
    struct apply ap = {.folder = folder_fd,
                       .since = since_realtime_ns,
                       .memory = memory,
                       .connect = connect,
                       .data = data,
                       .as_root = geteuid() == 0};
    if (fstat(folder_fd, &ap.owner) < 0)
        return error_errno(err, errno, "cannot look at the folder");
    int r = list_all(&ap, &list, err);
    return r < 0 ? r : settle_all(&ap, &list, report, err);
}
