/* One connection of a box to the proxy, from its request to its end. */
#pragma once

#include "allow.h"
#include "resolve.h"

/* What all sessions of one proxy share; none of them changes it. */
struct proxy_context {
    struct proxy_list list;
    struct proxy_resolver *resolver;
    int stop_fd;
};

/* Talks to the client until one side ends; leaves closing it to the caller. */
void proxy_session_run(const struct proxy_context *c, int client);
