/*
 * What git_push and create_pr share: a branch of the box, on its way to a remote of the person's
 * repository.
 *
 * publish_prepare() takes the box's commits into a quarantine and checks all that can be checked
 * without sending anything: the branch's name, that it is not the remote's default branch, that it
 * is a fast-forward. publish_push() sends exactly the commit that was checked and shown.
 */
#pragma once

#include "git_transfer.h"
#include "host.h"
#include "remote.h"

#define PUBLISH_PREFIX "hutch/"

struct publish {
    struct git_repo repo;
    struct remote remote;
    struct git_transfer box;
    struct remote_heads heads;
    char branch[GIT_BRANCH_MAX + 1];
    char id[GIT_ID_SIZE]; /* the commit */
    size_t commits;       /* that the remote does not have, as far as is known here */
    struct buf summary;   /* where to, which commits, which files; safe to show */
};

/* `branch` NULL: the one that is checked out in the box. */
int publish_prepare(struct tool_call *c, const char *branch, const char *remote,
                    struct publish *ret, struct error *err);
void publish_free(struct publish *p);
#define _cleanup_publish_ _cleanup_(publish_free)

/* Is there anything to push? */
bool publish_is_due(const struct publish *p);
int publish_push(const struct publish *p, int cancel, struct error *err);
