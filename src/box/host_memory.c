#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "buf.h"
#include "cgroup_path.h"
#include "host_memory.h"
#include "io.h"
#include "banned.h"

#define NUMBER_MAX 64

/* "max" (version 2) is no number; version 1 says "no limit" by one that no machine has. */
static uint64_t read_limit(const char *folder, const char *file)
{
    char path[PATH_MAX];
    _cleanup_buf_ struct buf b = BUF_INIT(NUMBER_MAX);
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, file) >= sizeof path ||
        io_read_file(AT_FDCWD, path, &b) < 0 || !buf_cstr(&b))
        return UINT64_MAX;
    char *end;
    unsigned long long bytes = strtoull((char *)b.data, &end, 10);
    return end == (char *)b.data || bytes == 0 ? UINT64_MAX : bytes;
}

/* The group itself and all above it, up to where the hierarchy is mounted. */
static uint64_t lowest_limit(const struct cgroup_path *p, const char *file)
{
    char folder[PATH_MAX];
    uint64_t lowest = UINT64_MAX;
    snprintf(folder, sizeof folder, "%s", p->folder);
    for (;;) {
        uint64_t limit = read_limit(folder, file);
        if (limit < lowest)
            lowest = limit;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < p->mount_len)
            return lowest;
        *slash = 0;
    }
}

/* The controller is in one of the two hierarchies: where version 1 has it, version 2 has not. */
static uint64_t cgroup_limit(void)
{
    struct cgroup_path p;
    int r = cgroup_path_find("memory", &p);
    if (r == 0)
        return lowest_limit(&p, "memory.limit_in_bytes");
    return cgroup_path_find("", &p) == 0 ? lowest_limit(&p, "memory.max") : UINT64_MAX;
}

uint64_t host_memory(bool *ret_limited)
{
    struct sysinfo info;
    uint64_t limit = cgroup_limit();
    uint64_t total = sysinfo(&info) < 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit;
    if (ret_limited)
        *ret_limited = limit < total;
    return limit < total ? limit : total;
}
