/*
 * git on the host: running it; repositories, refs, and paths beneath a .git.
 *
 * git starts with an environment of its own: no variable of the caller's, no configuration but the
 * repository's (and the person's, only where a call asks for it), no hook, no file system monitor,
 * no transport, no replaced objects, no background maintenance. Its output, memory and time are
 * bounded. Where root works in the repository of another user, git runs as that user.
 *
 * Never run git in a folder that a box can write (mode direct): its .git/config could name
 * programs.
 */
#pragma once

#include <stdint.h>

#include "child.h"
#include "error.h"
#include "text.h"

#define GIT_TIMEOUT_NS (120 * 1000000000LL)

struct git_call {
    const char *git_dir;     /* NULL: no repository */
    const char *work_tree;   /* NULL: none */
    const char *folder;      /* working directory; NULL: the work tree, else the root */
    const char *const *args; /* the subcommand and its arguments, ended by NULL */
    const char *const *env;  /* more KEY=VALUE, which override ours; ended by NULL, or NULL */
    const void *input;       /* stdin */
    size_t n_input;
    const char *owner_of; /* root runs git as the owner of this; NULL: git_dir, else work_tree */
    uint64_t out_max;     /* bytes of stdout; 0: 64 MiB */
    int64_t timeout_ns;   /* 0: GIT_TIMEOUT_NS */
    int cancel;           /* ends git when it becomes readable; 0 or -1: none */
    bool personal; /* with the person's own configuration, home and SSH agent: to reach a remote */
    bool hostile;  /* reads bytes that a box made: memory is bounded, too */
};

/* Runs git to its end. 0, or its exit status if that is not 0 (err holds git's complaint), or a
 * negative errno: -ENOENT (git is not installed), -ETIMEDOUT, -ENOBUFS, -ECANCELED. `ret_out` gets
 * git's stdout, is initialised here and freed by the caller in any case; NULL: dropped. */
int git_run(const struct git_call *c, struct buf *ret_out, struct error *err);

/* The same, but an exit status that is not 0 becomes -EIO. */
int git_check(const struct git_call *c, struct buf *ret_out, struct error *err);

/* As git_run, with the first line of stdout; empty if git fails. */
int git_line(const struct git_call *c, char *ret, size_t size, struct error *err);

/* The same in two steps, for a caller that feeds stdin (child.in) meanwhile. Call git_run_finish
 * exactly once; it closes child.in. */
int git_run_begin(const struct git_call *c, struct child *ret, struct error *err);
int git_run_finish(const struct git_call *c, struct child *child, struct buf *ret_out,
                   struct error *err);

#define GIT_ID_SIZE   65 /* SHA-256 in hex, and a NUL */
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
void git_repo_free(struct git_repo *r);
#define _cleanup_git_repo_ _cleanup_(git_repo_free)

/* The top of the work tree that a folder lies in: the nearest folder at or above it that holds a
 * .git. The person's home and what is above it do not count (a repository of dot files is not
 * meant). A new string, or NULL. */
char *git_repo_top(const char *folder);

/* Creates an empty repository without hooks. */
int git_repo_init(const char *work_tree, struct error *err);

/* A temporary folder: NAME-XXXXXX beneath $TMPDIR or /tmp, a new string. */
int git_make_temporary(const char *name, char **ret, struct error *err);
void git_remove_tree(const char *path);

/* Clones from the network into an empty folder, with this user's credentials, and checks out without
 * hooks, filters and submodules (git_clone.c). Addresses as those of the tool git_clone. */
struct git_clone_options {
    const char *url;
    const char *ref; /* branch, tag or full commit ID; NULL: the default branch */
    unsigned depth;  /* 0: all of its history, as with a commit ID */
    uint64_t max;    /* bytes, of the objects and of the files */
    int cancel;
};
int git_clone_folder(const struct git_clone_options *o, const char *folder,
                     char ret_commit[GIT_ID_SIZE], struct error *err);

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

/* All refs of a repository on the host. */
int git_refs_read(const char *git_dir, struct git_refs *ret, struct error *err);

/* Hex of the length of one of git's two hashes? */
bool git_id_is_valid(const char *id);

/* May a box give a branch, tag or note of ours this full name? Stricter than git: nothing that a
 * command line could take for an option, and no byte that a terminal or a case-folding file system
 * acts on. */
bool git_ref_name_is_safe(const char *name);

/* Paths beneath a .git, as a box's list of changes has them. */
enum git_path_kind {
    GIT_PATH_OTHER,    /* the index, messages, locks: not reported */
    GIT_PATH_COMMITS,  /* refs, objects, reflogs: there may be commits to deliver */
    GIT_PATH_SETTINGS, /* hooks and configuration, which git on the host would act on */
};

struct git_path {
    size_t n_folder; /* bytes of the folder that holds the .git, no slash; 0: the workspace */
    enum git_path_kind kind;
    bool in_module; /* it belongs to a submodule's repository, beneath .git/modules */
};

/* Is this a path inside of a folder that is called exactly .git? For other spellings see
 * relpath_touches_git. */
bool git_path_split(const char *path, struct git_path *ret);
