#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libexec.h"
#include "banned.h"

__attribute__((weak)) int libexec_folders(char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX],
                                          size_t *ret_count, struct error *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return error_errno(err, errno, "cannot find out where hutch is installed");
    self[n] = 0;
    *strrchr(self, '/') = 0;
    snprintf(folders[0], LIBEXEC_PATH_MAX, "%s", self);
    snprintf(folders[1], LIBEXEC_PATH_MAX, "%s/../libexec/hutch", self);
    *ret_count = 2;
    return 0;
}

int libexec_find(const char *name, char path[LIBEXEC_PATH_MAX], struct error *err)
{
    char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX];
    size_t n = 0;
    int r = libexec_folders(folders, &n, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        int length = snprintf(path, LIBEXEC_PATH_MAX, "%s/%s", folders[i], name);
        if (length < LIBEXEC_PATH_MAX && access(path, X_OK) == 0)
            return 0;
    }
    return error_set(err, ENOENT, "%s is missing from %s%s%s; reinstall hutch", name, folders[0],
                     n > 1 ? " and " : "", n > 1 ? folders[n - 1] : "");
}
