#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "ownfile.h"
#include "banned.h"

static int check_owner(const char *path, const struct stat *st, struct error *err)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return error_set(err, EPERM,
                         "%s belongs to another user, so hutch does not read it; chown it", path);
    if (st->st_mode & S_IWOTH)
        return error_set(err, EPERM, "%s is writable by everybody; run 'chmod o-w %s'", path, path);
    return 0;
}

/* Without waiting for a writer, should it be a FIFO, and without becoming its terminal. */
static int open_checked(const char *path, int flags, int *ret_fd, struct stat *ret_st,
                        struct error *err)
{
    struct stat st;
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open %s", path);
    int r = check_owner(path, &st, err);
    if (r < 0)
        return r;
    *ret_st = st;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int ownfile_open(const char *path, int *ret_fd, struct stat *ret_st, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st = {0};
    int r = open_checked(path, 0, &fd, &st, err);
    if (r < 0)
        return r;
    if (!S_ISREG(st.st_mode))
        return error_set(err, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, "%s is not a regular file",
                         path);
    *ret_st = st;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int ownfile_open_folder(const char *path, int *ret_fd, struct error *err)
{
    struct stat st;
    return open_checked(path, O_DIRECTORY, ret_fd, &st, err);
}

int ownfile_read(const char *path, struct buf *b, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    int r = ownfile_open(path, &fd, &st, err);
    if (r < 0)
        return r;
    r = io_read_all(fd, b);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG, "%s is larger than %zu bytes", path, b->max - 1);
    return r < 0 ? error_errno(err, -r, "cannot read %s", path) : 0;
}

static char *ownfile_base_path(const char *variable, const char *usual, const char *name)
{
    const char *base = getenv(variable), *middle = "";
    char *path = NULL;
    if (!base || base[0] != '/') { /* the XDG specification says to ignore a relative one */
        const struct passwd *me = NULL;
        base = getenv("HOME");
        middle = usual;
        if (!base || base[0] != '/')
            me = getpwuid(geteuid());
        if (me)
            base = me->pw_dir;
    }
    if (!base || base[0] != '/')
        return NULL;
    int n = asprintf(&path, "%s%s/hutch%s%s", base, middle, name ? "/" : "", name ? name : "");
    return n < 0 ? NULL : path;
}

char *ownfile_config_path(const char *name)
{
    return ownfile_base_path("XDG_CONFIG_HOME", "/.config", name);
}

char *ownfile_state_path(const char *name)
{
    return ownfile_base_path("XDG_STATE_HOME", "/.local/state", name);
}

int ownfile_make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        int r = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
        if (r < 0) {
            *slash = '/';
            return r;
        }
    }
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}
