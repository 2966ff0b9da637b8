/* What session.c and call.c share. */
#pragma once

#include <pthread.h>

#include "cache.h"
#include "order.h"
#include "session.h"

#define SESSION_SOURCES_MAX 8

struct session_host;
void session_host_free(struct session_host *h); /* host.c */

struct tool_session {
    struct tool_box *box;
    char *shell;
    struct order order;
    struct tool_source *sources[SESSION_SOURCES_MAX];
    size_t n_sources;
    struct session_host *host; /* what host-side tools may do; NULL: there are none */
    pthread_mutex_t lock;      /* guards what follows */
    json_t *plan;
    struct tool_cache *cache;
    char *snapshot; /* what the box is known to be; NULL: not known */
    bool alone;     /* nobody else changes the box: see tool_session_alone */
    uint64_t generation;
    uint64_t serial;  /* of the names that the next call makes up; 0: none */
    uint64_t changes; /* calls that may have changed the box */
};
