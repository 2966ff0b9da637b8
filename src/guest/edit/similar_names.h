/* What a path that cannot be opened may have meant: names that are written alike, links that lead
 * nowhere. */
#pragma once

#include "file.h"

/* Says more about a failure `r` to open c->path, if more can be found out. Returns r. */
int similar_names_explain(struct file_call *c, int r, struct error *err);

/* How alike two names are: 0 if they are the same but for case, else the number of single changes
 * (insert, delete, replace, swap neighbours) from one to the other, or `limit` + 1 if it takes
 * more. */
unsigned similar_names_distance(const char *a, const char *b, unsigned limit);
