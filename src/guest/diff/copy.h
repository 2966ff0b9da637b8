/*
 * The answer to WIRE_COPY: the box's changes as a new layer, in the overlay's `copy` folder or in a
 * new snapshot.
 *
 * Plain, it is l0 as it is, with whiteouts, overlay's marks, links among files and holes kept.
 * Flattened, it is all layers in one: what the merged view shows at each candidate, a whiteout
 * where it shows nothing but the base has something, and an opaque mark on each folder that hides
 * what the base has there.
 */
#pragma once

#include "error.h"
#include "overlay.h"
#include "wire.h"

/* Copies the workspace and the root filesystem as the request says; `root` shows both. */
int copy_snapshot(int root, struct overlay *workspace, const struct wire_frame *request,
                  struct error *err);
