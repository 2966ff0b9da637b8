#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "host_cgroup.h"
#include "io.h"
#include "text.h"
#include "banned.h"

#define USUAL_MOUNT "/sys/fs/cgroup"
#define GROUPS_MAX  (64u << 10)
#define MOUNTS_MAX  (4u << 20)
#define NUMBER_MAX  64

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* Whether `name` is one of the words of "a,b,c", which ends at `end`. */
static bool list_has(const char *list, const char *end, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - at) == n && memcmp(at, name, n) == 0)
            return true;
        at = stop + 1;
    }
    return false;
}

/* Our group in the hierarchy, from lines like "4:memory:/a/b", and "0::/a/b" for version 2. */
static int find_group(const char *groups, const char *controller, char *ret, size_t size)
{
    for (const char *line = groups; *line; line = next_line(line)) {
        const char *list = strchr(line, ':');
        const char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || !(*controller ? list_has(list + 1, path, controller) : path == list + 1))
            continue;
        int n = snprintf(ret, size, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
        return (size_t)n < size ? 0 : -ENAMETOOLONG;
    }
    return -ENOENT;
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; to++) {
        unsigned code;
        if (*at == '\\' && sscanf(at + 1, "%3o", &code) == 1 && strlen(at) >= 4) {
            *to = (char)code;
            at += 4;
        } else {
            *to = *at++;
        }
    }
    *to = 0;
}

/* What is left of the group's path below the mount's root; NULL if the group is elsewhere. */
static const char *path_below(const char *group, const char *root)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(group, root, n) != 0 || (group[n] != '/' && group[n] != 0))
        return NULL;
    return strcmp(group + n, "/") == 0 ? "" : group + n;
}

/* A line is "ID PARENT DEV ROOT AT OPTIONS … - TYPE SOURCE SUPER-OPTIONS". */
int cgroup_path_parse(const char *groups, const char *mounts, const char *controller,
                      struct cgroup_path *ret)
{
    char group[PATH_MAX / 2] = "", root[PATH_MAX], at[PATH_MAX], kind[16], options[512];
    int r = find_group(groups, controller, group, sizeof group);
    if (r < 0)
        return r;
    for (const char *line = mounts; *line; line = next_line(line)) {
        const char *type = strstr(line, " - ");
        if (!type || type > line + strcspn(line, "\n") ||
            sscanf(type + 3, "%15s %*s %511s", kind, options) != 2 ||
            strcmp(kind, *controller ? "cgroup" : "cgroup2") != 0 ||
            (*controller && !list_has(options, options + strlen(options), controller)) ||
            sscanf(line, "%*s %*s %*s %4095s %4095s", root, at) != 2)
            continue;
        unescape(root);
        unescape(at);
        const char *rest = path_below(group, root);
        if (!rest)
            continue;
        if ((size_t)snprintf(ret->folder, sizeof ret->folder, "%s%s", at, rest) >=
            sizeof ret->folder)
            return -ENAMETOOLONG;
        ret->mount_len = strlen(at);
        return 0;
    }
    return -ENOENT;
}

int cgroup_path_find(const char *controller, struct cgroup_path *ret)
{
    char group[PATH_MAX / 2] = "", file[PATH_MAX + 16];
    _cleanup_buf_ struct buf groups = BUF_INIT(GROUPS_MAX), mounts = BUF_INIT(MOUNTS_MAX);
    int r = io_read_file(AT_FDCWD, "/proc/self/cgroup", &groups);
    if (r == 0 && !buf_cstr(&groups))
        r = -ENOMEM;
    if (r == 0)
        r = find_group((char *)groups.data, controller, group, sizeof group);
    if (r < 0)
        return r;

    /* The usual place is tried before all mounts are read: these can be many. */
    const char *rest = path_below(group, "/");
    snprintf(ret->folder, sizeof ret->folder, "%s%s%s", USUAL_MOUNT, *controller ? "/" : "",
             controller);
    ret->mount_len = strlen(ret->folder);
    snprintf(ret->folder + ret->mount_len, sizeof ret->folder - ret->mount_len, "%s",
             rest ? rest : "");
    snprintf(file, sizeof file, "%s/cgroup.procs", ret->folder);
    if (rest && access(file, F_OK) == 0)
        return 0;
    r = io_read_file(AT_FDCWD, "/proc/self/mountinfo", &mounts);
    if (r == 0 && !buf_cstr(&mounts))
        r = -ENOMEM;
    return r < 0 ? r : cgroup_path_parse((char *)groups.data, (char *)mounts.data, controller, ret);
}

/* The lowest limit of the group itself and all above it, up to where the hierarchy is mounted.
 * "max" (version 2) is no number; version 1 says "no limit" by one that no machine has. */
static uint64_t lowest_limit(const struct cgroup_path *p, const char *file)
{
    char folder[PATH_MAX], path[PATH_MAX + 32], *end, *slash;
    uint64_t lowest = UINT64_MAX;
    snprintf(folder, sizeof folder, "%s", p->folder);
    do {
        _cleanup_buf_ struct buf b = BUF_INIT(NUMBER_MAX);
        snprintf(path, sizeof path, "%s/%s", folder, file);
        if (io_read_file(AT_FDCWD, path, &b) == 0 && buf_cstr(&b)) {
            unsigned long long bytes = strtoull((char *)b.data, &end, 10);
            if (end != (char *)b.data && bytes != 0 && bytes < lowest)
                lowest = bytes;
        }
        slash = strrchr(folder, '/');
        if (slash)
            *slash = 0;
    } while (slash && (size_t)(slash - folder) >= p->mount_len);
    return lowest;
}

/* The controller is in one of the two hierarchies: where version 1 has it, version 2 has not. */
uint64_t host_memory(bool *ret_limited)
{
    struct sysinfo info;
    struct cgroup_path p;
    uint64_t limit = UINT64_MAX;
    uint64_t total = sysinfo(&info) < 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit;
    if (cgroup_path_find("memory", &p) == 0)
        limit = lowest_limit(&p, "memory.limit_in_bytes");
    else if (cgroup_path_find("", &p) == 0)
        limit = lowest_limit(&p, "memory.max");
    if (ret_limited)
        *ret_limited = limit < total;
    return limit < total ? limit : total;
}
