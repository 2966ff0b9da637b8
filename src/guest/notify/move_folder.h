/* Moving a folder that the overlay does not rename. */
#pragma once

#include "caller.h"

/*
 * Moves the folder `from` to `to`, within one mount. The new folder appears when all is in it;
 * until then it lies beside it under a name that begins with MOVE_PREFIX. What fails half-way is
 * taken back. Returns 0 or a negative errno: -EIO when something could not be taken back either,
 * and the rest lies under that name.
 */
int move_folder(const struct caller *c, int from_dir, const char *from, int to_dir, const char *to,
                unsigned flags);

#define MOVE_PREFIX ".hutch-rename-"
