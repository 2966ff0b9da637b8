/*
 * How a file of the person's folder is replaced without ever losing what the person writes
 * meanwhile.
 *
 * The new file is complete, under a temporary name beside the target, before anything happens to
 * the old one. A lease on the old file makes sure that no program has it open for writing, and
 * tells if one wants to. Then both names are exchanged in one step, and what came out is compared
 * with what was expected: if the person was faster, the names are exchanged back. A file that is to
 * be removed is moved aside and looked at first.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "applied_log.h"
#include "apply.h"
#include "io.h"
#include "relpath.h"
#include "sys.h"
#include "banned.h"

#define TEMP_NAME  24
#define TEMP_TRIES 16
#define BACK_TRIES 8
#define OPEN_FILE  (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

#ifndef F_SETSIG
#define F_SETSIG 10
#endif

static int conflict(struct apply *ap, const char *why)
{
    ap->why = why;
    return APPLY_CONFLICT;
}

/*
 * Gives something that was just made in `parent` to its owner: of the file that it replaces, or of
 * the folder that is applied to. A new thing in a set-group-id folder has its group from there
 * already. An ordinary user can give away nothing but the group, and only to a group of their own.
 */
static int apply_chown(const struct apply *ap, int parent, int dir, const char *name,
                       const struct identity *owner)
{
    struct identity above;
    gid_t gid = owner->gid;
    if (owner == &ap->owner && identity_get(parent, "", &above) == 0 && above.mode & S_ISGID)
        gid = (gid_t)-1;
    int flags = AT_SYMLINK_NOFOLLOW | (*name ? 0 : AT_EMPTY_PATH);
    if (fchownat(dir, name, ap->as_root ? owner->uid : (uid_t)-1, gid, flags) == 0)
        return 0;
    return ap->as_root ? -errno : 0;
}

int apply_open_parent(struct apply *ap, const char *path, bool create, int *ret_fd)
{
    int r = beneath_open_parent(ap->folder, path, ret_fd);
    if (r != -ENOENT || !create)
        return r;
    _cleanup_fd_ int dir = -1;
    r = beneath_open_dir(ap->folder, "", &dir);
    for (const char *slash; r >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        _cleanup_free_ char *name = strndup(path, (size_t)(slash - path));
        int next = -1;
        if (!name)
            return -ENOMEM;
        r = beneath_open_dir(dir, name, &next);
        if (r == -ENOENT) {
            if (mkdirat(dir, name, 0777) < 0)
                return -errno;
            r = apply_chown(ap, dir, dir, name, &ap->owner);
            if (r == 0)
                r = beneath_open_dir(dir, name, &next);
        }
        if (r < 0)
            return r;
        close(dir);
        dir = next;
    }
    if (r == 0)
        *ret_fd = TAKE_FD(dir);
    return r;
}

/* Adds the state that a path has now, or had until it moved to `name`, to the log for undo. */
static int log_previous(struct apply *ap, int dir, const char *path, const char *name,
                        const struct identity *old, struct error *err)
{
    char target[PATH_MAX + 1];
    _cleanup_fd_ int content = -1;
    struct applied_entry e = {.path = path, .kind = APPLIED_ABSENT};
    int r = 0;
    if (!ap->log)
        return 0;
    if (old && S_ISREG(old->mode)) {
        e.kind = APPLIED_FILE;
        e.size = old->size;
        content = openat(dir, name, OPEN_FILE);
    } else if (old && S_ISLNK(old->mode)) {
        ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
        r = n < 0 ? -errno : 0;
        target[n < 0 ? 0 : n] = 0;
        e.kind = APPLIED_LINK;
        e.target = target;
    } else if (old && S_ISDIR(old->mode)) {
        e.kind = APPLIED_DIR;
    }
    e.mode = old ? old->mode & 07777 : 0;
    if (r == 0)
        r = applied_log_add(ap->log, &e, content);
    return r < 0 ? error_errno(err, -r, "cannot keep the previous version for undo") : 0;
}

