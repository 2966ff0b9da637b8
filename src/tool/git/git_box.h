/*
 * What a box needs so that git works in it as the person expects. One pair of calls around the
 * making of a box, for every frontend.
 *
 * Identity: user.name and user.email as git on the host knows them for the folder, nothing else.
 *
 * Mask: the repository's own configuration without credentials (a token in a remote's URL, an
 * http.extraHeader, a credential helper). A box of mode cow sees this text in place of .git/config
 * if one of these is in it.
 *
 * Worktree: where the workspace's .git is a file (a linked worktree, the inside of a submodule),
 * its repository lies outside of the workspace, and the box does not see it. The box gets the
 * repository's objects, read-only, and in its home a git directory of its own that borrows them:
 * with the same HEAD, refs and index, and of the configuration only what git needs to read the
 * repository. The .git file of the box names it. Snapshots and forks keep it, and its commits are
 * delivered as those of any repository. With mode cow only: otherwise the .git file would be the
 * person's.
 */
#pragma once

#include "box.h"
#include "git.h"

#define GIT_IDENTITY_SIZE 160

struct git_worktree {
    bool needed;
    struct git_repo repo;
};

struct git_box {
    char *identity, *mask; /* texts of configurations, or NULL */
    struct git_worktree worktree;
};

/* Completes the options, which point into `ret` until the box is made. A command that must start
 * quickly calls it only for a folder in a repository (io_folder_with). */
void git_box_prepare(struct box_options *o, struct git_box *ret);

/* Once the box is up, before anything runs in it. */
int git_box_install(const struct git_box *g, struct box *box, struct error *err);
void git_box_free(struct git_box *g);

static inline void cleanup_git_box(struct git_box *g)
{
    if (g->identity || g->mask || g->worktree.needed)
        git_box_free(g);
}
#define _cleanup_git_box_ _cleanup_(cleanup_git_box)

/* From the person's and the folder's repository's configuration, with includeIf. Printable text;
 * empty where nothing is set, or there is no git. */
void git_identity(const char *folder, char name[GIT_IDENTITY_SIZE], char email[GIT_IDENTITY_SIZE]);

/* 1 with the text, 0 if the workspace's .git/config needs no mask. If the file cannot be
 * understood, the text has nothing but what git needs to read a repository. */
int git_mask_config(const char *workspace, struct buf *ret);

/* A URL without user name and password, but for the name of SSH's. Pure. */
void git_mask_url(const char *url, struct buf *ret);

/* May a box see an entry of a configuration, by its full name (in lower case, but for a
 * subsection)? Pure. */
bool git_mask_allows(const char *key);

/* Is the folder's .git a file? */
bool git_worktree_is_linked(const char *folder);

/* May there be commits, branches or stashes to deliver? By what the box says. */
bool git_worktree_moved(struct box *box);

/*
 * --- applying a box's changes, for every frontend (tool_apply.c) ---
 *
 * The files (box_apply), then the commits, branches, tags and stashes of the repositories in the
 * workspace (git_deliver).
 */
struct tool_apply_options {
    const char *session; /* names what is kept aside: refs/hutch/SESSION/…; NULL: the box's ID */
    uint64_t disk;       /* bytes of new commits at most; 0: 1 GiB */
    int cancel;          /* 0 or -1: none */
    struct apply_options files; /* how to apply the files (box.h) */
    struct apply_report report; /* of the files; nothing beneath a .git is reported */
    void (*note)(void *data, const char *line); /* about commits, and what else there is to know */
    void *data;
};

/* Returns how many files were left alone and repositories not delivered, or a negative errno. */
int tool_apply(struct box *box, const struct tool_apply_options *o, struct error *err);
