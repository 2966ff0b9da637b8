/*
 * One apply at a time per folder, and what a killed one left behind.
 *
 * The lock is on the folder itself, so it holds for all users. The journal is a file of the user's
 * runtime folder with at most one record: the step on the way. With it the next apply removes a
 * temporary file that is ours, or moves a file of the person's back that a step had set aside; it
 * never has to guess by a name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply.h"
#include "cleanup.h"
#include "registry.h"
#include "relpath.h"
#include "sys.h"
#include "text.h"
#include "banned.h"

#define RECORD_MAX (RELPATH_MAX + 4096)
#define TEMP_MAX   64

struct journal_record {
    uint32_t size; /* of the whole record with its path */
    char step;
    char temp[TEMP_MAX];
    struct identity ours, theirs;
    char path[];
};

/* The journal of a folder, in a folder beside that of the boxes which only its owner can enter. */
static int journal_open_file(int folder)
{
    char name[64];
    struct stat st;
    struct identity id;
    _cleanup_fd_ int registry = -1;
    if (registry_open(true, &registry, NULL) < 0 || identity_get(folder, "", &id) < 0)
        return -1;
    if (mkdirat(registry, "../applies", 0700) < 0 && errno != EEXIST)
        return -1;
    _cleanup_fd_ int dir =
        openat(registry, "../applies", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))
        return -1;
    snprintf(name, sizeof name, "%llx-%llx", (unsigned long long)id.dev,
             (unsigned long long)id.ino);
    return openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
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
    if (rec->step == APPLY_STEP_CREATE || (rec->step == APPLY_STEP_EXCHANGE && ours)) {
        unlinkat(dir, rec->temp, 0);
    } else if (rec->step == APPLY_STEP_ASIDE) {
        sys_renameat2(dir, rec->temp, dir, name, RENAME_NOREPLACE);
    } else if (rec->step == APPLY_STEP_EXCHANGE) {
        /* The exchange was made. If the person's file is as it was, it can go. If not, it goes back
         * to its name, unless the person has put another one there. */
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
    ap->journal = journal_open_file(ap->folder);
    _cleanup_free_ struct journal_record *rec = calloc(1, RECORD_MAX);
    ssize_t n = rec && ap->journal >= 0 ? pread(ap->journal, rec, RECORD_MAX - 1, 0) : -1;
    if (n <= (ssize_t)sizeof *rec)
        return 0;
    rec->temp[TEMP_MAX - 1] = 0;
    if (rec->size == (uint32_t)n && relpath_is_valid(rec->path, strlen(rec->path)) &&
        !strchr(rec->temp, '/') && strncmp(rec->temp, ".hutch-", 7) == 0)
        journal_repair(ap->folder, rec);
    apply_journal_clear(ap);
    return 0;
}

void apply_journal_close(struct apply *ap)
{
    apply_journal_clear(ap);
    cleanup_close(&ap->journal);
    cleanup_close(&ap->lock);
    ap->journal = ap->lock = -1;
}

void apply_journal_set(struct apply *ap, enum apply_step step, const char *path, const char *temp,
                       const struct identity *ours, const struct identity *theirs)
{
    if (ap->journal < 0)
        return;
    size_t n = strlen(path) + 1;
    _cleanup_buf_ struct buf out = BUF_INIT(RECORD_MAX);
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
        apply_journal_clear(ap);
}

void apply_journal_clear(struct apply *ap)
{
    if (ap->journal >= 0 && ftruncate(ap->journal, 0) < 0)
        close(TAKE_FD(ap->journal));
}
