/*
 * Applying a box's changes as every frontend does it: the files (box_apply), then the commits,
 * branches, tags and stashes of the repositories in the workspace (git_deliver.h).
 */
#pragma once

#include "box.h"

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