/* What was announced to the log did not happen. */
static void log_forget(struct apply *ap)
{
    if (ap->log)
        applied_log_drop_last(ap->log);
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

struct write_sink {
    struct apply *ap;
    int fd;
    int status;
};

static int write_put(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct write_sink *w = data;
    w->ap->written += n;
    w->status = w->ap->written > w->ap->bytes_max ? -EDQUOT : io_write_at(w->fd, bytes, n, offset);
    return w->status;
}

/* Makes a complete file under a temporary name. Of the mode only the permissions are taken. */
static int temp_make_file(struct apply *ap, int dir, const char *temp,
                          const struct apply_content *c, const struct identity *owner,
                          struct error *err)
{
    _cleanup_fd_ int fd =
        openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? -EEXIST : error_errno(err, errno, "cannot create a file");
    struct write_sink w = {.ap = ap, .fd = fd};
    uint64_t size = c->bytes ? c->bytes->size : c->entry->size;
    int r = !c->bytes ? apply_fetch(ap, c->entry, &(struct fetch_sink){write_put, &w}, err)
            : write_put(&w, 0, c->bytes->data, c->bytes->size) < 0 ? -ECANCELED
                                                                   : 0;
    if (r == -ECANCELED && w.status == -EDQUOT)
        error_set(err, EDQUOT, "the changes hold more than the box's disk limit");
    else if (r == -ECANCELED)
        error_errno(err, -w.status, "cannot write");
    if (r < 0) {
        unlinkat(dir, temp, 0);
        return r == -ECANCELED ? w.status : r;
    }

    r = ftruncate(fd, (off_t)size) < 0 ? -errno : apply_chown(ap, dir, fd, "", owner);
    /* A time that no write gives a file: the kernel's clock for these is coarse, and a write of the
     * person's in the same tick would leave the time as it is. */
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {0}};
    clock_gettime(CLOCK_REALTIME, &times[1]);
    if (r == 0 && (futimens(fd, times) < 0 || fchmod(fd, c->mode & 0777) < 0))
        r = -errno;
    if (r == 0)
        return 0;
    unlinkat(dir, temp, 0);
    return error_errno(err, -r, "cannot finish writing");
}

/* Another name for a file that this apply has written. False if that is not possible. */
static bool temp_make_hard_link(struct apply *ap, int dir, const char *temp, const char *first)
{
    struct identity before, linked;
    _cleanup_fd_ int from = -1;
    const struct seen_entry *e = seen_find(ap->seen, first);
    if (!e || e->state != SEEN_KNOWN || beneath_open_parent(ap->folder, first, &from) < 0 ||
        identity_get(from, relpath_name(first), &before) < 0 || !identity_same(&before, &e->id) ||
        linkat(from, relpath_name(first), dir, temp, 0) < 0)
        return false;
    if (identity_get(dir, temp, &linked) == 0 && identity_same_content(&linked, &before)) {
        seen_moved(ap->seen, &before, &linked);
        return true;
    }
    unlinkat(dir, temp, 0);
    return false;
}

/* A name that nobody can have prepared for. */
static int temp_make_name(char name[TEMP_NAME], struct error *err)
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz012345";
    uint8_t random[12];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return error_errno(err, EIO, "cannot make a random name");
    int n = snprintf(name, TEMP_NAME, ".hutch-");
    for (size_t i = 0; i < sizeof random; i++)
        name[n++] = LETTERS[random[i] % 32];
    name[n] = 0;
    return 0;
}

static int temp_make(struct apply *ap, int dir, const char *path, char temp[TEMP_NAME],
                     const struct apply_content *c, const struct identity *owner, struct error *err)
{
    int r = 0;
    if (S_ISLNK(c->mode) && (!c->entry->target || !*c->entry->target))
        return error_set(err, EPROTO, "the link has no target");
    for (int i = 0; i < TEMP_TRIES; i++) {
        r = temp_make_name(temp, err);
        if (r < 0)
            return r;
        apply_journal_set(ap, APPLY_STEP_CREATE, path, temp, NULL, NULL);
        if (c->link_to && temp_make_hard_link(ap, dir, temp, c->link_to))
            return 0;
        r = !S_ISLNK(c->mode) ? temp_make_file(ap, dir, temp, c, owner, err)
            : symlinkat(c->entry->target, dir, temp) < 0 ? -errno
                                                         : 0;
        if (r != -EEXIST)
            break;
    }
    if (!S_ISLNK(c->mode) && r != -EEXIST)
        return r;
    if (r < 0)
        return error_errno(err, -r, "cannot create a %s", S_ISLNK(c->mode) ? "link" : "file");
    r = apply_chown(ap, dir, dir, temp, owner);
    if (r == 0)
        return 0;
    unlinkat(dir, temp, 0);
    return error_errno(err, -r, "cannot give the link to its owner");
}

static bool is_at(int dir, const char *name, const struct identity *expect)
{
    struct identity now;
    return identity_get(dir, name, &now) == 0 && identity_same(&now, expect);
}

/* Takes a lease on a file that must be `expect`: while it is held, a program that opens the file
 * for writing waits, and F_GETLEASE shows it. The signal that comes with it is one that is ignored
 * by default. -1 as *ret_fd where there are no leases. Closing it ends the lease. */
