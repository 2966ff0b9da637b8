/* One connection of a box to the proxy, from its request to its end. */
#pragma once

#include <pthread.h>

#include "dial.h"
#include "policy.h"

/* What all sessions of one proxy share. */
struct proxy_context {
    struct proxy_policy *policy;
    struct proxy_resolver *resolver;
    int stop_fd;
};

struct proxy_client {
    int fd;
    pthread_mutex_t *lock;
    bool has_target; /* under the lock, as is: */
    struct proxy_target target;
};

/* Serves the client until one side ends; leaves closing its socket to the caller. Fills the target
 * before the list is consulted, so that a change of the list finds the connection. */
void proxy_session_run(const struct proxy_context *c, struct proxy_client *client);
