/* The answer to WIRE_FETCH: one file of the merged view. Holes are left out: an empty DATA frame
 * with OFFSET says where the next bytes go. */
#pragma once

#include "answer.h"
#include "error.h"
#include "tree.h"

int fetch_answer(const struct tree *t, const struct wire_frame *request, struct answer *a,
                 struct error *err);
