/* The answer to WIRE_LAYERED. */
#pragma once

#include "answer.h"
#include "error.h"
#include "tree.h"

int layered_answer(const struct tree *t, const struct wire_frame *request, struct answer *a,
                   struct error *err);
