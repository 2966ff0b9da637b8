/*
 * How much a store holds, counted while its box may be moving folders around. One open folder per
 * level: a walk back up by ".." could leave the store when a folder was moved meanwhile.
 *
 * A file with several names counts once, in equal parts: all its names are in the store.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "store.h"
#include "banned.h"

#define DEPTH_MAX 16384
#define SPARE_FDS 64

struct levels {
    DIR **dirs;
    size_t n, room;
};

/* As many levels as descriptors can be open. */
static size_t levels_max(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur <= SPARE_FDS)
        return 1;
    return files.rlim_cur - SPARE_FDS < DEPTH_MAX ? files.rlim_cur - SPARE_FDS : DEPTH_MAX;
}

/* A folder that vanished or is a folder no more is no error: the box goes on meanwhile. */
static int levels_enter(struct levels *l, int parent, const char *name)
{
    if (l->n == levels_max())
        return -EMFILE;
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        DIR **dirs = realloc(l->dirs, room * sizeof *dirs);
        if (!dirs)
            return -ENOMEM;
        l->dirs = dirs;
        l->room = room;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? -EMFILE : 0;
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return -ENOMEM;
    }
    l->dirs[l->n++] = d;
    return 0;
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

int store_usage_count(int folder, struct store_usage *ret)
{
    struct levels l = {0};
    struct store_usage sum = {0};
    int r = levels_enter(&l, folder, ".");
    while (l.n && r == 0) {
        DIR *d = l.dirs[l.n - 1];
        const struct dirent *e = readdir(d);
        struct stat st;
        if (!e) {
            closedir(d);
            l.n--;
            continue;
        }
        if (is_dots(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        bool is_folder = S_ISDIR(st.st_mode);
        sum.bytes += (uint64_t)st.st_blocks * 512 / (is_folder || !st.st_nlink ? 1 : st.st_nlink);
        sum.inodes++;
        if (is_folder)
            r = levels_enter(&l, dirfd(d), e->d_name);
    }
    while (l.n)
        closedir(l.dirs[--l.n]);
    free(l.dirs);
    if (r == 0)
        *ret = sum;
    return r;
}
