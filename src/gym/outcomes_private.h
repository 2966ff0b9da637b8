/* What outcomes.c and outcomes_lines.c share. */
#pragma once

#include "outcomes.h"

int outcomes_begin(struct outcomes *o, const char *id);
int outcomes_end(struct outcomes *o, const char *id, enum grade_outcome outcome,
                 const char *message);
