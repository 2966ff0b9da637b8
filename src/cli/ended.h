/* In words, on stderr, why a command in a box ended other than by itself, and what to do about it.
 */
#pragma once

#include "box.h"

/* Says nothing where the exit status tells all. `options` may be NULL where the box's are not
 * known; `name` is the command's. */
void ended_explain(const struct box_result *r, const struct box_options *options, const char *name);
