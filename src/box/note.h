/*
 * Recording what the folder has at the paths that a box touched (see seen.h).
 *
 * A path that the box touched since the last record is taken as seen only if the folder's entry has
 * not changed since the time `fresh_ns`, from which on the box looks names up anew: then whatever
 * the box saw there is what is there now. All folders above it must be the ones they were, too,
 * because moving a folder does not change the files in it.
 */
#pragma once

#include <stdint.h>

#include "error.h"
#include "seen.h"

/* Reads the list of touched paths from a fresh connection to a diff worker and records what is new.
 */
int note_touched(struct seen *seen, int folder, int64_t fresh_ns, int conn, struct error *err);

/* Reads a regular file whose identity is `id` before and after. -ESTALE if it is another by then,
 * -EFBIG beyond `max` bytes. */
int note_read_file(int dir, const char *name, const struct identity *id, size_t max,
                   struct seen_base **ret);
