/*
 * Makes the skeleton when hutch is built: the folder that is the lowest layer of every box's root
 * filesystem. It holds places to mount on, links, and the made-up files of /etc; nothing in it is
 * ever written. Making it once instead of in every box saves each a fifth of its time.
 *
 *     host/    for boxes that show a selection of the host
 *     image/   for boxes on an image, which brings its own /usr and /etc
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lists.h"

static const char PASSWD[] = "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                             "agent:x:1000:1000:agent:/home/agent:/bin/bash\n"
                             "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char GROUP[] = "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n";
static const char HOSTS[] = "127.0.0.1 localhost box\n::1 localhost ip6-localhost ip6-loopback\n";
static const char NSSWITCH[] =
    "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "skeleton: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void folder(const char *path)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        die(path);
    if (chmod(path, 0755) < 0)
        die(path);
}

/* With all folders on the way. */
static void folders(const char *path)
{
    char part[128];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        folder(part);
    }
    folder(path);
}

static void file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, 0644) < 0)
        die(path);
    close(fd);
}

static void make_link(const char *path, const char *target)
{
    if (symlink(target, path) < 0 && errno != EEXIST)
        die(path);
}

static void make_common(void)
{
    static const char *const FOLDERS[] = {"dev", "dev/pts", "dev/mqueue",   "proc",
                                          "etc", "home",    "workspace",    "var",
                                          "sys", "sys/fs",  "sys/fs/cgroup"};
    static const char *const LINKS[][2] = {{"dev/ptmx", "pts/ptmx"},
                                           {"dev/fd", "/proc/self/fd"},
                                           {"dev/stdin", "/proc/self/fd/0"},
                                           {"dev/stdout", "/proc/self/fd/1"},
                                           {"dev/stderr", "/proc/self/fd/2"},
                                           {"var/tmp", "../tmp"},
                                           {"var/run", "../run"}};
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++)
        folder(FOLDERS[i]);
    for (size_t i = 0; i < sizeof LINKS / sizeof *LINKS; i++)
        make_link(LINKS[i][0], LINKS[i][1]);
    for (size_t i = 0; i < LIST_DEVICES_N; i++) {
        char path[64];
        snprintf(path, sizeof path, "dev/%s", LIST_DEVICES[i]);
        file(path, "");
    }
    file("etc/passwd", PASSWD);
    file("etc/group", GROUP);
    file("etc/hosts", HOSTS);
    file("etc/hostname", "box\n");
    file("etc/nsswitch.conf", NSSWITCH);
}

static void make_host_places(void)
{
    folder("usr");
    make_link("etc/os-release", "../usr/lib/os-release");
    for (size_t i = 1; i < LIST_TOP_N; i++) {
        char target[64];
        snprintf(target, sizeof target, "usr%s", LIST_TOP[i]);
        make_link(LIST_TOP[i] + 1, target);
    }
    for (size_t i = 0; i < LIST_MORE_N; i++)
        folders(LIST_MORE[i] + 1);
}

/* Folders stay: boxes that run may have them mounted. */
static int remove_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)at;
    return type == FTW_D ? 0 : remove(path);
}

static void enter(const char *path)
{
    folder(path);
    if (chdir(path) < 0)
        die(path);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: skeleton-make FOLDER\n");
        return 2;
    }
    /* What an earlier version made and this one does not would hide what the host has there. */
    if (nftw(argv[1], remove_file, 16, FTW_PHYS) != 0 && errno != ENOENT)
        die(argv[1]);
    enter(argv[1]);
    enter("host");
    make_common();
    make_host_places();
    if (chdir("..") < 0)
        die("..");
    enter("image");
    make_common();
    return 0;
}
