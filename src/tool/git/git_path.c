#include <string.h>

#include "cleanup.h"
#include "git_path.h"
#include "banned.h"

static bool begins(const char *path, const char *with)
{
    return strncmp(path, with, strlen(with)) == 0;
}

static bool has_component(const char *path, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (!at[n] || at[n] == '/'))
            return true;
    return false;
}

/* `rest` is relative to the .git. A submodule's repository lies in modules/NAME, with the same
 * names. */
static enum git_path_kind kind_of(const char *rest)
{
    static const char *const COMMITS[] = {"refs/",       "objects/", "logs/",
                                          "packed-refs", "HEAD",     "reftable/"};
    const char *name = strrchr(rest, '/') ? strrchr(rest, '/') + 1 : rest;
    for (size_t i = 0; i < ARRAY_SIZE(COMMITS); i++)
        if (begins(rest, COMMITS[i]))
            return GIT_PATH_COMMITS;
    if (begins(rest, "hooks/") || strcmp(rest, "config") == 0 ||
        strcmp(rest, "config.worktree") == 0)
        return GIT_PATH_SETTINGS;
    if (!begins(rest, "modules/"))
        return GIT_PATH_OTHER;
    if (has_component(rest, "refs") || has_component(rest, "objects") ||
        has_component(rest, "logs") || strcmp(name, "packed-refs") == 0 ||
        strcmp(name, "HEAD") == 0)
        return GIT_PATH_COMMITS;
    return has_component(rest, "hooks") || strcmp(name, "config") == 0 ? GIT_PATH_SETTINGS
                                                                       : GIT_PATH_OTHER;
}

bool git_path_split(const char *path, struct git_path *ret)
{
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (begins(at, ".git/")) {
            ret->n_folder = at > path ? (size_t)(at - path - 1) : 0;
            ret->kind = kind_of(at + strlen(".git/"));
            ret->in_module = begins(at, ".git/modules/");
            return true;
        }
    return false;
}
