#include <math.h>

#include "reward.h"
#include "clock.h"
#include "banned.h"

double reward_seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

/* `0 - x` and not `-x`: what costs nothing is 0, not a negative zero, which would print as one. */
struct reward reward_of_episode(const struct task *t, unsigned calls, int64_t ns, double pass_rate)
{
    return (struct reward){.pass_rate = isnan(pass_rate) ? 0 : pass_rate,
                           .calls = 0 - t->call_price * calls,
                           .seconds = 0 - t->second_price * reward_seconds(ns)};
}

struct reward reward_of_step(const struct task *t, int64_t ns, double pass_rate)
{
    return reward_of_episode(t, 1, ns, pass_rate);
}

double reward_sum(const struct reward *r)
{
    return r->pass_rate + r->calls + r->seconds;
}
