/*
 * An MCP server of the configuration: its settings, its connection, its tools.
 *
 * It is started when its tools are first asked for, and again, a few times, should it end.
 */
#pragma once

#include <jansson.h>
#include <pthread.h>

#include "client.h"
#include "clock.h"
#include "tool.h"

#define PEER_STARTS_MAX 4 /* in a row: */
#define PEER_LASTED_NS                                                                             \
    (300 * NS_PER_S) /* one that lasted so long is worth starting as often again */
#define PEER_TOOLS_MAX 1000
#define PEER_PAGES_MAX 100
#define PEER_KEPT_MAX  4000 /* tools with their earlier states */

struct peer;

/* A tool of a server, as it is offered. Tools that have gone are kept: somebody may be calling one.
 */
struct peer_tool {
    struct tool tool; /* the first member: what the doors are given */
    struct peer *peer;
    char *name;   /* server.tool */
    char *remote; /* what the server calls it */
    char *title, *summary, *input, *output;
    struct peer_tool *next;
};

struct peer {
    char *name;
    json_t *settings; /* the member of mcpServers */
    int64_t timeout_ns;
    pthread_mutex_t lock; /* guards what follows */
    struct client *
        *clients; /* the last one is the present; those before are dead, but may be in use */
    size_t n_clients;
    size_t starts;        /* tried in a row */
    int64_t started;      /* the last time */
    struct error failure; /* of the last start */
    bool listed;
    struct peer_tool *kept;
    size_t n_kept;
    struct peer_tool *tools[PEER_TOOLS_MAX]; /* as they are now, in the server's order */
    size_t n_tools;
    struct buf trouble; /* about tools that were left out: lines */
};

struct peer *peer_new(const char *name, json_t *settings); /* borrows both; NULL without memory */
void peer_stop(struct peer *s);                            /* asks it to end, without waiting */
struct peer *peer_free(struct peer *s);

/* Starts it if need be, and asks for its tools if they are not known. */
int peer_refresh(struct peer *s, struct error *err);

/* The connection, alive; started if need be. */
int peer_client(struct peer *s, struct client **ret, struct error *err);

/* The present tool of that name, NULL if there is none. */
struct peer_tool *peer_find(struct peer *s, const char *remote);

/* Asks for the list; the lock is held. (peer_tools.c) */
int peer_list_tools(struct peer *s, struct client *c, struct error *err);

/* Takes one page of the list; the cursor of the next is a new string, NULL after the last. */
int peer_take_page(struct peer *s, const json_t *page, char **ret_cursor, struct error *err);
void peer_tool_free(struct peer_tool *t);

/* The function of its tools. (peer_call.c) */
int peer_tool_run(struct tool_call *c, struct error *err);

/* Turns what a tools/call gave into a result. (peer_result.c) */
int peer_take_result(const struct peer_tool *t, const json_t *answer, struct tool_result *r,
                     struct error *err);

/* Opens the connection that the settings describe. (peer_start.c) */
int peer_start(const struct peer *s, struct client **ret, struct error *err);
