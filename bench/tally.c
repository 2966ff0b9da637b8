#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "tally.h"
#include "banned.h"

int64_t tally_number(const char *path, const char *key)
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    char line[512];
    size_t n = strlen(key);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0 && line[n] == ':')
            return strtoll(line + n + 1, NULL, 10);
    return -1;
}

static int64_t count_lines(const char *path)
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    int64_t n = 0;
    for (int c; f && (c = fgetc(f)) != EOF;)
        n += c == '\n';
    return n;
}

static int64_t count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n - 1; /* less the one that reads the list */
}

int64_t tally_children(void (*see)(int pid, void *data), void *data)
{
    DIR *dir = opendir("/proc");
    int64_t n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300];
        int pid = atoi(e->d_name);
        snprintf(path, sizeof path, "/proc/%d/status", pid);
        if (pid <= 0 || tally_number(path, "PPid") != getpid())
            continue;
        n++;
        if (see)
            see(pid, data);
    }
    if (dir)
        closedir(dir);
    return n;
}

void tally_take(struct tally *ret)
{
    *ret = (struct tally){
        .descriptors = count_descriptors(),
        .memory = tally_number("/proc/self/status", "VmRSS"),
        .mounts = count_lines("/proc/self/mountinfo"),
        .children = tally_children(NULL, NULL),
    };
}
