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
#include "apply_file.h"
#include "relpath.h"
#include "fetch.h"
#include "io.h"
#include "note.h"
#include "sys.h"
#include "banned.h"

#define TEMP_NAME  24
#define TEMP_TRIES 16
#define BACK_TRIES 8

#ifndef F_SETSIG
#define F_SETSIG 10
#endif

static const char WHY_CHANGED[] = "it changed in your folder while it was being applied";
static const char WHY_WRITTEN[] = "another program has it open for writing";

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

static int step_into(struct apply *ap, int dir, const char *name, int *ret_fd)
{
    int r = beneath_open_dir(dir, name, ret_fd);
    if (r != -ENOENT)
        return r;
    if (mkdirat(dir, name, 0777) < 0)
        return -errno;
    r = apply_chown(ap, dir, dir, name, &ap->owner);
    return r < 0 ? r : beneath_open_dir(dir, name, ret_fd);
}

static int make_parents(struct apply *ap, const char *path, int *ret_fd)
{
    _cleanup_fd_ int dir = -1;
    int r = beneath_open_dir(ap->job->folder, "", &dir);
    for (const char *slash; r >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        _cleanup_free_ char *name = strndup(path, (size_t)(slash - path));
        int next = -1;
        r = name ? step_into(ap, dir, name, &next) : -ENOMEM;
        if (r < 0)
            break;
        close(dir);
        dir = next;
    }
    if (r < 0)
        return r;
    *ret_fd = TAKE_FD(dir);
    return 0;
}

int apply_open_parent(struct apply *ap, const char *path, bool create, int *ret_fd)
{
    int r = beneath_open_parent(ap->job->folder, path, ret_fd);
    return r == -ENOENT && create ? make_parents(ap, path, ret_fd) : r;
}

/* Adds the state that a path has now, or had until it moved to `name`, to the log. */
static int log_previous(struct apply *ap, int dir, const char *path, const char *name,
                        const struct identity *old)
{
    char target[PATH_MAX + 1];
    _cleanup_fd_ int content = -1;
    struct applied_entry e = {.path = path, .kind = APPLIED_ABSENT};
    if (!ap->job->log)
        return 0;
    if (old && S_ISREG(old->mode)) {
        e.kind = APPLIED_FILE;
        content = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    } else if (old && S_ISLNK(old->mode)) {
        ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
        if (n < 0)
            return -errno;
        target[n] = 0;
        e.kind = APPLIED_LINK;
        e.target = target;
    } else if (old && S_ISDIR(old->mode)) {
        e.kind = APPLIED_DIR;
    }
    e.mode = old ? old->mode & 07777 : 0;
    e.size = old && S_ISREG(old->mode) ? old->size : 0;
    return applied_log_add(ap->job->log, &e, content);
}

/* What was announced to the log did not happen. */
static void log_forget(struct apply *ap)
{
    if (ap->job->log)
        applied_log_drop_last(ap->job->log);
}

/* A name that nobody can have prepared for. */
static int make_temp_name(char name[TEMP_NAME])
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz012345";
    uint8_t random[12];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -EIO;
    int n = snprintf(name, TEMP_NAME, ".hutch-");
    for (size_t i = 0; i < sizeof random; i++)
        name[n++] = LETTERS[random[i] % 32];
    name[n] = 0;
    return 0;
}

struct writing {
    struct apply *ap;
    int fd;
    int status;
};

static int put_bytes(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct writing *w = data;
    w->ap->written += n;
    if (w->ap->written > w->ap->job->bytes_max)
        return w->status = -EDQUOT;
    if (lseek(w->fd, (off_t)offset, SEEK_SET) < 0)
        return w->status = -errno;
    return w->status = io_write_all(w->fd, bytes, n);
}

static int fetch_into(struct apply *ap, const struct changes_entry *e,
                      const struct fetch_sink *sink, struct error *err)
{
    _cleanup_fd_ int conn = -1;
    int r = ap->job->connect(ap->job->data, &conn);
    if (r < 0)
        return error_errno(err, -r, "cannot reach the diff worker");
    return fetch_file(conn, e->path, e->size, sink, err);
}

/* Fills a new file and gives it its length, owner and mode. Of the mode only the permissions are
 * taken. */
