/*
 * An MCP server of the configuration: its settings, its connection, its tools.
 *
 * It is started when its tools are first asked for, and again, a few times, should it end.
 */
#pragma once

#include <jansson.h>
#include <pthread.h>

#include "client.h"
#include "tool.h"

#define SERVER_STARTS_MAX 4
#define SERVER_TOOLS_MAX  1000
#define SERVER_PAGES_MAX  100
#define SERVER_KEPT_MAX   4000 /* tools with their earlier states */

struct server;

/* A tool of a server, as it is offered. Tools that have gone are kept: somebody may be calling one. */
struct server_tool {
    struct tool tool; /* the first member: what the doors are given */
    struct server *server;
    char *name;   /* server.tool */
    char *remote; /* what the server calls it */
    char *title, *summary, *input, *output;
    struct server_tool *next;
};

struct server {
    char *name;
    json_t *settings; /* the member of mcpServers */
    int64_t timeout_ns;
    pthread_mutex_t lock; /* guards what follows */
    struct client *clients[SERVER_STARTS_MAX]; /* the last one is the present; those before are dead */
    size_t starts;                             /* tried */
    size_t n_clients;
    struct error failure; /* of the last start */
    bool listed;
    struct server_tool *kept;
    size_t n_kept;
    struct server_tool *tools[SERVER_TOOLS_MAX]; /* as they are now, in the server's order */
    size_t n_tools;
    struct buf trouble; /* about tools that were left out: lines */
};

struct server *server_new(const char *name, json_t *settings); /* borrows both; NULL without memory */
void server_stop(struct server *s);                            /* asks it to end, without waiting */
struct server *server_free(struct server *s);

/* Starts it if need be, and asks for its tools if they are not known. */
int server_refresh(struct server *s, struct error *err);

/* The connection, alive; started if need be. */
int server_client(struct server *s, struct client **ret, struct error *err);

/* The present tool of that name, NULL if there is none. */
struct server_tool *server_find(struct server *s, const char *remote);

/* Asks for the list; the lock is held. (server_tools.c) */
int server_list_tools(struct server *s, struct client *c, struct error *err);
void server_tool_free(struct server_tool *t);

/* The function of its tools. (server_call.c) */
int server_tool_run(struct tool_call *c, struct error *err);

/* Turns what a tools/call gave into a result. (server_result.c) */
int server_take_result(const struct server_tool *t, const json_t *answer, struct tool_result *r,
                       struct error *err);

/* Opens the connection that the settings describe. (server_start.c) */
int server_start(const struct server *s, struct client **ret, struct error *err);
