/*
 * The client's connection with one MCP server.
 *
 * The server is a program that hutch starts and speaks to through pipes, or it has a URL
 * (client_http.c). A thread per connection moves the messages and hands each answer to the
 * caller that waits for it; any number of threads may call at once. The server is not trusted:
 * nothing that it sends or leaves undone blocks a caller for longer than its timeout, or takes more
 * memory than the limits here.
 */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "child.h"
#include "rpc.h"
#include "text.h"
#include "tool.h"

#define MCP_CLIENT_QUEUE_MAX  (36u << 20) /* bytes that wait until the server reads them */
#define MCP_CLIENT_STDERR_MAX 4096        /* bytes that are kept for messages: the last */

struct client_options {
    const char *name;                    /* for messages */
    const struct child_options *program; /* the server is this program; or NULL: */
    const char *url;                     /* the server is there, */
    const json_t *headers;               /* and gets these headers with each request */
    int64_t timeout_ns;                  /* of the handshake, and of each HTTP answer */
};

struct client;

/* Connects to the server and does the handshake. */
int client_open(const struct client_options *o, struct client **ret, struct error *err);

/* Asks the connection to end; client_free waits until it has. */
void client_stop(struct client *c);
struct client *client_free(struct client *c);

/* False once the connection has ended. */
bool client_alive(struct client *c);

/* Does the server offer tools? Have they changed since this was last asked? */
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
 * with the server's message if it answered with an error; -ESTALE if it did not look at the request
 * because it has forgotten the session: then the connection is dead, and the request may be sent
 * again over a new one. */
int client_ask(struct client *c, const struct client_call *call, json_t **ret, struct error *err);

/* --- shared by client.c and the transports --- */

/* A caller that waits for an answer. */
struct waiter {
    json_int_t id;
    int event; /* readable when something below has changed */
    bool done;
    json_t *result;
    struct error failure;
    bool progressed;
    char *message; /* the server's last words about its progress; or NULL */
    struct waiter *next;
};

/* How messages travel. All but send() are called by the connection's thread, without the lock. */
struct client_transport {
    /* Starts; the options are valid until it returns. */
    int (*open)(struct client *c, const struct client_options *o, struct error *err);
    /* Queues a message, which it borrows; any thread, the lock is held. Negative if it is full. */
    int (*send)(struct client *c, const json_t *message);
    /* Waits for c->wake, the server or time, and moves messages. Negative when the connection is
     * over. */
    int (*step)(struct client *c, struct error *err);
    /* Ends what open() started, also after its failure. `why` is why the connection is over; `stop`
     * says that we asked for it. */
    void (*close)(struct client *c, bool stop, struct error *why);
};

extern const struct client_transport CLIENT_PIPE, CLIENT_HTTP;

struct client_pipe {
    struct child child;
    struct rpc_reader reader;
    struct buf out; /* lines for the server; guarded by the client's lock, as is the next */
    size_t sent;    /* bytes of it */
    unsigned noise; /* lines that were not JSON */
};

struct client {
    char *name;
    const struct client_transport *transport;
    const struct client_options *options; /* while it is being opened */
    pthread_t thread;
    bool threaded;
    struct client_pipe pipe;
    struct client_http *http;
    uint64_t unanswered; /* bytes since the last answer; the thread's */
    int wake;            /* an eventfd: the thread looks at what follows */
    bool has_tools;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t started;
    bool ready, dead, stop;
    struct error why; /* it is dead, or did not start */
    struct waiter *waiters;
    json_int_t last_id;
    bool tools_changed;
    char said[MCP_CLIENT_STDERR_MAX]; /* the end of the server's stderr, or of notes about HTTP */
    size_t n_said;
};

/* Adds to c->said. */
void client_add_said(struct client *c, const char *data, size_t n);

/* Counts n bytes from the server. -EPROTO if it floods us. */
int client_count(struct client *c, size_t n, struct error *err);

/* Takes one message of the server, or a batch. -EPROTO if the connection must end. */
int client_take(struct client *c, json_t *value, struct error *err);

/* A message of the server that cannot be parsed: fails all callers, since any may have been
 * meant. */
void client_take_malformed(struct client *c, const char *why);

/* Fails the caller that waits for this answer. */
void client_fail(struct client *c, const json_t *id, const struct error *why);

/* One line of a program's stdout. -EPROTO if the connection must end. */
int client_take_line(struct client *c, const char *line, size_t n, struct error *err);

/*
 * --- upstream.c: the MCP servers of the configuration ---
 *
 * hutch offers their tools as `server.tool`. It starts a server when its tools are first asked
 * for, and again, a few times, should it end.
 */
#define UPSTREAM_TOOLS_MAX 1000

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

/* Parts of it that are fuzzed: one page of the list, with the cursor of the next as a new string
 * (NULL after the last); and the answer to tools/call. */
int upstream_take_page(struct upstream *u, const json_t *page, char **ret_cursor,
                       struct error *err);
int upstream_take_result(const struct upstream_tool *t, const json_t *answer, struct tool_result *r,
                         struct error *err);
