/*
 * PATCH: applies a diff to the files beneath the root, all or nothing.
 *
 * diff.h parses it, plan.h computes the result in memory, commit.c writes it. The answer is one
 * ENTRY for each file that was changed, or one for each thing that is in the way, and then nothing
 * has changed; docs/protocol.md has their fields.
 */
#pragma once

#include "file.h"

int patch_serve(struct file_call *c, struct error *err);
