/* One HTTP request and its answer, for host-side tools. */
#pragma once

#include <jansson.h>

#include "place.h"

/* Prints the answer. Returns the exit status of the program. */
int exchange_run(const json_t *settings, const struct place *p);
