#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest_path.h"
#include "banned.h"

int guest_path_find(char path[GUEST_PATH_MAX], struct error *err)
{
    static const char *const PLACES[] = {"hutch-guest", "../libexec/hutch/hutch-guest"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return error_errno(err, errno, "cannot find out where hutch is installed");
    self[n] = 0;
    char *slash = strrchr(self, '/');
    *slash = 0;
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        snprintf(path, GUEST_PATH_MAX, "%s/%s", self, PLACES[i]);
        if (access(path, X_OK) == 0)
            return 0;
    }
    return error_set(err, ENOENT, "hutch-guest is not beside %s/hutch nor in %s/../libexec/hutch: install hutch whole",
                     self, self);
}
