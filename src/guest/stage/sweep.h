/* What else lies at the paths of `own` is removed, and told. */
#pragma once

#include "keep.h"

int stage_sweep(struct stage *s, struct error *err);
