/* The state of a session, for session.c, call.c and host.c. */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache.h"

#define SESSION_SOURCES_MAX 8

struct session_host;
void session_host_free(struct session_host *h); /* host.c */

/* A call's place in the queue, from the moment it was received until it has ended. */
struct call_ticket {
    bool reads;
    struct call_ticket *next; /* the calls that came later */
};

/* See call.c. */
struct call_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct call_ticket *first; /* the oldest call that has not ended */
    struct call_ticket **last;
};

void call_queue_init(struct call_queue *q);
void call_queue_destroy(struct call_queue *q);

struct tool_session {
    struct box *box;
    char *shell;
    struct call_queue queue;
    struct tool_source *sources[SESSION_SOURCES_MAX];
    size_t n_sources;
    struct session_host *host; /* what host-side tools may do; NULL: there are none */
    pthread_mutex_t lock;      /* guards what follows */
    json_t *plan;
    struct tool_cache *cache;
    char *snapshot; /* the known state of the box; NULL: not known */
    bool alone;     /* nobody else changes the box: see tool_session_alone */
    uint64_t generation;
    uint64_t serial;  /* of the names that the next call makes up; 0: none */
    uint64_t changes; /* calls that may have changed the box */
};
