#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "put_file.h"
#include "banned.h"

static int write_beside(const char *beside, const void *data, size_t n)
{
    _cleanup_fd_ int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return -errno;
    int r = io_write_all(fd, data, n);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r;
}

int put_file(const char *path, const void *data, size_t n, struct error *err)
{
    _cleanup_free_ char *beside = NULL;
    if (asprintf(&beside, "%s.%d.new", path, getpid()) < 0) {
        beside = NULL;
        return error_set(err, ENOMEM, "no memory");
    }
    unlink(beside); /* of a process of that number that was killed */
    int r = write_beside(beside, data, n);
    if (r == 0 && rename(beside, path) < 0)
        r = -errno;
    if (r < 0) {
        unlink(beside);
        return error_errno(err, -r, "cannot write %s", path);
    }
    return 0;
}
