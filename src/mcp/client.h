/*
 * A client's connection with one MCP server over the pipes of a program.
 *
 * A thread per connection starts the program, moves the bytes and hands answers to whoever waits
 * for them; any number of threads may call at once. Nothing that the server does or leaves undone
 * can block a caller for longer than its timeout, or take more memory than the limits here: what it
 * sends is a stranger's.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "child.h"
#include "tool.h"

#define MCP_CLIENT_QUEUE_MAX (36u << 20) /* bytes that wait until the server reads them */
#define MCP_CLIENT_FLOOD_MAX (64u << 20) /* bytes that answer nothing, one after the other */
#define MCP_CLIENT_NOISE_MAX 1000        /* lines that are no JSON */

/* The code by which hutch-http says that the server knows the session no more: the request was not
 * looked at, and may be sent again over a new connection. */
#define MCP_SESSION_LOST (-32099)

struct client_options {
    const char *name; /* for messages */
    struct child_options program;
    const struct buf *preface; /* sent before the first message; or NULL */
    int64_t timeout_ns;        /* of the handshake */
};

struct client;

/* Starts the server and shakes hands. */
int client_open(const struct client_options *o, struct client **ret, struct error *err);

/* Asks it to end; client_free waits until it has. */
void client_stop(struct client *c);
struct client *client_free(struct client *c);

/* False once the server has ended or was ended. */
bool client_alive(struct client *c);

/* Did the server say that it has tools at all; and, once each time, that they changed? */
bool client_has_tools(const struct client *c);
bool client_tools_changed(struct client *c);

struct client_call {
    const char *method;
    json_t *params;
    int64_t timeout_ns;
    int cancel; /* -1: none */
    const struct tool_progress *progress;
};

/* One request and its result, a new reference. It takes the params over in any case. -EREMOTEIO
 * with what the server said if it answered with an error; -ESTALE if that was MCP_SESSION_LOST, and
 * the connection is dead.
 */
int client_ask(struct client *c, const struct client_call *call, json_t **ret, struct error *err);
