/*
 * Writing a box's changes back to the person's folder.
 *
 * Beneath the folder only, never through a link, each file whole or not at all. A file that the person
 * changed since the box began is a conflict: it is reported and left alone. So is everything under a .git,
 * since a hook or a setting there would run on the host. docs/snapshots.md states the rules.
 *
 * What is new and changed is written before what is gone is removed, so that a file the box moved is never
 * nowhere; only where one has to make room for the other (a file became a folder) it is the other way round.
 */
#pragma once

#include <stdint.h>

#include "box.h"

/* What earlier applies of the same box wrote themselves, so that it is not taken for the person's doing. */
struct apply_memory;
struct apply_memory *apply_memory_new(void);
struct apply_memory *apply_memory_free(struct apply_memory *m);

/* `connect` makes a fresh connection to a scribe: 0 or a negative errno. `since_realtime_ns` is when the box
 * began. Returns the number of conflicts and refusals, or a negative errno; then what was applied so far
 * stays. */
int apply_changes(int folder_fd, int64_t since_realtime_ns, struct apply_memory *memory,
                  int (*connect)(void *data, int *ret_fd), void *data, const struct apply_report *report,
                  struct error *err);
