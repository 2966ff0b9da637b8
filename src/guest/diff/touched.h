/* The answer to WIRE_TOUCHED: every name that the box's layers decide about, so that the host can
 * record what the folder has there. */
#pragma once

#include "answer.h"
#include "error.h"
#include "tree.h"

int touched_answer(const struct tree *t, struct answer *a, struct error *err);
