/*
 * The answer to WIRE_DIFF: everything that changed in the workspace in git's diff format, such that
 * `git apply` makes the same change, byte for byte; or with STAT, a line per file and a summary.
 *
 * Left out: paths beneath a .git (their number is the result's COUNT) and what git cannot hold
 * (FIFOs, sockets, folders). Files that are too large are only said to differ (TOO_MANY is their
 * number).
 */
#pragma once

#include <stdbool.h>

#include "answer.h"
#include "error.h"
#include "overlay.h"

int diff_answer(const struct overlay *t, bool stat, struct answer *a, struct error *err);