static int lease_take(struct apply *ap, int dir, const char *name, const struct identity *expect,
                      int *ret_fd)
{
    _cleanup_fd_ int fd = S_ISREG(expect->mode) ? openat(dir, name, OPEN_FILE) : -1;
    if (fd >= 0 && fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0)
        *ret_fd = TAKE_FD(fd);
    else if (fd >= 0 && errno == EAGAIN)
        return conflict(ap, "another program has it open for writing");
    return is_at(dir, name, expect)
               ? APPLY_DONE
               : conflict(ap, "it changed in your folder while it was being applied");
}

static bool lease_is_held(int fd)
{
    return fd < 0 || fcntl(fd, F_GETLEASE) == F_RDLCK;
}

/* The person's file was moved to `temp`. If it is the expected one, and nobody wants to write to
 * it, the log keeps it for undo. */
static int temp_check(struct apply *ap, int dir, const char *path, const char *temp,
                      const struct identity *expect, int lease, struct error *err)
{
    struct identity out;
    ap->why = "it changed in your folder while it was being applied";
    if (identity_get(dir, temp, &out) < 0 || !identity_same_content(&out, expect) ||
        !lease_is_held(lease))
        return APPLY_CONFLICT;
    int r = log_previous(ap, dir, path, temp, expect, err);
    if (r < 0 || lease_is_held(lease))
        return r;
    log_forget(ap);
    return APPLY_CONFLICT;
}

/* The person's file at `temp` is no longer needed. */
static void temp_drop(struct apply *ap, int dir, const char *temp, const struct identity *expect,
                      int lease)
{
    struct identity out;
    unlinkat(dir, temp, 0);
    if (expect->links > 1 && lease >= 0 && identity_get(lease, "", &out) == 0)
        seen_moved(ap->seen, expect, &out);
}

/* The person was faster: their file at `temp` goes back to its name, and ours is removed. If
 * meanwhile they put a newer one in the place of ours, that one stays, and the one that they
 * replaced themselves goes. */
static void put_back(int dir, const char *temp, const char *name, uint64_t ours)
{
    struct identity at_temp, at_name;
    uint64_t drop = ours;
    for (int i = 0; i < BACK_TRIES; i++) {
        if (sys_renameat2(dir, temp, dir, name, RENAME_EXCHANGE) < 0) {
            if (sys_renameat2(dir, temp, dir, name, RENAME_NOREPLACE) == 0)
                return; /* they removed ours */
            continue;
        }
        if (identity_get(dir, temp, &at_temp) < 0)
            return;
        if (at_temp.ino == drop) {
            unlinkat(dir, temp, 0);
            return;
        }
        if (identity_get(dir, name, &at_name) == 0)
            drop = at_name.ino;
    }
}

static int put_replace(struct apply *ap, int dir, const char *path, const char *temp,
                       const struct identity *ours, const struct identity *expect,
                       struct error *err)
{
    const char *name = relpath_name(path);
    _cleanup_fd_ int lease = -1;
    int r = lease_take(ap, dir, name, expect, &lease);
    if (r != APPLY_DONE)
        return r;
    apply_journal_set(ap, APPLY_STEP_EXCHANGE, path, temp, ours, expect);
    if (sys_renameat2(dir, temp, dir, name, RENAME_EXCHANGE) == 0) {
        r = temp_check(ap, dir, path, temp, expect, lease, err);
        if (r == APPLY_DONE)
            temp_drop(ap, dir, temp, expect, lease);
        else
            put_back(dir, temp, name, ours->ino);
        return r;
    }
    int code = errno;
    ap->why = "it changed in your folder while it was being applied";
    if (code == ENOENT)
        return APPLY_CONFLICT;
    if (code == EINVAL || code == ENOSYS) {
        /* This filesystem cannot exchange names: the window between a last look and the rename is
         * small. */
        r = log_previous(ap, dir, path, name, expect, err);
        if (r < 0)
            return r;
        if (!is_at(dir, name, expect)) {
            log_forget(ap);
            return APPLY_CONFLICT;
        }
        code = renameat(dir, temp, dir, name) < 0 ? errno : 0;
    }
    return code ? error_errno(err, code, "cannot put the new file in its place") : APPLY_DONE;
}

