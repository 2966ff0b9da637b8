/*
 * Delivers the commits of a quarantine (git_transfer.h) to the person's repository.
 *
 * A branch moves only forward, and only if nobody moved it meanwhile; the branch that is checked
 * out, HEAD and the index move together, and only if every file of the box was applied and nothing
 * that the person staged is in the way. All else goes to refs/hutch/ID/…, with a line that says how
 * to merge it. No file is checked out: the files of the work tree come from apply. docs/git.md
 * states the rules.
 */
#pragma once

#include "git_transfer.h"

struct git_deliver_options {
    const char *id;    /* the session, or else the box: refs/hutch/ID/… */
    bool all_applied;  /* every change of the box to the work tree was applied */
    const char *label; /* in front of each line if it is not NULL: which of several repositories */
    void (*say)(void *data, const char *line); /* what was delivered, a line each */
    void *data;
};

int git_deliver(const struct git_repo *host, const struct git_transfer *from,
                const struct git_deliver_options *o, struct error *err);
