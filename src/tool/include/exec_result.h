/*
 * Results of commands, as `run --json`, `box exec --json` and the library's hutch_box_exec print
 * them; and a hint for a program that the host has and the box has not.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "box.h"

/* `changes` NULL: the object has no member of that name. Both give NULL without memory. */
json_t *exec_result_json(const struct box_result *r, const struct box_changes *changes);
json_t *changes_json(const struct box_changes *changes); /* [{"path", "kind"}, …] */

/* The text of a kept stream: whole, or its head, a line that counts what was left out, and its
 * tail. No character is cut in half where something was left out. */
int exec_result_kept_text(const struct box_capture *c, struct buf *out);

/* Was anything of it left out? */
bool exec_result_is_cut(const struct box_capture *c);

/* Looks a program up in the host's PATH; true with its absolute path. */
bool missing_on_host(const char *name, char *path, size_t size);
bool missing_is_below(const char *path, const char *folder);

/* The folder to show for a program: the one above `bin`, where its libraries are, unless that is
 * /usr or the home. */
void missing_folder(const char *path, char *folder, size_t size);

/* If the output ends with a shell's message that a command was not found, and the host has the
 * program outside of what a box shows: true with what to do. */
bool missing_describe(const struct box_capture *output, char *text, size_t size);
