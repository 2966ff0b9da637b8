/*
 * Where the workspace is shown beside /workspace: at its own path of the host. Build trees hold
 * absolute paths (CMake's cache, the first lines of the scripts of a virtual environment), which
 * lead to the right files then.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "layout.h"
#include "skeleton/lists.h"
#include "banned.h"

/* What every box has at the top, read-only or the kernel's: nothing can be put into it. */
static const char *const TAKEN[] = {"/usr", "/bin",    "/sbin", "/lib", "/lib32", "/lib64",
                                    "/etc", "/libx32", "/proc", "/sys", "/dev",   "/workspace"};

/* Folders that a box needs for itself: a workspace may lie inside of one, but not take its place.
 */
static const char *const NEEDED[] = {"/home/agent", "/tmp", "/run", "/var/tmp", "/var/run"};

static bool lies_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static bool is_free(const struct layout *l, const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(TAKEN); i++)
        if (lies_in(path, TAKEN[i]))
            return false;
    for (size_t i = 0; i < ARRAY_SIZE(NEEDED); i++)
        if (lies_in(NEEDED[i], path))
            return false;
    for (size_t i = 0; i < LIST_MORE_N; i++)
        if (lies_in(path, LIST_MORE[i]) || lies_in(LIST_MORE[i], path))
            return false;
    for (size_t i = 0; i < l->n_shares; i++)
        if (lies_in(path, l->shares[i].at) || lies_in(l->shares[i].at, path))
            return false;
    for (size_t i = 0; i < l->n_links; i++)
        if (lies_in(path, l->links[i].at))
            return false;
    return true;
}

/* In a box /var/tmp and /var/run are links. */
static const char *unlinked(const char *path, char *text, size_t size)
{
    if (!lies_in(path, "/var/tmp") && !lies_in(path, "/var/run"))
        return path;
    return (size_t)snprintf(text, size, "%s", path + strlen("/var")) < size ? text : "/";
}

void layout_set_own_path(struct layout *l, const char *workspace)
{
    char text[PATH_MAX];
    const char *path = unlinked(workspace, text, sizeof text);
    l->own_path[0] = 0;
    if (path[0] == '/' && path[1] && strlen(path) < sizeof l->own_path && is_free(l, path))
        snprintf(l->own_path, sizeof l->own_path, "%s", path);
}
