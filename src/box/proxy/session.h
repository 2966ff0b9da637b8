/* One connection of a box to the proxy, from its request to its end. */
#pragma once

#include "policy.h"
#include "resolve.h"

/* What all sessions of one proxy share. */
struct proxy_context {
    struct proxy_policy *policy;
    struct proxy_resolver *resolver;
    int stop_fd;
};

/* Tells where a session connects to, before it does. */
struct proxy_session_watch {
    void (*targets)(void *data, const struct proxy_target *target);
    void *data;
};

/* Talks to the client until one side ends; leaves closing it to the caller. */
void proxy_session_run(const struct proxy_context *c, int client,
                       const struct proxy_session_watch *watch);