static int fill_file(struct apply *ap, int dir, int fd, const struct apply_content *c,
                     const struct identity *owner, struct error *err)
{
    struct writing w = {.ap = ap, .fd = fd};
    uint64_t size = c->bytes ? c->bytes->size : c->entry->size;
    int r = 0;
    if (c->bytes)
        r = put_bytes(&w, 0, c->bytes->data, c->bytes->size) < 0 ? -ECANCELED : 0;
    else
        r = fetch_into(ap, c->entry, &(struct fetch_sink){put_bytes, &w}, err);
    if (r == -ECANCELED && w.status == -EDQUOT)
        return error_set(err, EDQUOT, "the changes hold more than the box's disk limit");
    if (r == -ECANCELED)
        return error_errno(err, -w.status, "cannot write");
    if (r < 0)
        return r;
    r = ftruncate(fd, (off_t)size) < 0 ? -errno : apply_chown(ap, dir, fd, "", owner);
    /* A time that no write gives a file: the kernel's clock for these is coarse, and a write of the
     * person's in the same tick would leave the time as it is. */
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {0}};
    clock_gettime(CLOCK_REALTIME, &times[1]);
    if (r == 0 && futimens(fd, times) < 0)
        r = -errno;
    if (r == 0 && fchmod(fd, c->mode & 0777) < 0)
        r = -errno;
    return r < 0 ? error_errno(err, -r, "cannot finish writing") : 0;
}

static int make_file(struct apply *ap, int dir, const char *temp, const struct apply_content *c,
                     const struct identity *owner, struct error *err)
{
    _cleanup_fd_ int fd =
        openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? -EEXIST : error_errno(err, errno, "cannot create a file");
    int r = fill_file(ap, dir, fd, c, owner, err);
    if (r < 0)
        unlinkat(dir, temp, 0);
    return r;
}

static int make_symlink(struct apply *ap, int dir, const char *temp, const char *target,
                        const struct identity *owner, struct error *err)
{
    if (!target || !*target)
        return error_set(err, EPROTO, "the link has no target");
    if (symlinkat(target, dir, temp) < 0)
        return errno == EEXIST ? -EEXIST : error_errno(err, errno, "cannot create a link");
    int r = apply_chown(ap, dir, dir, temp, owner);
    if (r < 0)
        unlinkat(dir, temp, 0);
    return r < 0 ? error_errno(err, -r, "cannot give the link to its owner") : 0;
}

/* Another name for a file that this apply has written. -ENOENT if that is not possible. */
static int make_hard_link(struct apply *ap, int dir, const char *temp, const char *first)
{
    struct identity before, linked;
    _cleanup_fd_ int from = -1;
    const struct seen_entry *e = seen_find(ap->job->seen, first);
    if (!e || e->state != SEEN_KNOWN || beneath_open_parent(ap->job->folder, first, &from) < 0 ||
        identity_get(from, relpath_name(first), &before) < 0 || !identity_same(&before, &e->id) ||
        linkat(from, relpath_name(first), dir, temp, 0) < 0)
        return -ENOENT;
    if (identity_get(dir, temp, &linked) == 0 && identity_same_content(&linked, &before)) {
        seen_moved(ap->job->seen, &before, &linked);
        return 0;
    }
    unlinkat(dir, temp, 0);
    return -ENOENT;
}

static int make_temp(struct apply *ap, int dir, const char *path, char temp[TEMP_NAME],
                     const struct apply_content *c, const struct identity *owner, struct error *err)
{
    for (int i = 0; i < TEMP_TRIES; i++) {
        int r = make_temp_name(temp);
        if (r < 0)
            return error_errno(err, -r, "no random name");
        apply_journal_set(&ap->journal, APPLY_STEP_CREATE, path, temp, NULL, NULL);
        if (c->link_to && make_hard_link(ap, dir, temp, c->link_to) == 0)
            return 0;
        r = S_ISLNK(c->mode) ? make_symlink(ap, dir, temp, c->entry->target, owner, err)
                             : make_file(ap, dir, temp, c, owner, err);
        if (r != -EEXIST)
            return r;
    }
    return error_errno(err, EEXIST, "cannot create a file");
}

