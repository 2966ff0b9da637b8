/*
 * Walks everything that can be seen, links into /proc included, for files whose name holds WORD,
 * and prints what is in them; and greps the environment and the command line of every process for
 * it.
 *
 *     hunt WORD
 */
#include <dirent.h>
#include <ftw.h>

#include "hostile.h"

static const char *word;

static int visit(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    if (kind == FTW_D && !strncmp(path, "/usr/", 5) && ftw->level > 2)
        return FTW_SKIP_SUBTREE;
    if (kind == FTW_F && strstr(path + ftw->base, word)) {
        int fd = open(path, O_RDONLY | O_NONBLOCK);

        printf("FOUND %s\n", path);
        if (fd >= 0)
            loot(fd);
    }
    return FTW_CONTINUE;
}

static void grep(const char *path)
{
    char data[65536];
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof(data));

    if (fd >= 0)
        close(fd);
    if (n > 0 && memmem(data, n, word, strlen(word)))
        breach("%s holds the word", path);
}

static void processes(void)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    char path[512];

    while (d && (e = readdir(d))) {
        if (e->d_name[0] < '0' || e->d_name[0] > '9' || atoi(e->d_name) == getpid())
            continue;
        snprintf(path, sizeof(path), "/proc/%s/environ", e->d_name);
        grep(path);
        snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
        grep(path);
        snprintf(path, sizeof(path), "/proc/%s/root", e->d_name);
        nftw(path, visit, 16, FTW_PHYS | FTW_ACTIONRETVAL);
    }
}

int main(int argc, char **argv)
{
    word = argv[1];
    nftw("/", visit, 16, FTW_PHYS | FTW_ACTIONRETVAL);
    processes();
    return verdict();
}
