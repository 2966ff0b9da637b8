/* What the subcommands of `hutch box` share. */
#pragma once

#include "keeper.h"

/* The box that a word of the command line means, and the registry it is in. */
int boxes_find(const char *given, int *ret_registry, struct registry_id *ret, struct error *err);

/* Prints names on stdout, one per line, or with json as a member of an object: a string, or with
 * `list` a list. Returns the exit status. */
int boxes_print(const struct registry_id *ids, size_t n, bool json, bool list);
