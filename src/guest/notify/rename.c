/*
 * rename: only a folder on an overlay is our concern, since the kernel answers EXDEV to a folder of
 * a lower layer. The paths are read from the caller's memory, which may change at once: then
 * another folder is moved than the caller says, which it could have moved as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <linux/stat.h>

#include "calls.h"
#include "cleanup.h"
#include "move_folder.h"
#include "sys.h"
#include "banned.h"

/* One of the two paths of a rename: the folder that it is in, and its name there. */
struct end {
    int dir;
    char path[PATH_MAX];
    const char *name; /* in path */
};

static void end_close(struct end *e)
{
    cleanup_close(&e->dir);
}

/* Splits off the last name; slashes behind it mean nothing where it is a folder. False for "/", "."
 * and "..".
 */
static bool split_name(char *path, const char **ret_parent, const char **ret_name)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    char *slash = strrchr(path, '/');
    char *name = slash ? slash + 1 : path;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    *ret_name = name;
    *ret_parent = slash ? path : ".";
    if (slash == path)
        *ret_parent = "/";
    else if (slash)
        *slash = 0;
    return true;
}

static int open_end(const struct caller *c, int dir, struct end *e)
{
    const char *parent;
    _cleanup_fd_ int base = -1;
    int r = caller_open_base(c, dir, e->path, &base);
    if (r < 0)
        return r;
    if (!split_name(e->path, &parent, &e->name))
        return -EINVAL;
    return caller_open(base, parent, O_DIRECTORY, &e->dir);
}

/* The cheap question that all renames are asked: is it a folder? */
static bool is_folder(const struct caller *c, int dir, const char *path)
{
    struct stat st;
    _cleanup_fd_ int base = -1;
    if (*path != '/' && caller_open_base(c, dir, path, &base) < 0)
        return false;
    return fstatat(base, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static bool is_overlay_folder(const struct end *e)
{
    struct statfs fs;
    _cleanup_fd_ int fd = -1;
    return caller_open(e->dir, e->name, O_DIRECTORY | O_NOFOLLOW, &fd) == 0 &&
           fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* A rename from one mount to another is EXDEV everywhere, even if both show the same folder. */
static bool same_mount(int a, int b)
{
    struct statx at[2];
    const int dirs[] = {a, b};
    for (int i = 0; i < 2; i++)
        if (syscall(SYS_statx, dirs[i], "", AT_EMPTY_PATH, STATX_MNT_ID, &at[i]) < 0 ||
            !(at[i].stx_mask & STATX_MNT_ID))
            return false;
    return at[0].stx_mnt_id == at[1].stx_mnt_id;
}

/* Errors of the pieces that mean nothing to who asked for one rename: a program that knows EXDEV
 * copies then.
 */
static int as_rename_says(int r)
{
    switch (r) {
    case 0:
    case -ENOTEMPTY:
    case -ENOSPC:
    case -EDQUOT:
    case -EIO:
        return r;
    default:
        return -EXDEV;
    }
}

/* An older kernel lets a signal interrupt the caller, who then asks again: it must find what it
 * asks for. */
static void undo_unless_heard(const struct caller *c, const struct end *from, const struct end *to)
{
    if (!caller_waits(c))
        sys_renameat2(to->dir, to->name, from->dir, from->name, RENAME_NOREPLACE);
}

int rename_decide(const struct caller *c, const struct rename_call *call)
{
    _cleanup_(end_close) struct end from = {.dir = -1}, to = {.dir = -1};
    if (caller_read_path(c, call->from, from.path) < 0 || !is_folder(c, call->from_dir, from.path))
        return CALL_GOES_ON;
    if (caller_read_path(c, call->to, to.path) < 0 || open_end(c, call->from_dir, &from) < 0 ||
        open_end(c, call->to_dir, &to) < 0 || !is_overlay_folder(&from))
        return CALL_GOES_ON;

    int r = sys_renameat2(from.dir, from.name, to.dir, to.name, call->flags) < 0 ? -errno : 0;
    if (r == -EXDEV && !(call->flags & ~(unsigned)RENAME_NOREPLACE) && same_mount(from.dir, to.dir))
        r = as_rename_says(move_folder(c, from.dir, from.name, to.dir, to.name, call->flags));
    if (r == 0)
        undo_unless_heard(c, &from, &to);
    return r;
}
