/* A repository on the host, the refs of any repository, and paths beneath a .git. */
#pragma once

#include "git_run.h"

#define GIT_ID_SIZE   65 /* SHA-256 in hex, and a NUL */
#define GIT_REFS_MAX  100000u
#define GIT_REF_BYTES 250u

struct git_repo {
    char *work_tree;
    char *git_dir;    /* of this work tree */
    char *common_dir; /* differs from git_dir in a linked worktree */
    char *objects, *index, *shallow;
    char format[16]; /* sha1, sha256 */
    bool is_shallow;
};

/* The repository whose work tree begins at this folder. -ENOENT without a text if the folder has no
 * .git. */
int git_repo_open(const char *work_tree, struct git_repo *ret, struct error *err);

/* Does this folder, or one above it, hold a .git? */
bool git_repo_is_above(const char *folder);

/* The top of the work tree that a folder lies in: the nearest folder at or above it that holds a
 * .git, as far as the person's home, which is never one (a repository of dot files is not meant). A
 * new string, or NULL.
 */
char *git_repo_top(const char *folder);

/* Makes an empty one, without hooks. */
int git_repo_init(const char *work_tree, struct error *err);

/* Removes the .git of a repository that was made a moment ago; or any folder of ours. */
void git_repo_remove(const struct git_repo *r);
void git_remove_tree(const char *path);
void git_repo_free(struct git_repo *r);
#define _cleanup_git_repo_ _cleanup_(git_repo_free)

struct git_ref {
    char *name;
    char id[GIT_ID_SIZE];
};

struct git_refs {
    struct git_ref *items;
    size_t count, room;
};

void git_refs_free(struct git_refs *r);
int git_refs_add(struct git_refs *r, const char *name, const char *id);
const struct git_ref *git_refs_find(const struct git_refs *r, const char *name);
bool git_refs_have_id(const struct git_refs *r, const char *id);

/* All refs of a repository on the host, or those beneath a prefix. */
int git_refs_read(const char *git_dir, const char *prefix, struct git_refs *ret, struct error *err);

/* Hex of the length of one of git's two hashes? */
bool git_id_is_valid(const char *id);

/* May a box give a branch, tag or note of ours this full name? Stricter than git: nothing that a
 * command line could take for an option, and no byte that a terminal or a case-folding file system
 * acts on. */
bool git_ref_name_is_safe(const char *name);

/* Paths beneath a .git, as a box's list of changes has them. */
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
