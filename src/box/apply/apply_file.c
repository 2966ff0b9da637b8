/*
 * How apply replaces a file of the user's folder without ever losing what the user writes
 * meanwhile.
 *
 * The new file is complete, under a temporary name beside the target, before anything happens to
 * the old one. A lease on the old file makes sure that no program has it open for writing, and
 * tells if one wants to. Then both names are exchanged in one step, and what came out is compared
 * with what was expected: if the user was faster, the names are exchanged back. A file that is to
 * be removed is moved aside and compared first.
 *
 * One apply at a time works on a folder: the lock is on the folder itself, so it holds for all
 * users. The journal is a file of the user's runtime folder with at most one record: the step under
 * way. With it the next apply after a kill removes a temporary file that is ours, or moves a file
 * of the user's back that a step had set aside; it never has to guess by a name.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "apply.h"
#include "box_host.h"
#include "io.h"
#include "relpath.h"
#include "sys.h"
#include "banned.h"

#define TEMP_NAME   24
#define TEMP_TRIES  16
#define BACK_TRIES  8
#define JOURNAL_MAX (RELPATH_MAX + 4096)
#define OPEN_FILE   (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

#ifndef F_SETSIG
#define F_SETSIG 10
#endif

enum journal_step {
    JOURNAL_CREATE = 'C',   /* the file at `temp` is ours */
    JOURNAL_EXCHANGE = 'X', /* `temp` (ours) and `name` (theirs) are exchanged */
    JOURNAL_ASIDE = 'A',    /* `name` (theirs) is moved to `temp` and then removed */
};

struct journal_record {
    uint32_t size; /* of the whole record with its path */
    char step;
    char temp[64];
    struct identity ours, theirs;
    char path[];
};

static const char WHY_MEANWHILE[] = "it changed in your folder while it was being applied";

static void journal_clear(struct apply *ap)
{
    if (ap->journal >= 0 && ftruncate(ap->journal, 0) < 0)
        close(TAKE_FD(ap->journal));
}

/* Records a step before it is taken. `path` is the target's, `temp` the name in the same folder. */
static void journal_set(struct apply *ap, enum journal_step step, const char *path,
                        const char *temp, const struct identity *ours,
                        const struct identity *theirs)
{
    if (ap->journal < 0)
        return;
    size_t n = strlen(path) + 1;
    _cleanup_buf_ struct buf out = BUF_INIT(JOURNAL_MAX);
    struct journal_record rec = {.size = (uint32_t)(sizeof rec + n), .step = (char)step};
    snprintf(rec.temp, sizeof rec.temp, "%s", temp);
    if (ours)
        rec.ours = *ours;
    if (theirs)
        rec.theirs = *theirs;
    buf_append(&out, &rec, sizeof rec);
    buf_append(&out, path, n);
    /* A journal that cannot be written only means that a leftover stays after a kill. */
    if (out.failed || pwrite(ap->journal, out.data, out.len, 0) != (ssize_t)out.len ||
        ftruncate(ap->journal, (off_t)out.len) < 0)
        journal_clear(ap);
}

/* Opens the journal of the folder, in a folder beside that of the boxes which only its owner can
 * enter. A journal that cannot be opened only means that a leftover stays after a kill. */
