/*
 * Writing a box's changes back to the person's folder.
 *
 * Beneath the folder only, never through a link, each file whole or not at all. A file is replaced
 * or removed only if it is the one that the box saw (seen.h); that is checked again when it has
 * left its place, and what turns out to be another one goes back. Where the person and the box both
 * changed a text, their changes are merged; what cannot be merged is a conflict, reported and left
 * alone unless apply_options say otherwise. docs/snapshots.md states the rules.
 *
 * What is new and changed is written before what is gone is removed, so that a file the box moved
 * is never nowhere; only where one has to make room for the other (a file became a folder) it is
 * the other way round.
 */
#pragma once

#include <stdint.h>

#include "box.h"
#include "box_edit.h"
#include "seen.h"

struct apply_job {
    int folder;
    struct seen *seen;       /* owned by the box alone */
    struct applied_log *log; /* or NULL */
    const struct apply_options *options;
    int (*connect)(void *data,
                   int *ret_fd); /* a fresh connection to a diff worker: 0 or a negative errno */
    void *data;
    uint64_t bytes_max;      /* of content that may be written */
    bool journal;            /* lock the folder, and leave a record for after a kill */
    struct box_edits *edits; /* what has to be written in the box afterwards */
};

/* Returns the number of conflicts and refusals, or a negative errno; then what was applied so far
 * stays. */
int apply_changes(const struct apply_job *job, const struct apply_report *report,
                  struct error *err);
