/*
 * Removal of a store, which a box filled with whatever it likes: folders of mode 000, nested deeper
 * than any path, a million files.
 *
 * Folders inside are moved up to the top of the store before they are emptied. So the process holds
 * two folders open at any time, needs no recursion, and never walks up by "..", which a live
 * process could turn into a way out. Every name is looked up relative to an open folder, and no
 * link is followed.
 *
 * Opening folders that a box could write is the one exception to the rule that the host does not:
 * they are opened as folders only, to list and unlink what they hold. No file is opened.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "store.h"
#include "store_wire.h"
#include "sys.h"
#include "banned.h"

#define FOLDER  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define RETRIES 600 /* processes of the box may need a moment to die after their owner */

/* Gives its owner all rights to a folder. Not by name, which could have become a link. */
static void removal_unlock(int dir, const char *name)
{
    struct stat st;
    char self[64];
    _cleanup_fd_ int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & 0700) == 0700)
        return;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    chmod(self, 0700);
}

static int removal_open_folder(int dir, const char *name)
{
    removal_unlock(dir, name);
    int fd = openat(dir, name, FOLDER);
    return fd < 0 ? -errno : fd;
}

struct removal {
    int top;
    uint64_t moved, removed; /* a pass that does nothing waits for the box to end */
};

static void removal_empty_folder(struct removal *r, int dir)
{
    _Alignas(struct dirent64) char space[16384];
    ssize_t got;
    while ((got = sys_getdents64(dir, space, sizeof space)) > 0)
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *e = (const struct dirent64 *)(space + at);
            const char *name = e->d_name;
            at += e->d_reclen;
            if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                continue;
            if ((e->d_type != DT_DIR && unlinkat(dir, name, 0) == 0) ||
                unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
                r->removed++;
            } else if (dir == r->top) {
                /* Emptied where it is. What it holds comes to the top, for the next pass. */
                _cleanup_fd_ int child = removal_open_folder(dir, name);
                if (child >= 0)
                    removal_empty_folder(r, child);
                if (child >= 0 && unlinkat(dir, name, AT_REMOVEDIR) == 0)
                    r->removed++;
            } else {
                /* To the top of the store, under a name that is free there. */
                char to[32];
                removal_unlock(dir, name); /* moving a folder changes its ".." */
                do
                    snprintf(to, sizeof to, ".%llx", (unsigned long long)++r->moved);
                while (sys_renameat2(dir, name, r->top, to, RENAME_NOREPLACE) < 0 &&
                       errno == EEXIST);
            }
        }
}

int store_remove(int parent, const char *name)
{
    _cleanup_fd_ int top = removal_open_folder(parent, name);
    if (top < 0)
        return top == -ENOENT ? 0 : top;
    struct removal r = {.top = top};
    for (int idle = 0; idle < RETRIES;) {
        uint64_t before = r.moved + r.removed;
        if (lseek(top, 0, SEEK_SET) < 0)
            return -errno;
        removal_empty_folder(&r, top);
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (r.moved + r.removed == before)
            usleep(++idle < 20 ? 1000 : 100000);
    }
    return -ENOTEMPTY;
}

void store_sweep(int parent)
{
    int list = openat(parent, ".", FOLDER);
    DIR *d = list < 0 ? NULL : fdopendir(list);
    if (!d) {
        cleanup_close(&list);
        return;
    }
    for (const struct dirent *e; (e = readdir(d));) {
        if (strncmp(e->d_name, STORE_PREFIX, strlen(STORE_PREFIX)) != 0)
            continue;
        _cleanup_fd_ int fd = removal_open_folder(parent, e->d_name);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fork() == 0) {
            store_remove(parent, e->d_name);
            _exit(0);
        }
    }
    closedir(d);
}