static void journal_open(struct apply *ap)
{
    char name[64];
    struct identity id;
    _cleanup_fd_ int runtime = -1, dir = -1;
    if (host_open_runtime(true, &runtime, NULL) < 0 ||
        host_open_private(runtime, "applies", true, &dir, NULL) < 0 ||
        identity_get(ap->folder, "", &id) < 0)
        return;
    snprintf(name, sizeof name, "%llx-%llx", (unsigned long long)id.dev,
             (unsigned long long)id.ino);
    ap->journal = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Takes back, or completes, the step on which an apply was killed. */
static void journal_repair(int folder, const struct journal_record *rec)
{
    struct identity at_temp, at_name;
    const char *name = relpath_name(rec->path);
    _cleanup_fd_ int dir = -1;
    if (beneath_open_parent(folder, rec->path, &dir) < 0 ||
        identity_get(dir, rec->temp, &at_temp) < 0)
        return;
    bool ours = at_temp.ino == rec->ours.ino && at_temp.dev == rec->ours.dev;
    if (rec->step == JOURNAL_CREATE || (rec->step == JOURNAL_EXCHANGE && ours)) {
        unlinkat(dir, rec->temp, 0);
    } else if (rec->step == JOURNAL_ASIDE) {
        sys_renameat2(dir, rec->temp, dir, name, RENAME_NOREPLACE);
    } else if (rec->step == JOURNAL_EXCHANGE) {
        /* The exchange was made. If the user's file is as it was, it can go. If not, it goes back
         * to its name, unless the user has put another one there. */
        if (identity_same_content(&at_temp, &rec->theirs) ||
            (identity_get(dir, name, &at_name) == 0 && at_name.ino == rec->ours.ino &&
             sys_renameat2(dir, rec->temp, dir, name, RENAME_EXCHANGE) == 0 &&
             identity_get(dir, rec->temp, &at_name) == 0 && at_name.ino == rec->ours.ino))
            unlinkat(dir, rec->temp, 0);
    }
}

int apply_journal_open(struct apply *ap, struct error *err)
{
    /* A description of its own: forks share that of `folder`, and with it they would share the
     * lock. */
    ap->lock = openat(ap->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ap->lock < 0)
        return error_errno(err, errno, "cannot open the folder");
    int r;
    do
        r = flock(ap->lock, LOCK_EX);
    while (r < 0 && errno == EINTR);
    /* Some network filesystems have no locks for folders; each file is checked before it is
     * replaced anyway. */
    journal_open(ap);
    _cleanup_free_ struct journal_record *rec = calloc(1, JOURNAL_MAX);
    ssize_t n = rec && ap->journal >= 0 ? pread(ap->journal, rec, JOURNAL_MAX - 1, 0) : -1;
    if (n <= (ssize_t)sizeof *rec)
        return 0;
    rec->temp[sizeof rec->temp - 1] = 0;
    if (rec->size == (uint32_t)n && relpath_is_valid(rec->path, strlen(rec->path)) &&
        !strchr(rec->temp, '/') && strncmp(rec->temp, ".hutch-", 7) == 0)
        journal_repair(ap->folder, rec);
    journal_clear(ap);
    return 0;
}

void apply_journal_close(struct apply *ap)
{
    journal_clear(ap);
    cleanup_close(&ap->journal);
    cleanup_close(&ap->lock);
    ap->journal = ap->lock = -1;
}

static int apply_conflict(struct apply *ap, const char *why)
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
     * user's in the same tick would leave the time as it is. */
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {0}};
    clock_gettime(CLOCK_REALTIME, &times[1]);
    if (r == 0 && (futimens(fd, times) < 0 || fchmod(fd, c->mode & 0777) < 0))
        r = -errno;
    if (r == 0)
        return 0;
    unlinkat(dir, temp, 0);
    return error_errno(err, -r, "cannot finish writing");
}

/* A name that no other program can guess. */
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
    struct identity before, linked;
    _cleanup_fd_ int from = -1;
    bool is_link = S_ISLNK(c->mode);
    int r = -EEXIST;
    if (is_link && (!c->entry->target || !*c->entry->target))
        return error_set(err, EPROTO, "the link has no target");
    const struct seen_entry *first = c->link_to ? seen_find(ap->seen, c->link_to) : NULL;
    for (int i = 0; i < TEMP_TRIES && r == -EEXIST; i++) {
        r = temp_make_name(temp, err);
        if (r < 0)
            return r;
        journal_set(ap, JOURNAL_CREATE, path, temp, NULL, NULL);
        /* Another name for a file that this apply has written, unless it is another by now. */
        if (first && first->state == SEEN_KNOWN &&
            (from >= 0 || beneath_open_parent(ap->folder, c->link_to, &from) == 0) &&
            identity_get(from, relpath_name(c->link_to), &before) == 0 &&
            identity_same(&before, &first->id) &&
            linkat(from, relpath_name(c->link_to), dir, temp, 0) == 0) {
            if (identity_get(dir, temp, &linked) == 0 && identity_same_content(&linked, &before)) {
                seen_moved(ap->seen, &before, &linked);
                return 0;
            }
            unlinkat(dir, temp, 0);
        }
        if (is_link)
            r = symlinkat(c->entry->target, dir, temp) < 0 ? -errno : 0;
        else
            r = temp_make_file(ap, dir, temp, c, owner, err);
    }
    if (!is_link && r != -EEXIST)
        return r;
    if (r < 0)
        return error_errno(err, -r, "cannot create a %s", is_link ? "link" : "file");
    r = apply_chown(ap, dir, dir, temp, owner);
    if (r == 0)
        return 0;
    unlinkat(dir, temp, 0);
    return error_errno(err, -r, "cannot give the link to its owner");
}

static bool identity_is_at(int dir, const char *name, const struct identity *expect)
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
        return apply_conflict(ap, "another program has it open for writing");
    return identity_is_at(dir, name, expect) ? APPLY_DONE : apply_conflict(ap, WHY_MEANWHILE);
}

