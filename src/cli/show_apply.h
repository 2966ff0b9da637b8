/* What a person sees of applying a box's changes: a line per path that was left alone, and a summary. */
#pragma once

#include "box.h"

struct apply_tally {
    size_t done, same, left;
};

/* Says what happened to one path, and counts it; `data` is a struct apply_tally. Fits apply_report.say. */
void apply_say(void *data, const char *path, enum apply_outcome outcome, const char *why);
void apply_summary(const struct apply_tally *t);

/* Applies and says all that. Returns the number of conflicts and refusals, or a negative errno. */
int show_apply(struct box *b, struct error *err);
