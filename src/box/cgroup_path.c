#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "cgroup_path.h"
#include "io.h"
#include "banned.h"

#define USUAL_MOUNT "/sys/fs/cgroup"
#define GROUPS_MAX  (64u << 10)
#define MOUNTS_MAX  (4u << 20)

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* Whether `name` is one of the words of "a,b,c", which ends at `end`. */
static bool in_list(const char *list, const char *end, const char *name)
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
        if (!path)
            continue;
        bool own = *controller ? in_list(list + 1, path, controller) : path == list + 1;
        if (own)
            return (size_t)snprintf(ret, size, "%.*s", (int)strcspn(path + 1, "\n"), path + 1) <
                           size
                       ? 0
                       : -ENAMETOOLONG;
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

struct mounted {
    char root[PATH_MAX], at[PATH_MAX];
};

/* "ID PARENT DEV ROOT AT OPTIONS … - TYPE SOURCE SUPER-OPTIONS" */
static bool parse_mount(const char *line, const char *controller, struct mounted *ret)
{
    const char *end = line + strcspn(line, "\n");
    const char *type = strstr(line, " - ");
    char kind[16], options[512];
    if (!type || type > end || sscanf(type + 3, "%15s %*s %511s", kind, options) != 2)
        return false;
    if (strcmp(kind, *controller ? "cgroup" : "cgroup2") != 0 ||
        (*controller && !in_list(options, options + strlen(options), controller)))
        return false;
    if (sscanf(line, "%*s %*s %*s %4095s %4095s", ret->root, ret->at) != 2)
        return false;
    unescape(ret->root);
    unescape(ret->at);
    return true;
}

/* What is left of the group's path below the mount's root; NULL if the group is elsewhere. */
static const char *below(const char *group, const char *root)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(group, root, n) != 0 || (group[n] != '/' && group[n] != 0))
        return NULL;
    return strcmp(group + n, "/") == 0 ? "" : group + n;
}

int cgroup_path_parse(const char *groups, const char *mounts, const char *controller,
                      struct cgroup_path *ret)
{
    char group[PATH_MAX / 2] = "";
    struct mounted m;
    int r = find_group(groups, controller, group, sizeof group);
    if (r < 0)
        return r;
    for (const char *line = mounts; *line; line = next_line(line)) {
        if (!parse_mount(line, controller, &m))
            continue;
        const char *rest = below(group, m.root);
        if (!rest)
            continue;
        if ((size_t)snprintf(ret->folder, sizeof ret->folder, "%s%s", m.at, rest) >=
            sizeof ret->folder)
            return -ENAMETOOLONG;
        ret->mount_len = strlen(m.at);
        return 0;
    }
    return -ENOENT;
}

/* The usual place, tried before all mounts are read: these can be many. */
static bool find_usual(const char *group, const char *controller, struct cgroup_path *ret)
{
    char file[PATH_MAX + 16];
    const char *rest = below(group, "/");
    if (!rest)
        return false;
    snprintf(ret->folder, sizeof ret->folder, "%s%s%s", USUAL_MOUNT, *controller ? "/" : "",
             controller);
    ret->mount_len = strlen(ret->folder);
    snprintf(ret->folder + ret->mount_len, sizeof ret->folder - ret->mount_len, "%s", rest);
    snprintf(file, sizeof file, "%s/cgroup.procs", ret->folder);
    return access(file, F_OK) == 0;
}

int cgroup_path_find(const char *controller, struct cgroup_path *ret)
{
    char group[PATH_MAX / 2] = "";
    _cleanup_buf_ struct buf groups = BUF_INIT(GROUPS_MAX);
    _cleanup_buf_ struct buf mounts = BUF_INIT(MOUNTS_MAX);
    int r = io_read_file(AT_FDCWD, "/proc/self/cgroup", &groups);
    if (r == 0 && !buf_cstr(&groups))
        r = -ENOMEM;
    if (r == 0)
        r = find_group((char *)groups.data, controller, group, sizeof group);
    if (r < 0 || find_usual(group, controller, ret))
        return r;
    r = io_read_file(AT_FDCWD, "/proc/self/mountinfo", &mounts);
    if (r == 0 && !buf_cstr(&mounts))
        r = -ENOMEM;
    return r < 0 ? r : cgroup_path_parse((char *)groups.data, (char *)mounts.data, controller, ret);
}