static bool lease_is_held(int fd)
{
    return fd < 0 || fcntl(fd, F_GETLEASE) == F_RDLCK;
}

/* The user's file was moved to `temp`. If it is the expected one, and no program wants to write to
 * it, the log keeps it for undo. */
static int temp_check(struct apply *ap, int dir, const char *path, const char *temp,
                      const struct identity *expect, int lease, struct error *err)
{
    struct identity out;
    ap->why = WHY_MEANWHILE;
    if (identity_get(dir, temp, &out) < 0 || !identity_same_content(&out, expect) ||
        !lease_is_held(lease))
        return APPLY_CONFLICT;
    int r = log_previous(ap, dir, path, temp, expect, err);
    if (r < 0 || lease_is_held(lease))
        return r;
    applied_log_drop_last(ap->log);
    return APPLY_CONFLICT;
}

/* The user's file at `temp` is no longer needed. */
static void temp_drop(struct apply *ap, int dir, const char *temp, const struct identity *expect,
                      int lease)
{
    struct identity out;
    unlinkat(dir, temp, 0);
    if (expect->links > 1 && lease >= 0 && identity_get(lease, "", &out) == 0)
        seen_moved(ap->seen, expect, &out);
}

/* The user was faster: their file at `temp` goes back to its name, and ours is removed. If
 * meanwhile they put a newer one in the place of ours, that one stays, and the one that they
 * replaced themselves goes. */
static void temp_put_back(int dir, const char *temp, const char *name, uint64_t ours)
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

static int temp_exchange(struct apply *ap, int dir, const char *path, const char *temp,
                         const struct identity *ours, const struct identity *expect,
                         struct error *err)
{
    const char *name = relpath_name(path);
    _cleanup_fd_ int lease = -1;
    int r = lease_take(ap, dir, name, expect, &lease);
    if (r != APPLY_DONE)
        return r;
    journal_set(ap, JOURNAL_EXCHANGE, path, temp, ours, expect);
    if (sys_renameat2(dir, temp, dir, name, RENAME_EXCHANGE) == 0) {
        r = temp_check(ap, dir, path, temp, expect, lease, err);
        if (r == APPLY_DONE)
            temp_drop(ap, dir, temp, expect, lease);
        else
            temp_put_back(dir, temp, name, ours->ino);
        return r;
    }
    int code = errno;
    ap->why = WHY_MEANWHILE;
    if (code == ENOENT)
        return APPLY_CONFLICT;
    if (code == EINVAL || code == ENOSYS) {
        /* This filesystem cannot exchange names: the window between a last look and the rename is
         * small. */
        r = log_previous(ap, dir, path, name, expect, err);
        if (r < 0)
            return r;
        if (!identity_is_at(dir, name, expect)) {
            applied_log_drop_last(ap->log);
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
    r = expect ? temp_exchange(ap, dir, path, temp, &ours, expect, err)
               : log_previous(ap, dir, path, name, NULL, err);
    if (!expect && r == 0) {
        int code = sys_renameat2(dir, temp, dir, name, RENAME_NOREPLACE) < 0 ? errno : 0;
        if (code == EINVAL || code == ENOSYS) { /* a hard link can refuse to replace, too */
            code = linkat(dir, temp, dir, name, 0) < 0 ? errno : 0;
            if (code == 0)
                unlinkat(dir, temp, 0);
        }
        if (code) {
            applied_log_drop_last(ap->log);
            r = code == EEXIST ? apply_conflict(ap, "your folder has another file of that name now")
                               : error_errno(err, code, "cannot put the new file in its place");
        }
    }
    if (r != APPLY_DONE && identity_get(dir, temp, &left) == 0 && left.ino == ours.ino)
        unlinkat(dir, temp, 0);
    journal_clear(ap);
    if (r != APPLY_DONE)
        return r;
    /* If the user has changed or replaced ours already, `ret` is what we wrote: then the next
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
                   ? apply_conflict(ap, "your folder has something in it now")
                   : error_errno(err, errno, "cannot remove it");
    }
    int r = lease_take(ap, dir, name, expect, &lease);
    if (r == APPLY_DONE)
        r = temp_make_name(temp, err);
    if (r != APPLY_DONE)
        return r;

    journal_set(ap, JOURNAL_ASIDE, path, temp, NULL, expect);
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
        r = apply_conflict(ap, WHY_MEANWHILE);
    } else {
        r = error_errno(err, code, "cannot remove it");
    }
    journal_clear(ap);
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
    applied_log_drop_last(ap->log);
    return r == EEXIST ? apply_conflict(ap, "your folder has something else of that name now")
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
