/*
 * Theory: only folders that hold files of the host's are gone into, so the depth is that of the
 * host's paths. Everything else is removed at once, however deep it is (diff/empty.c), and told
 * as one thing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "relpath.h"
#include "sweep.h"
#include "sys.h"
#include "banned.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int sweep_folder(struct stage *s, int dir, struct buf *path);

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static int remove_and_tell(struct stage *s, int dir, const char *name, const char *path,
                           enum wire_change kind)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    stage_tell(s, kind, path, S_ISDIR(st.st_mode));
    return stage_remove(dir, name);
}

/* `path` is that of the entry. */
static int sweep_entry(struct stage *s, int dir, const char *name, struct buf *path)
{
    const char *full = buf_cstr(path);
    if (!full)
        return -ENOMEM;
    if (stage_has(s, full))
        return 0;
    if (!stage_has_beneath(s, full))
        return remove_and_tell(s, dir, name, full, WIRE_ADDED);
    _cleanup_fd_ int place = -1, child = -1;
    int r = stage_open_folder(dir, name, &place);
    if (r < 0)
        return r;
    child = openat(place, ".", FOLDER);
    return child < 0 ? -errno : sweep_folder(s, child, path);
}

static int sweep_folder(struct stage *s, int dir, struct buf *path)
{
    _Alignas(struct dirent64) char space[4096];
    size_t base = path->len;
    for (;;) {
        ssize_t got = sys_getdents64(dir, space, sizeof space);
        if (got <= 0)
            return got < 0 ? -errno : 0;
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(space + at);
            at += entry->d_reclen;
            if (is_dots(entry->d_name))
                continue;
            buf_append_str(path, "/");
            buf_append_str(path, entry->d_name);
            int r = path->failed ? -ENAMETOOLONG : sweep_entry(s, dir, entry->d_name, path);
            path->len = base;
            if (r < 0)
                return r;
        }
    }
}

/* The folder that holds this one of `own`. 1: nothing is left of it. */
static int open_above(struct stage *s, const char *own, int *ret_fd)
{
    _cleanup_free_ char *path = strdup(own);
    _cleanup_fd_ int dir = -1;
    int r = path ? stage_open_folder(AT_FDCWD, s->call->root_path, &dir) : -ENOMEM;
    for (char *at = path, *end; r == 0 && *(end = at + strcspn(at, "/")); at = end + 1) {
        int next = -1;
        *end = 0;
        r = stage_open_folder(dir, at, &next);
        if (r ==
            -ENOTDIR) /* it stood for something elsewhere: then there is nothing of that path */
            r = remove_and_tell(s, dir, at, path, WIRE_MODIFIED);
        else if (r == -ENOENT)
            r = 0;
        if (r == 0 && next < 0)
            r = 1;
        *end = '/';
        if (r == 0) {
            close(dir);
            dir = next;
        }
    }
    if (r == 0)
        *ret_fd = TAKE_FD(dir);
    return r;
}

static int sweep_own(struct stage *s, const char *own)
{
    _cleanup_fd_ int dir = -1;
    _cleanup_buf_ struct buf path = BUF_INIT(RELPATH_MAX);
    int r = open_above(s, own, &dir);
    if (r != 0)
        return r < 0 ? r : 0;
    buf_append_str(&path, own);
    return sweep_entry(s, dir, relpath_name(own), &path);
}

int stage_sweep(struct stage *s, struct error *err)
{
    for (size_t i = 0; i < s->own.count; i++) {
        int r = sweep_own(s, s->own.items[i]);
        if (r < 0)
            return error_errno(err, -r, "cannot put %.400s back", s->own.items[i]);
    }
    return 0;
}
