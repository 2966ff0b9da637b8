#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"
#include "banned.h"

static int tell_missing(const char *name, char folders[PARTS_FOLDERS_MAX][PARTS_PATH_MAX], size_t n,
                        struct error *err)
{
    if (n == 1)
        return error_set(err, ENOENT, "%s is missing from %s; reinstall hutch", name, folders[0]);
    return error_set(err, ENOENT, "%s is missing from %s and %s; reinstall hutch", name, folders[0],
                     folders[n - 1]);
}

int parts_find(const char *name, char path[PARTS_PATH_MAX], struct error *err)
{
    char folders[PARTS_FOLDERS_MAX][PARTS_PATH_MAX];
    size_t n = 0;
    int r = parts_folders(folders, &n, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        int length = snprintf(path, PARTS_PATH_MAX, "%s/%s", folders[i], name);
        if (length < PARTS_PATH_MAX && access(path, X_OK) == 0)
            return 0;
    }
    return tell_missing(name, folders, n, err);
}
