/* What the subcommands of `hutch box` share. */
#pragma once

#include "keeper.h"

/* Prints names on stdout, one per line, or with json as a member of an object: a string, or with
 * `list` a list. Returns the exit status. */
int boxes_print(const struct registry_id *ids, size_t n, bool json, bool list);
