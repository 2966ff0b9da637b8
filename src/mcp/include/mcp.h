/*
 * The Model Context Protocol: hutch as a server, and the tools of other servers.
 *
 * The server has no transport: it is fed with messages and hands back messages; `hutch mcp` puts it
 * on stdin and stdout. One thread feeds it (mcp_server_take), in the order in which messages came.
 * It answers quick requests at once; every other request gets a thread, at most MCP_REQUESTS_MAX at
 * a time. Calls of tools take their place in the session's order (tool_begin) when they are taken.
 * Nothing that a client sends ends the server; whatever is wrong becomes an error in an answer.
 *
 * The revisions from 2024-11-05 to 2025-11-25 begin with `initialize`, which settles one of them.
 * Since 2026-07-28 every request names its revision. Both are served side by side.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "session.h"

#define MCP_REQUESTS_MAX 64

struct mcp_server;

struct mcp_options {
    struct tool_session *session; /* borrowed, as is all else here */
    bool open_world;              /* code in the box may reach other machines */
    const char *instructions;     /* what the client's model should know; or NULL */
    /* Sends a message (or a batch of them) to the client; one thread at a time. `request` is the id
     * of the request that it is about (of a batch: of one of them); NULL: of none, it is about what
     * mcp_server_take() or mcp_server_refuse() is taking. 0, or -ENOBUFS if it is longer than can be
     * sent. */
    int (*send)(void *data, const json_t *request, const json_t *message);
    void *data;
};

int mcp_server_new(const struct mcp_options *o, struct mcp_server **ret, struct error *err);

/* Cancels what still runs, waits for it, and frees all. Nothing is sent from here on. */
struct mcp_server *mcp_server_free(struct mcp_server *s);

/* One message as it came: the JSON text of a request, a notification, an answer or a batch. */
void mcp_server_take(struct mcp_server *s, const char *text, size_t n);

/* Answers a message that the transport could not take with an error. */
void mcp_server_refuse(struct mcp_server *s, const char *why);

/* Waits until no request is being answered, at most so long (0: does not wait). True if there is
 * none. */
bool mcp_server_idle(struct mcp_server *s, int ms);

/* From now on tool_sources_add() gives sessions the tools of the configured servers, named
 * `server.tool`. */
void mcp_tools_register(void);
