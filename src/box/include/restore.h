/* Going back to a snapshot after changes were applied to the folder; see restore.c. */
#pragma once

#include "box.h"

/* Told of each applied path whose earlier state concerns the restored box. `why` is NULL if the box
 * shows that state, else why it could not be restored. */
struct restore_report {
    void (*say)(void *data, const char *path, const char *why);
    void *data;
};

/* Forks a snapshot of the box `current`, or of one that it was forked from, such that the fork
 * shows what that box showed when the snapshot was taken, even where `current` applied changes to
 * the folder since. It has the network and the limits that `current` has now. */
int box_fork_at(struct snapshot *s, struct box *current, const struct restore_report *report,
                struct box **ret, struct error *err);
