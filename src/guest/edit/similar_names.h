/* What a path that cannot be opened may have meant: a name that is spelled alike, a link that leads
 * nowhere. */
#pragma once

#include "file.h"

/* Says more about a failure `r` to open c->path, if more can be found out. Returns r. */
int similar_names_explain(struct file_call *c, int r, struct error *err);
