/*
 * The table of agents. It has the one that is a model, so it is linked only where the agent layer
 * is: a library of its own.
 */
#include <errno.h>
#include <string.h>

#include "names.h"
#include "policies.h"
#include "banned.h"

const struct policy_kind *const POLICIES[] = {
    &policy_random, &policy_greedy, &policy_qlearn, &policy_search,
    &policy_model,  &policy_replay, NULL,
};

const struct policy_kind *policy_find(const char *name, struct error *err)
{
    struct nearest near = nearest_to(name, strlen(name));
    for (size_t i = 0; POLICIES[i]; i++) {
        if (strcmp(POLICIES[i]->name, name) == 0)
            return POLICIES[i];
        nearest_offer(&near, POLICIES[i]->name);
    }
    if (near.best)
        error_set(err, EINVAL, "there is no agent '%.100s'; did you mean '%s'?", name, near.best);
    else
        error_set(err, EINVAL,
                  "there is no agent '%.100s'; there are random, greedy, qlearn, search, model and "
                  "replay",
                  name);
    return NULL;
}
