/*
 * Upstream servers: the MCP servers of the configuration, whose tools hutch offers as
 * `server.tool`. One is started when its tools are first asked for, and again, a few times, should
 * it end.
 */
#pragma once

#include <jansson.h>
#include <pthread.h>

#include "client.h"
#include "thread.h"
#include "tool.h"

#define UPSTREAM_STARTS_MAX 4                /* in a row; */
#define UPSTREAM_LASTED_NS  (300 * NS_PER_S) /* a connection that lasted so long ends the row */
#define UPSTREAM_TOOLS_MAX  1000
#define UPSTREAM_PAGES_MAX  100
#define UPSTREAM_KEPT_MAX   4000 /* tools with their earlier states */

struct upstream;

/* A tool of a server, as it is offered. Tools that have gone are kept: a call may be running. */
struct upstream_tool {
    struct tool tool; /* the first member: what frontends get */
    struct upstream *upstream;
    char *name;   /* server.tool */
    char *remote; /* the server's own name for it */
    char *title, *summary, *input, *output;
    struct upstream_tool *next;
};

struct upstream {
    char *name;
    json_t *settings; /* the member of mcpServers */
    int64_t timeout_ns;
    pthread_mutex_t lock; /* guards what follows */
    /* the last is the current one; those before are dead, but may be in use */
    struct client **clients;
    size_t n_clients;
    size_t starts;        /* tried in a row */
    int64_t started;      /* the last time */
    struct error failure; /* of the last start */
    bool listed;
    struct upstream_tool *kept;
    size_t n_kept;
    struct upstream_tool *tools[UPSTREAM_TOOLS_MAX]; /* as they are now, in the server's order */
    size_t n_tools;
    struct buf trouble; /* about tools that were left out: lines */
};

/* Borrows both; NULL without memory. */
struct upstream *upstream_new(const char *name, json_t *settings);
struct upstream *upstream_free(struct upstream *u);

/* The connection, alive; started if need be. */
int upstream_client(struct upstream *u, struct client **ret, struct error *err);

/* Asks for the list of tools; the lock is held. (upstream_tools.c) */
int upstream_list_tools(struct upstream *u, struct client *c, struct error *err);
void upstream_tool_free(struct upstream_tool *t);

/* Parts of it that are fuzzed: one page of the list, with the cursor of the next as a new string
 * (NULL after the last); and the answer to tools/call. */
int upstream_take_page(struct upstream *u, const json_t *page, char **ret_cursor,
                       struct error *err);
int upstream_take_result(const struct upstream_tool *t, const json_t *answer, struct tool_result *r,
                         struct error *err);
