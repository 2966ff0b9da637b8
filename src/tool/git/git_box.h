/*
 * What a box needs so that git works in it as the person expects: who they are (git_identity.h),
 * the repository's configuration without credentials (git_mask.h), a git directory where that of
 * the workspace lies elsewhere (git_worktree.h). One pair of calls around the making of a box, for
 * every frontend.
 */
#pragma once

#include "git_worktree.h"

struct git_box {
    char identity[BOX_GIT_SIZE];
    char *mask;
    struct git_worktree worktree;
};

/* Completes the options, which point into `ret` until the box is made. For a command that must
 * start quickly, `always` is false: in a folder that is in no repository nothing is done. */
void git_box_prepare(struct box_options *o, bool always, struct git_box *ret);

/* Once the box is up, before anything runs in it. */
int git_box_install(const struct git_box *g, struct box *box, struct error *err);
void git_box_free(struct git_box *g);
#define _cleanup_git_box_ _cleanup_(git_box_free)
