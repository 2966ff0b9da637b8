/*
 * Workspaces whose .git is a file: a linked worktree, or the inside of a submodule. Their
 * repository lies outside of the workspace, where a box sees nothing.
 *
 * The box is shown the repository's objects, read-only, and gets a git directory of its own in its
 * home that borrows them: with the same HEAD, refs and index, and of the configuration only what
 * git needs to read the repository (no remotes, no credentials). The .git file of the box names it.
 * Snapshots and forks keep it, and its commits are delivered as those of any repository. With mode
 * cow only: in the others the .git file would be the person's.
 */
#pragma once

#include "box.h"
#include "git_repo.h"

struct git_worktree {
    bool needed;
    struct git_repo repo;
};

/* Before the box is made: adds the objects to its shares. The options point into `ret`, which
 * outlives the box's start. Does nothing, quickly, in any other workspace. */
void git_worktree_show(struct box_options *o, struct git_worktree *ret);

/* Is the folder's .git a file? */
bool git_worktree_is_linked(const char *folder);

/* Once the box is up, before anything runs in it. */
int git_worktree_install(const struct git_worktree *w, struct box *box, struct error *err);

/* May there be commits, branches or stashes to deliver? By what the box says. */
bool git_worktree_moved(struct box *box);
void git_worktree_free(struct git_worktree *w);
#define _cleanup_git_worktree_ _cleanup_(git_worktree_free)
