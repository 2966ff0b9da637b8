/*
 * PATCH: applies a diff to the files beneath the root, all or nothing.
 *
 * diff.h reads it, plan.h works out what comes of it, in memory; commit.h carries that out. Answers
 * are one ENTRY for each file that was changed, or one for each thing that stands in the way, and
 * then nothing has changed; docs/protocol.md has their fields.
 */
#pragma once

#include "../file.h"

int patch_serve(struct file_call *c, struct error *err);
