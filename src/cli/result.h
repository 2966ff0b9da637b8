/* The result object of `run --json` and `box exec --json`, printed. */
#pragma once

#include "box.h"

/* Prints it as one line on stdout; `changes` may be NULL. -ENOMEM. */
int result_print(const struct box_result *r, const struct box_changes *changes, struct error *err);
