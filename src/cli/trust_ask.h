/* The question whether a folder is trusted, for commands that have a person at a terminal. */
#pragma once

#include "trust.h"

/* Asks about a folder whose files would set `items` (as trust_items() describes them), and stores
 * the answer. Returns 1: yes; 0: no, or no answer (which is not stored); or a negative errno. */
int trust_ask(const struct trust *t, const json_t *items, struct error *err);
