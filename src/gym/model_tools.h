/* What a model is told of an episode: the tools of the table and submit, and who it is. */
#pragma once

#include <jansson.h>

#include "task.h"

/* [{"name", "description", "input_schema"}, …], always in the same order; NULL without memory. */
json_t *model_tools(void);

/* The same for all tasks, so that a provider's cache is of use. */
extern const char MODEL_SYSTEM[];
