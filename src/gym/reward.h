/*
 * Rewards. Pure, and exact: time is counted in whole nanoseconds, so that sums do not depend on the
 * order in which they were made, and every price is multiplied once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "task.h"

/* What a reward is made of; their sum is the reward. */
struct reward {
    double pass_rate; /* 0 but at the end */
    double calls;     /* not more than 0 */
    double seconds;   /* not more than 0 */
};

/* Of one step that took so long. `pass_rate` is that of the end; NaN: this is not the end. */
struct reward reward_of_step(const struct task *t, int64_t ns, double pass_rate);

/* Of a whole episode: its return. NaN: it has not ended. */
struct reward reward_of_episode(const struct task *t, unsigned calls, int64_t ns, double pass_rate);

double reward_sum(const struct reward *r);

double reward_seconds(int64_t ns);
