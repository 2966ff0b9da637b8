/*
 * The hunks of one file: @@ lines and their bodies.
 *
 * A header is believed if its counts come out even with the body; then what follows the body is
 * none of the hunk's business. If they do not, or there are none, the body reaches as far as its
 * lines look like a body, and the counts are made from it.
 */
#pragma once

#include "cursor.h"
#include "diff.h"

/* Reads hunks for the file that was added last, as long as there are any. */
int hunks_parse(struct diff *d, struct cursor *c, struct error *err);

/* Reads one body in a form without counts, up to the first line for which `ends` is true. */
int hunks_parse_body(struct diff *d, struct cursor *c, struct error *err);

/* Do a --- and a +++ line begin here? */
bool hunks_at_names(const struct cursor *c);
