/* Percentiles, and memory as the kernel shares it out (Pss): what is shared counts in parts, so
 * sums make sense.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "gym_bench.h"
#include "banned.h"

void bench_time(struct bench_times *t, int64_t ns)
{
    t->ns[t->n++ % BENCH_TIMES_MAX] = ns;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

double bench_percentile(struct bench_times *t, double share)
{
    size_t n = t->n < BENCH_TIMES_MAX ? t->n : BENCH_TIMES_MAX;
    if (n == 0)
        return 0;
    qsort(t->ns, n, sizeof *t->ns, by_size);
    size_t at = (size_t)((double)(n - 1) * share + 0.5);
    return (double)t->ns[at] / 1e6;
}

/* Of one process, in KiB: -1 if it may not be looked at, 0 if it has just ended. */
static int64_t share_of(const char *pid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%.20s/smaps_rollup", pid);
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    if (!f)
        return errno == EACCES || errno == EPERM ? -1 : 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "Pss:", 4) == 0)
            return strtoll(line + 4, NULL, 10);
    return 0;
}

/* Boxes are children of this process, and what runs in them are theirs. */
static int64_t share_of_children(const char *pid)
{
    char path[320], child[24];
    int64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%.20s/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *d; tasks && (d = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/children", pid, d->d_name);
        _cleanup_fclose_ FILE *f = d->d_name[0] == '.' ? NULL : fopen(path, "re");
        while (sum >= 0 && f && fscanf(f, "%20s", child) == 1) {
            int64_t own = share_of(child), rest = share_of_children(child);
            sum = own < 0 || rest < 0 ? -1 : sum + own + rest;
        }
    }
    if (tasks)
        closedir(tasks);
    return sum;
}

void bench_memory(struct bench_memory *ret)
{
    *ret = (struct bench_memory){.own = share_of("self"), .boxes = share_of_children("self")};
}
