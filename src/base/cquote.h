/*
 * Names as git writes them in its diffs: as they are, or when they hold control characters, quotes,
 * backslashes or bytes outside of ASCII, between double quotes with C's escapes. Such a name is
 * also harmless on a terminal.
 */
#pragma once

#include <stdbool.h>

struct buf;

bool cquote_is_needed(const char *name);

/* Appends prefix and name, quoted together if the name needs it. Failure sticks to b->failed. */
void cquote_append(struct buf *b, const char *prefix, const char *name);
