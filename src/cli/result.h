/* The result object of `run --json` and `box exec --json`, as the contract with scripts says it. */
#pragma once

#include "box.h"

/* Prints it as one line on stdout; `changes` may be NULL. Returns 0 or a negative errno. */
int result_print(const struct box_result *r, const struct box_changes *changes, struct error *err);

/* The text of a kept stream: whole, or its head, a line that counts what was left out, and its tail. No
 * character is cut in half where something was left out. */
int result_kept_text(const struct box_capture *c, struct buf *out);

/* Was anything of it left out? */
bool result_is_cut(const struct box_capture *c);
