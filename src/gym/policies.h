/* The kinds of agents, for the table. */
#pragma once

#include "policy.h"

extern const struct policy_kind policy_random, policy_greedy, policy_qlearn, policy_search,
    policy_model, policy_replay;
