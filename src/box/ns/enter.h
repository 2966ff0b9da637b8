/* The way of a child of the host's into a family of boxes. */
#pragma once

enum enter_step { ENTER_CGROUP, ENTER_GROUPS, ENTER_USER, ENTER_ID, ENTER_MOUNTS, ENTER_STEPS };

/* What each step is for a person, as in "cannot enter the user namespace". */
extern const char *const ENTER_WORDS[ENTER_STEPS];

/*
 * Leaves root's groups, enters the family's user namespace, becomes the box's user by that
 * namespace's own right, and enters the mount namespace (unless it is -1). Async-signal-safe. 0, or
 * a negative errno with the step that failed.
 */
int enter_family(int userns, int mntns, enum enter_step *ret_step);
