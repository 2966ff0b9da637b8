/* Filling a step. Both return 0 or -ENOMEM, and leave ret untouched then. */
#pragma once

#include "env_private.h"

int env_report_reset(const struct gym_env *e, struct gym_step *ret);

/* After everything was counted. `verdict` is that of the end, or NULL; `reason` why it was
 * truncated, or NULL. */
struct env_report {
    const char *tool;
    json_t *input;
    json_t *observation;
    int64_t ns;
    bool terminated, truncated;
    json_t *verdict;
    const char *reason;
};
int env_report_step(const struct gym_env *e, const struct env_report *r, struct gym_step *ret);
