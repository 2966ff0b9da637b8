#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply_journal.h"
#include "relpath.h"
#include "buf.h"
#include "cleanup.h"
#include "registry.h"
#include "sys.h"
#include "banned.h"

#define RECORD_MAX (RELPATH_MAX + 4096)
#define TEMP_MAX   64

struct record {
    uint32_t size; /* of the whole record with its path */
    char step;
    char temp[TEMP_MAX];
    struct identity ours, theirs;
    char path[];
};

/* A folder beside that of the boxes, which only its owner can enter. */
static int open_folder_of_journals(void)
{
    struct stat st;
    _cleanup_fd_ int registry = -1;
    if (registry_open(true, &registry, NULL) < 0)
        return -1;
    if (mkdirat(registry, "../applies", 0700) < 0 && errno != EEXIST)
        return -1;
    _cleanup_fd_ int dir =
        openat(registry, "../applies", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))
        return -1;
    return TAKE_FD(dir);
}

static int open_file(int folder)
{
    char name[64];
    struct identity id;
    _cleanup_fd_ int dir = open_folder_of_journals();
    if (dir < 0 || identity_get(folder, "", &id) < 0)
        return -1;
    snprintf(name, sizeof name, "%llx-%llx", (unsigned long long)id.dev,
             (unsigned long long)id.ino);
    return openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* The exchange was made, and the person's file at `temp` is not the expected one, or cannot be
 * compared: it goes back to its name, unless the person has put another one there. */
static void repair_exchange(int dir, const struct record *rec, const struct identity *at_temp)
{
    struct identity at_name;
    const char *name = relpath_name(rec->path);
    if (identity_same_content(at_temp, &rec->theirs)) {
        unlinkat(dir, rec->temp, 0); /* as it was when the box's version took its place */
        return;
    }
    if (identity_get(dir, name, &at_name) == 0 && at_name.ino == rec->ours.ino &&
        sys_renameat2(dir, rec->temp, dir, name, RENAME_EXCHANGE) == 0 &&
        identity_get(dir, rec->temp, &at_name) == 0 && at_name.ino == rec->ours.ino)
        unlinkat(dir, rec->temp, 0);
}

static void repair(int folder, const struct record *rec)
{
    struct identity at_temp;
    _cleanup_fd_ int dir = -1;
    if (beneath_open_parent(folder, rec->path, &dir) < 0 ||
        identity_get(dir, rec->temp, &at_temp) < 0)
        return;
    bool ours = at_temp.ino == rec->ours.ino && at_temp.dev == rec->ours.dev;
    if (rec->step == APPLY_STEP_CREATE || (rec->step == APPLY_STEP_EXCHANGE && ours))
        unlinkat(dir, rec->temp, 0);
    else if (rec->step == APPLY_STEP_EXCHANGE)
        repair_exchange(dir, rec, &at_temp);
    else if (rec->step == APPLY_STEP_ASIDE)
        sys_renameat2(dir, rec->temp, dir, relpath_name(rec->path), RENAME_NOREPLACE);
}

static void repair_all(struct apply_journal *j, int folder)
{
    _cleanup_free_ struct record *rec = calloc(1, RECORD_MAX);
    ssize_t n = rec ? pread(j->file, rec, RECORD_MAX - 1, 0) : -1;
    if (n <= (ssize_t)sizeof *rec)
        return;
    rec->temp[TEMP_MAX - 1] = 0;
    if (rec->size == (uint32_t)n && relpath_is_valid(rec->path, strlen(rec->path)) &&
        !strchr(rec->temp, '/') && strncmp(rec->temp, ".hutch-", 7) == 0)
        repair(folder, rec);
    apply_journal_clear(j);
}

int apply_journal_open(struct apply_journal *j, int folder, struct error *err)
{
    /* A description of its own: forks share that of `folder`, and with it they would share the
     * lock. */
    _cleanup_fd_ int lock = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return error_errno(err, errno, "cannot open the folder");
    int r;
    do
        r = flock(lock, LOCK_EX);
    while (r < 0 && errno == EINTR);
    /* Some network filesystems have no locks for folders; each file is checked before it is
     * replaced anyway.
     */
    *j = (struct apply_journal){.lock = TAKE_FD(lock), .file = open_file(folder)};
    if (j->file >= 0)
        repair_all(j, folder);
    return 0;
}

void apply_journal_close(struct apply_journal *j)
{
    apply_journal_clear(j);
    cleanup_close(&j->file);
    cleanup_close(&j->lock);
    *j = APPLY_JOURNAL_NONE;
}

void apply_journal_set(struct apply_journal *j, enum apply_step step, const char *path,
                       const char *temp, const struct identity *ours, const struct identity *theirs)
{
    if (j->file < 0)
        return;
    size_t n = strlen(path) + 1;
    _cleanup_buf_ struct buf out = BUF_INIT(RECORD_MAX);
    struct record rec = {.size = (uint32_t)(sizeof rec + n), .step = (char)step};
    snprintf(rec.temp, sizeof rec.temp, "%s", temp);
    if (ours)
        rec.ours = *ours;
    if (theirs)
        rec.theirs = *theirs;
    buf_append(&out, &rec, sizeof rec);
    buf_append(&out, path, n);
    /* A journal that cannot be written only means that a leftover stays after a kill. */
    if (out.failed || pwrite(j->file, out.data, out.len, 0) != (ssize_t)out.len ||
        ftruncate(j->file, (off_t)out.len) < 0)
        apply_journal_clear(j);
}

void apply_journal_clear(struct apply_journal *j)
{
    if (j->file >= 0 && ftruncate(j->file, 0) < 0)
        cleanup_close(&j->file);
}