/* Takes a lease: while it is held, a program that opens the file for writing waits, and F_GETLEASE
 * shows it. The signal that comes with it is one that is ignored by default. -EAGAIN: a program has
 * it open for writing already. -1 as *ret_fd where there are no leases. */
static int lease_take(int dir, const char *name, const struct identity *expect, int *ret_fd)
{
    *ret_fd = -1;
    if (!S_ISREG(expect->mode))
        return 0;
    _cleanup_fd_ int fd =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (fcntl(fd, F_SETSIG, SIGURG) < 0 || fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN ? -EAGAIN : 0;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static bool lease_is_held(int fd)
{
    return fd < 0 || fcntl(fd, F_GETLEASE) == F_RDLCK;
}

static bool is_at(int dir, const char *name, const struct identity *expect)
{
    struct identity now;
    return identity_get(dir, name, &now) == 0 && identity_same(&now, expect);
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

/* Filesystems that cannot exchange names: the window between the last look and the rename is small.
 */
static int replace_plainly(struct apply *ap, int dir, const char *path, const char *temp,
                           const struct identity *expect, struct error *err)
{
    const char *name = relpath_name(path);
    int r = log_previous(ap, dir, path, name, expect);
    if (r < 0)
        return error_errno(err, -r, "cannot keep the previous version for undo");
    if (!is_at(dir, name, expect)) {
        log_forget(ap);
        return 1;
    }
    if (renameat(dir, temp, dir, name) < 0)
        return error_errno(err, errno, "cannot put the new file in its place");
    return 0;
}

static int put_replace(struct apply *ap, int dir, const char *path, const char *temp,
                       const struct identity *ours, const struct identity *expect,
                       const char **ret_why, struct error *err)
{
    struct identity out;
    const char *name = relpath_name(path);
    _cleanup_fd_ int lease = -1; /* closing it ends the lease */
    *ret_why = WHY_CHANGED;
    if (lease_take(dir, name, expect, &lease) == -EAGAIN) {
        *ret_why = WHY_WRITTEN;
        return 1;
    }
    if (!is_at(dir, name, expect))
        return 1;
    apply_journal_set(&ap->journal, APPLY_STEP_EXCHANGE, path, temp, ours, expect);
    if (sys_renameat2(dir, temp, dir, name, RENAME_EXCHANGE) < 0) {
        if (errno == EINVAL || errno == ENOSYS)
            return replace_plainly(ap, dir, path, temp, expect, err);
        return errno == ENOENT ? 1
                               : error_errno(err, errno, "cannot put the new file in its place");
    }
    int r = identity_get(dir, temp, &out) == 0 && identity_same_content(&out, expect) &&
                    lease_is_held(lease)
                ? log_previous(ap, dir, path, temp, expect)
                : 1;
    if (r == 0 && !lease_is_held(lease)) {
        log_forget(ap);
        r = 1;
    }
    if (r != 0) {
        put_back(dir, temp, name, ours->ino);
        return r > 0 ? 1 : error_errno(err, -r, "cannot keep the previous version for undo");
    }
    unlinkat(dir, temp, 0);
    if (expect->links > 1 && lease >= 0 && identity_get(lease, "", &out) == 0)
        seen_moved(ap->job->seen, expect, &out);
    return 0;
}

/* Puts a file where there is none. Where the filesystem cannot refuse to replace, a hard link can.
 */
static int put_new(struct apply *ap, int dir, const char *path, const char *temp,
                   const char **ret_why, struct error *err)
{
    const char *name = relpath_name(path);
    *ret_why = "your folder has another file of that name now";
    int r = log_previous(ap, dir, path, name, NULL);
    if (r < 0)
        return error_errno(err, -r, "cannot keep the previous state for undo");
    if (sys_renameat2(dir, temp, dir, name, RENAME_NOREPLACE) == 0)
        return 0;
    r = errno;
    if ((r == EINVAL || r == ENOSYS) && linkat(dir, temp, dir, name, 0) == 0) {
        unlinkat(dir, temp, 0);
        return 0;
    }
    if (r == EINVAL || r == ENOSYS)
        r = errno;
    log_forget(ap);
    return r == EEXIST ? 1 : error_errno(err, r, "cannot put the new file in its place");
}

int apply_put(struct apply *ap, int dir, const char *path, const struct apply_content *c,
              const struct identity *expect, struct identity *ret, const char **ret_why,
              struct error *err)
{
    char temp[TEMP_NAME];
    struct identity ours;
    int r = make_temp(ap, dir, path, temp, c, expect ? expect : &ap->owner, err);
    if (r < 0)
        return r;
    r = identity_get(dir, temp, &ours);
    if (r < 0)
        return error_errno(err, -r, "cannot look at the new file");
    r = expect ? put_replace(ap, dir, path, temp, &ours, expect, ret_why, err)
               : put_new(ap, dir, path, temp, ret_why, err);
    struct identity left;
    if (r != 0 && identity_get(dir, temp, &left) == 0 && left.ino == ours.ino)
        unlinkat(dir, temp, 0);
    apply_journal_clear(&ap->journal);
    if (r != 0)
        return r;
    /* If the person has changed or replaced ours already, `ret` is what we wrote: then the next
     * apply sees that it is another version. */
    r = identity_get(dir, relpath_name(path), ret);
    if (r < 0 || !identity_same_content(ret, &ours))
        *ret = ours;
    else if (ours.links > 1)
        seen_moved(ap->job->seen, &ours, ret);
    return 0;
}

static int remove_dir(struct apply *ap, int dir, const char *path, const struct identity *expect,
                      const char **ret_why, struct error *err)
{
    if (unlinkat(dir, relpath_name(path), AT_REMOVEDIR) < 0) {
        *ret_why = "your folder has something in it now";
        return errno == ENOTEMPTY || errno == EEXIST ? 1
                                                     : error_errno(err, errno, "cannot remove it");
    }
    int r = log_previous(ap, dir, path, "", expect);
    return r < 0 ? error_errno(err, -r, "cannot keep the previous state for undo") : 0;
}

int apply_remove(struct apply *ap, int dir, const char *path, const struct identity *expect,
                 const char **ret_why, struct error *err)
{
    char temp[TEMP_NAME];
    struct identity out;
    const char *name = relpath_name(path);
    _cleanup_fd_ int lease = -1;
    *ret_why = WHY_CHANGED;
    if (S_ISDIR(expect->mode))
        return remove_dir(ap, dir, path, expect, ret_why, err);
    if (lease_take(dir, name, expect, &lease) == -EAGAIN) {
        *ret_why = WHY_WRITTEN;
        return 1;
    }
    if (!is_at(dir, name, expect))
        return 1;
    int r = make_temp_name(temp);
    if (r < 0)
        return error_errno(err, -r, "no random name");
    apply_journal_set(&ap->journal, APPLY_STEP_ASIDE, path, temp, NULL, expect);
    r = sys_renameat2(dir, name, dir, temp, RENAME_NOREPLACE) < 0 ? -errno : 0;
    if (r == -EINVAL || r == -ENOSYS)
        r = renameat(dir, name, dir, temp) < 0 ? -errno : 0;
    if (r < 0) {
        apply_journal_clear(&ap->journal);
        return r == -ENOENT ? 1 : error_errno(err, -r, "cannot remove it");
    }
    r = identity_get(dir, temp, &out) == 0 && identity_same_content(&out, expect) &&
                lease_is_held(lease)
            ? log_previous(ap, dir, path, temp, expect)
            : 1;
    if (r == 0 && !lease_is_held(lease)) {
        log_forget(ap);
        r = 1;
    }
    /* It goes back if it is another one; unless they have replaced that one themselves by now. */
    if (r == 0 || (sys_renameat2(dir, temp, dir, name, RENAME_NOREPLACE) < 0 && errno == EEXIST))
        unlinkat(dir, temp, 0);
    apply_journal_clear(&ap->journal);
    if (r == 0 && expect->links > 1 && lease >= 0 && identity_get(lease, "", &out) == 0)
        seen_moved(ap->job->seen, expect, &out);
    return r < 0 ? error_errno(err, -r, "cannot keep the previous version for undo") : r;
}

int apply_make_dir(struct apply *ap, int dir, const char *path, const char **ret_why,
                   struct error *err)
{
    const char *name = relpath_name(path);
    int r = log_previous(ap, dir, path, name, NULL);
    if (r < 0)
        return error_errno(err, -r, "cannot keep the previous state for undo");
    if (mkdirat(dir, name, 0700) == 0) {
        r = apply_chown(ap, dir, dir, name, &ap->owner);
        return r < 0 ? error_errno(err, -r, "cannot give the folder to its owner") : 0;
    }
    r = errno;
    log_forget(ap);
    *ret_why = "your folder has something else of that name now";
    return r == EEXIST ? 1 : error_errno(err, r, "cannot create a folder");
}

int apply_set_dir_mode(struct apply *ap, const char *path, mode_t mode,
                       const struct identity *expect, struct error *err)
{
    struct identity now;
    _cleanup_fd_ int parent = -1;
    int r = beneath_open_parent(ap->job->folder, path, &parent);
    if (r < 0)
        return 0; /* it has gone already */
    _cleanup_fd_ int dir =
        openat(parent, relpath_name(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || identity_get(dir, "", &now) < 0 ||
        (expect && !identity_same_inode(&now, expect)))
        return 0;
    if (expect)
        r = log_previous(ap, dir, path, "", expect);
    mode_t kept =
        now.mode &
        (S_ISGID | S_ISVTX); /* what says whose its new files are, and who may remove them */
    if (r == 0 && fchmod(dir, kept | (mode & 0777)) < 0)
        r = -errno;
    return r < 0 ? error_errno(err, -r, "cannot set the mode of a folder") : 0;
}

struct collecting {
    struct seen_base *to;
};

static int collect_bytes(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct collecting *c = data;
    memcpy(c->to->data + offset, bytes, n); /* fetch_file keeps offset + n within the size */
    return 0;
}

int apply_fetch(struct apply *ap, const struct changes_entry *e, size_t max, struct seen_base **ret,
                struct error *err)
{
    if (e->size > max)
        return -EFBIG;
    _cleanup_free_ struct seen_base *b = calloc(1, sizeof *b + e->size);
    if (!b)
        return error_errno(err, ENOMEM, "cannot read the box's version");
    b->refs = 1;
    b->size = e->size;
    struct collecting c = {.to = b};
    int r = fetch_into(ap, e, &(struct fetch_sink){collect_bytes, &c}, err);
    if (r == 0)
        *ret = TAKE_PTR(b);
    return r;
}

struct comparing {
    int fd;
    uint64_t at;
    bool same;
};

static int compare_bytes(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct comparing *c = data;
    c->same = c->same && offset == c->at; /* what has holes is taken to differ */
    for (size_t done = 0; c->same && done < n;) {
        char space[16384];
        size_t want = n - done < sizeof space ? n - done : sizeof space;
        ssize_t got = pread(c->fd, space, want, (off_t)(offset + done));
        c->same = got > 0 && memcmp(space, (const char *)bytes + done, (size_t)got) == 0;
        done += got > 0 ? (size_t)got : 0;
    }
    c->at = offset + n;
    return c->same ? 0 : -ECANCELED;
}

static int is_same_file(struct apply *ap, int dir, const struct changes_entry *e,
                        const struct identity *now, struct error *err)
{
    struct identity after;
    _cleanup_fd_ int fd = openat(dir, relpath_name(e->path),
                                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    struct comparing c = {.fd = fd, .same = true};
    int r = fetch_into(ap, e, &(struct fetch_sink){compare_bytes, &c}, err);
    if (r < 0 && r != -ECANCELED)
        return r;
    return r == 0 && c.at == e->size && identity_get(fd, "", &after) == 0 &&
           identity_same(&after, now);
}

static bool is_same_link(int dir, const struct changes_entry *e)
{
    char target[PATH_MAX + 1];
    ssize_t n = readlinkat(dir, relpath_name(e->path), target, sizeof target);
    return e->target && n >= 0 && (size_t)n == strlen(e->target) &&
           memcmp(target, e->target, (size_t)n) == 0;
}

int apply_is_same(struct apply *ap, int dir, const struct changes_entry *e,
                  const struct identity *now, struct error *err)
{
    if ((now->mode & S_IFMT) != (e->mode & S_IFMT))
        return 0;
    if (S_ISLNK(e->mode))
        return is_same_link(dir, e);
    if ((now->mode & 0777) != (e->mode & 0777) || now->size != e->size)
        return 0;
    return is_same_file(ap, dir, e, now, err);
}
