/*
 * Overwrites, removes, renames and links the paths it is given, and makes files beside them. What
 * came of it is seen on the host: inside a box some of this may work on a copy.
 *
 *     write PATH…
 */
#include "hostile.h"

static void spoil(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK);

    if (fd >= 0) {
        printf("NOTE opened %s for writing\n", path);
        write(fd, "spoilt\n", 7);
        close(fd);
    }
    if (truncate(path, 0) == 0)
        printf("NOTE truncated %s\n", path);
    if (chmod(path, 0777) == 0)
        printf("NOTE chmod %s\n", path);
}

static void spoil_beside(const char *path)
{
    char name[PATH_MAX];
    int fd;

    snprintf(name, sizeof(name), "%s-spoilt", path);
    fd = open(name, O_WRONLY | O_CREAT, 0666);
    if (fd >= 0)
        printf("NOTE made %s\n", name);
    snprintf(name, sizeof(name), "%s-moved", path);
    if (rename(path, name) == 0)
        printf("NOTE moved %s\n", path);
    if (unlink(path) == 0)
        printf("NOTE removed %s\n", path);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        spoil(argv[i]);
        spoil_beside(argv[i]);
    }
    return verdict();
}
