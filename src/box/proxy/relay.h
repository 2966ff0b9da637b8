/*
 * Passing bytes both ways between two non-blocking sockets until both directions have ended,
 * nothing moved for PROXY_IDLE_NS, or the proxy is stopped. An end in one direction is passed on as
 * such (half-close).
 */
#pragma once

#include <stddef.h>

#include "body.h"
#include "clock.h"

#define PROXY_IDLE_NS (300 * NS_PER_S)

/* More than a head may hold, since what was read behind one is the first that is passed on. */
#define PROXY_RELAY_BUFFER PROXY_HEAD_MAX

struct proxy_relay {
    int client;
    int server;
    int stop_fd;
    /* With a body, only its bytes go to the server, and all is over when the server has ended.
     * NULL: a tunnel. */
    struct proxy_body *body;
};

/* The first n bytes for the server have been read already; n <= PROXY_RELAY_BUFFER. */
void proxy_relay_run(const struct proxy_relay *r, const char *first, size_t n);
