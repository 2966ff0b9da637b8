/*
 * Where hutch's parts are when the program is somebody else's: beside the library in a build
 * folder, in libexec/hutch of the same prefix when installed (with or without a folder for the
 * architecture in between), or where $HUTCH_LIBEXEC says. What is found there runs as process 1 of
 * a box with the program's rights at first, so the variable is not looked at in a program that has
 * more rights than who started it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch.h"
#include "libexec.h"
#include "banned.h"

/* The folder that the library was loaded from, made absolute by the loader then: the program may
 * have changed its own folder since. */
static int library_folder(char path[LIBEXEC_PATH_MAX])
{
    Dl_info info;
    struct link_map *map = NULL;
    char origin[3 * PATH_MAX], named[4 * PATH_MAX], real[PATH_MAX];
    if (!dladdr1((const void *)hutch_version, &info, (void **)&map, RTLD_DL_LINKMAP) ||
        dlinfo(map, RTLD_DI_ORIGIN, origin) != 0)
        return -ENOENT;
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(named, sizeof named, "%s/%s", origin, slash ? slash + 1 : info.dli_fname);
    if (!realpath(named, real))
        return -errno;
    *strrchr(real, '/') = 0;
    snprintf(path, LIBEXEC_PATH_MAX, "%s", real);
    return 0;
}

int libexec_folders(char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX], size_t *ret_count,
                    struct error *err)
{
    const char *told = secure_getenv("HUTCH_LIBEXEC");
    if (told && told[0] == '/') {
        snprintf(folders[0], LIBEXEC_PATH_MAX, "%s", told);
        *ret_count = 1;
        return 0;
    }
    int r = library_folder(folders[0]);
    if (r < 0)
        return error_errno(err, -r, "cannot find out where libhutch is installed");
    snprintf(folders[1], LIBEXEC_PATH_MAX, "%.*s/../libexec/hutch", PATH_MAX, folders[0]);
    snprintf(folders[2], LIBEXEC_PATH_MAX, "%.*s/../../libexec/hutch", PATH_MAX, folders[0]);
    *ret_count = 3;
    return 0;
}
