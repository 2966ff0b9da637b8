/* What the tools that work on files share. */
#pragma once

#include "ask.h"

/* The path of the input, for ask_path. NULL with the result marked as failed if it holds a NUL. */
const char *file_input_path(struct tool_call *c);

/* The GLOB fields of a request: of a string or a list of them. */
void file_put_globs(struct buf *b, const json_t *glob);

/* Adds to a failed file request what to do about it. Returns -err->code. */
int file_hint(struct error *err);
int file_search_hint(struct error *err); /* of a search or a listing */

/*
 * Names of files as they come out of a box: any bytes but NUL.
 *
 * A name that is UTF-8 is itself in data. Any other is quoted as git does ("caf\351.txt") with the
 * bytes beside it in base64, so that nothing is lost. In text a name with control characters is
 * quoted as well: it can neither end its line nor reach a terminal.
 */

/* What goes before the names that the guest reports, for a path of the input. */
const char *file_name_prefix(const char *path);

/* Sets `key` of the object, and `key`_base64 if the name is not UTF-8. 0 or -ENOMEM. */
int file_name_set(json_t *o, const char *key, const char *prefix, const void *name, size_t n);

/* Appends it for a model. */
int file_name_append(struct buf *b, const char *prefix, const void *name, size_t n);

/* Appends lines with numbers from `first` on, as valid UTF-8, without a CR before the newline. */
void numbered_append(struct buf *out, const uint8_t *text, size_t n, uint64_t first);

/* Appends the lines that a unified diff leaves in the file, with their numbers; "..." between two
 * hunks. */
void numbered_append_diff(struct buf *out, const uint8_t *diff, size_t n);
