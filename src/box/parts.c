#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"
#include "banned.h"

int parts_find(const char *name, char path[PARTS_PATH_MAX], struct error *err)
{
    static const char *const PLACES[] = {".", "../libexec/hutch"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return error_errno(err, errno, "cannot find out where hutch is installed");
    self[n] = 0;
    char *slash = strrchr(self, '/');
    *slash = 0;
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        snprintf(path, PARTS_PATH_MAX, "%s/%s/%s", self, PLACES[i], name);
        if (access(path, X_OK) == 0)
            return 0;
    }
    return error_set(err, ENOENT, "%s is not in %s nor in %s/../libexec/hutch: install hutch whole", name,
                     self, self);
}
