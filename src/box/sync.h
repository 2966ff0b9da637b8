/*
 * Bringing the folder's present state into a box.
 *
 * A file that the box did not touch shows through from the folder, once the overlay has forgotten
 * the names it looked up, which opening a view makes it do. Here are the others: paths that the box
 * changed and the person changed, too. They are merged as in an apply, but it is the box that gets
 * the result.
 */
#pragma once

#include "apply.h"

/* Returns the number of conflicts, or a negative errno. What the box has to get is in job->edits
 * then. */
int sync_folder(const struct apply_job *job, const struct apply_report *report, struct error *err);
