/*
 * Files and empty folders are removed as they are met; a folder with something in it is entered.
 * After that, the folder above is read from its start again, where it comes first now and goes at
 * the second try: what stood before it was removed already. So no name has to be remembered.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "empty.h"
#include "sys.h"
#include "banned.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* A folder that its owner may not read or change is made accessible: the caller may be its owner
 * and nothing more. */
static int empty_open_child(int dir, const char *name)
{
    struct stat st;
    int child = openat(dir, name, FOLDER);
    if (child < 0 && errno == EACCES && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(st.st_mode) && fchmodat(dir, name, 0700, 0) == 0)
        child = openat(dir, name, FOLDER);
    if (child >= 0 && fstat(child, &st) == 0 && (st.st_mode & 0700) != 0700)
        fchmod(child, 0700);
    return child;
}

/* 1 with *ret_child open if there is a folder to go into first, 0 when nothing is left, or a
 * negative errno. */
static int empty_remove_entries(int dir, int *ret_child)
{
    _Alignas(struct dirent64) char space[4096];
    if (lseek(dir, 0, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        ssize_t got = sys_getdents64(dir, space, sizeof space);
        if (got <= 0)
            return got < 0 ? -errno : 0;
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(space + at);
            const char *name = entry->d_name;
            at += entry->d_reclen;
            if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || unlinkat(dir, name, 0) == 0)
                continue;
            if (errno != EISDIR)
                return -errno;
            if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
                continue;
            *ret_child = errno == ENOTEMPTY || errno == EACCES ? empty_open_child(dir, name) : -1;
            return *ret_child < 0 ? -errno : 1;
        }
    }
}

int empty_dir(int top)
{
    _cleanup_fd_ int dir = openat(top, ".", FOLDER);
    if (dir < 0)
        return -errno;
    for (size_t depth = 0;;) {
        int next = -1;
        int r = empty_remove_entries(dir, &next);
        if (r < 0 || (r == 0 && depth == 0))
            return r;
        if (r == 0)
            next = openat(dir, "..", FOLDER);
        if (next < 0)
            return -errno;
        depth = r ? depth + 1 : depth - 1;
        close(dir);
        dir = next;
    }
}