int apply_put(struct apply *ap, int dir, const char *path, const struct apply_content *c,
              const struct identity *expect, struct identity *ret, struct error *err)
{
    char temp[TEMP_NAME];
    struct identity ours, left;
    const char *name = relpath_name(path);
    int r = temp_make(ap, dir, path, temp, c, expect ? expect : &ap->owner, err);
    if (r < 0)
        return r;
    r = identity_get(dir, temp, &ours);
    if (r < 0)
        return error_errno(err, -r, "cannot look at the new file");
    r = expect ? put_replace(ap, dir, path, temp, &ours, expect, err)
               : log_previous(ap, dir, path, name, NULL, err);
    if (!expect && r == 0) {
        int code = sys_renameat2(dir, temp, dir, name, RENAME_NOREPLACE) < 0 ? errno : 0;
        if (code == EINVAL || code == ENOSYS) { /* a hard link can refuse to replace, too */
            code = linkat(dir, temp, dir, name, 0) < 0 ? errno : 0;
            if (code == 0)
                unlinkat(dir, temp, 0);
        }
        if (code) {
            log_forget(ap);
            r = code == EEXIST ? conflict(ap, "your folder has another file of that name now")
                               : error_errno(err, code, "cannot put the new file in its place");
        }
    }
    if (r != APPLY_DONE && identity_get(dir, temp, &left) == 0 && left.ino == ours.ino)
        unlinkat(dir, temp, 0);
    apply_journal_clear(ap);
    if (r != APPLY_DONE)
        return r;
    /* If the person has changed or replaced ours already, `ret` is what we wrote: then the next
     * apply sees that it is another version. */
    r = identity_get(dir, name, ret);
    if (r < 0 || !identity_same_content(ret, &ours))
        *ret = ours;
    else if (ours.links > 1)
        seen_moved(ap->seen, &ours, ret);
    return APPLY_DONE;
}

int apply_remove(struct apply *ap, int dir, const char *path, const struct identity *expect,
                 struct error *err)
{
    char temp[TEMP_NAME];
    const char *name = relpath_name(path);
    _cleanup_fd_ int lease = -1;
    if (S_ISDIR(expect->mode)) {
        if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
            return log_previous(ap, dir, path, "", expect, err);
        return errno == ENOTEMPTY || errno == EEXIST
                   ? conflict(ap, "your folder has something in it now")
                   : error_errno(err, errno, "cannot remove it");
    }
    int r = lease_take(ap, dir, name, expect, &lease);
    if (r == APPLY_DONE)
        r = temp_make_name(temp, err);
    if (r != APPLY_DONE)
        return r;

    apply_journal_set(ap, APPLY_STEP_ASIDE, path, temp, NULL, expect);
    int code = sys_renameat2(dir, name, dir, temp, RENAME_NOREPLACE) < 0 ? errno : 0;
    if (code == EINVAL || code == ENOSYS)
        code = renameat(dir, name, dir, temp) < 0 ? errno : 0;
    if (code == 0) {
        r = temp_check(ap, dir, path, temp, expect, lease, err);
        /* It goes back if it is another one; unless they have replaced that one themselves. */
        if (r == APPLY_DONE)
            temp_drop(ap, dir, temp, expect, lease);
        else if (sys_renameat2(dir, temp, dir, name, RENAME_NOREPLACE) < 0 && errno == EEXIST)
            unlinkat(dir, temp, 0);
    } else if (code == ENOENT) {
        r = conflict(ap, "it changed in your folder while it was being applied");
    } else {
        r = error_errno(err, code, "cannot remove it");
    }
    apply_journal_clear(ap);
    return r;
}

int apply_make_dir(struct apply *ap, int dir, const char *path, struct error *err)
{
    const char *name = relpath_name(path);
    int r = log_previous(ap, dir, path, name, NULL, err);
    if (r < 0)
        return r;
    if (mkdirat(dir, name, 0700) == 0) {
        r = apply_chown(ap, dir, dir, name, &ap->owner);
        return r < 0 ? error_errno(err, -r, "cannot give the folder to its owner") : APPLY_DONE;
    }
    r = errno;
    log_forget(ap);
    return r == EEXIST ? conflict(ap, "your folder has something else of that name now")
                       : error_errno(err, r, "cannot create a folder");
}

int apply_set_dir_mode(struct apply *ap, const char *path, mode_t mode,
                       const struct identity *expect, struct error *err)
{
    struct identity now;
    _cleanup_fd_ int parent = -1;
    int r = beneath_open_parent(ap->folder, path, &parent);
    if (r < 0)
        return 0; /* it has gone already */
    _cleanup_fd_ int dir =
        openat(parent, relpath_name(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || identity_get(dir, "", &now) < 0 ||
        (expect && !identity_same_inode(&now, expect)))
        return 0;
    if (expect)
        r = log_previous(ap, dir, path, "", expect, err);
    if (r < 0)
        return r;
    /* These say whose its new files are, and who may remove them. */
    mode_t kept = now.mode & (S_ISGID | S_ISVTX);
    if (fchmod(dir, kept | (mode & 0777)) < 0)
        return error_errno(err, errno, "cannot set the mode of a folder");
    return 0;
}
