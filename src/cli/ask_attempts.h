/* `hutch ask --attempts N --test CMD`. */
#pragma once

#include "ask_show.h"
#include "run_options.h"

/* Lets them try, shows how each did, and leaves the best one's changes in `show`. */
int ask_attempts(struct agent *a, const char *words, const struct run_options *o,
                 struct ask_show *show, struct error *err);
