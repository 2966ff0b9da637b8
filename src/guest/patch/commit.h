/*
 * Carrying out what was worked out, all or nothing.
 *
 * 1. Every new content is written to a stage (stage.h). What can fail for want of space or rights
 * fails here.
 * 2. Every file that the diff is about is looked at again: it must be the one that was read,
 * untouched.
 * 3. Files that go are moved to the stage; files that change are exchanged with their new content,
 * in one step each. What comes out must again be what was read.
 * 4. New files are moved in, into folders that are made for them, and never over something else.
 * 5. What waits in the stage is removed, and so are folders that lost their last file.
 *
 * If anything fails up to step 4, all that was done is undone from last to first. Whoever looks
 * meanwhile sees some files before and some after, but never half of one.
 */
#pragma once

#include "world.h"

/* The path that it failed at is part of the error's words. -ESTALE: somebody changed a file
 * meanwhile. */
int commit_run(int root, struct world *w, struct error *err);
