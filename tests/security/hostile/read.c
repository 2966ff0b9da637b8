/*
 * Reads, lists and opens the paths it is given, by every name that a path may have in a box: as it
 * is, climbing from the workspace, through /proc's magic links, and through links that it makes
 * itself.
 *
 *     read PATH…
 */
#include <dirent.h>

#include "hostile.h"

static void take(int at, const char *path, const char *how)
{
    int fd = openat(at, path, O_RDONLY | O_NONBLOCK);
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        printf("NOTE opened %s %s\n", how, path);
        loot(fd);
    }
    close(fd);
}

static void take_through(const char *prefix, const char *path)
{
    char name[PATH_MAX];

    snprintf(name, sizeof(name), "%s%s", prefix, path);
    take(AT_FDCWD, name, "through");
}

static void take_by_link(const char *path)
{
    unlink("/tmp/link");
    if (symlink(path, "/tmp/link") == 0)
        take(AT_FDCWD, "/tmp/link", "by link");
    unlink("/workspace/link");
    if (symlink(path, "/workspace/link") == 0)
        take(AT_FDCWD, "/workspace/link", "by workspace link");
    unlink("/workspace/link");
    if (link(path, "/tmp/hard") == 0)
        take(AT_FDCWD, "/tmp/hard", "by hard link");
}

/* Climbs out of a chroot, if one may be made, and above the root of the box. */
static void take_climbing(const char *path)
{
    char name[PATH_MAX] = "";
    int root = open("/", O_PATH);

    for (int i = 0; i < 40; i++)
        strcat(name, "../");
    strcat(name, path + 1);
    take(AT_FDCWD, name, "climbing");
    take(root, name, "climbing from the root");
    mkdir("/tmp/jail", 0755);
    if (fork() == 0) {
        if (chroot("/tmp/jail") == 0)
            take(AT_FDCWD, name, "out of a chroot");
        _exit(0);
    }
    wait(NULL);
    close(root);
}

static void take_magic(const char *path)
{
    static const char *const magic[] = {
        "/proc/self/root",        "/proc/1/root", "/proc/self/cwd", "/proc/1/cwd",
        "/proc/thread-self/root", "/dev/fd/0",    "/dev/fd/3",      "/dev/root"};
    char name[64];

    for (size_t i = 0; i < sizeof(magic) / sizeof(*magic); i++) {
        take_through(magic[i], path);
        snprintf(name, sizeof(name), "%s/../../../../../..", magic[i]);
        take_through(name, path);
    }
    for (int pid = 1; pid < 40; pid++)
        for (int fd = 0; fd < 20; fd++) {
            snprintf(name, sizeof(name), "/proc/%d/fd/%d", pid, fd);
            take_through(name, path);
        }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        take(AT_FDCWD, argv[i], "plainly");
        take_climbing(argv[i]);
        take_magic(argv[i]);
        take_by_link(argv[i]);
    }
    return verdict();
}
