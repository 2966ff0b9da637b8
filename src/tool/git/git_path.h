/* Paths beneath a .git, as a box's list of changes has them. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum git_path_kind {
    GIT_PATH_OTHER,    /* the index, messages, locks: nothing that is worth a word */
    GIT_PATH_COMMITS,  /* refs, objects, reflogs: there may be commits to deliver */
    GIT_PATH_SETTINGS, /* hooks and configuration, which git on the host would act on */
};

struct git_path {
    size_t
        n_folder; /* bytes of the folder that holds the .git, without a slash; 0: the workspace */
    enum git_path_kind kind;
    bool in_module; /* it belongs to a submodule's repository, beneath .git/modules */
};

/* Is this a path inside of a folder that is called exactly .git? Other spellings are not, see
 * relpath_touches_git. */
bool git_path_split(const char *path, struct git_path *ret);
