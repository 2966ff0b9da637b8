/* The result object of a command, as the contract with scripts says it: `run --json`, `box exec
 * --json`, and the library's hutch_box_exec. */
#pragma once

#include <jansson.h>

#include "box.h"

/* `changes` NULL: the object has no member of that name. Both give NULL without memory. */
json_t *exec_result_json(const struct box_result *r, const struct box_changes *changes);
json_t *changes_json(const struct box_changes *changes); /* [{"path", "kind"}, …] */

/* The text of a kept stream: whole, or its head, a line that counts what was left out, and its
 * tail. No character is cut in half where something was left out. */
int exec_result_kept_text(const struct box_capture *c, struct buf *out);

/* Was anything of it left out? */
bool exec_result_is_cut(const struct box_capture *c);
