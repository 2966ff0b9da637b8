/* Shared by server.c and server_resources.c. */
#pragma once

#include <pthread.h>
#include <sys/queue.h>

#include "mcp.h"
#include "rpc.h"

/* The revisions of the protocol, in order. */
enum mcp_version {
    MCP_NONE, /* not settled yet */
    MCP_2024_11_05,
    MCP_2025_03_26, /* batches, annotations of tools, messages of progress, completions */
    MCP_2025_06_18, /* no batches; titles, output schemas, structured content */
    MCP_2025_11_25,
    MCP_2026_07_28, /* no initialize, no ping: every request says its revision */
};
#define MCP_LATEST     MCP_2026_07_28
#define MCP_LAST_BEGUN MCP_2025_11_25 /* the last that begins with `initialize` */

#define MCP_UNSUPPORTED_VERSION (-32022)
#define MCP_RESOURCE_NOT_FOUND  (-32002) /* until 2025-11-25; -32602 since */
#define MCP_BUSY                (-32000)

/* Why a request has no result. */
struct mcp_problem {
    int code; /* 0: no memory */
    char text[ERROR_TEXT_MAX];
    json_t *data; /* or NULL */
};

/* Sets it, and returns NULL, so that `return mcp_problem(p, …)` reads well. */
void *mcp_problem(struct mcp_problem *p, int code, const char *fmt, ...) PRINTF(3, 4);

struct mcp_request;

/* Flags of a method. */
#define MCP_EARLY     1u /* also before initialize */
#define MCP_THREAD    2u /* may take long: in a thread of its own */
#define MCP_CACHEABLE 4u /* its result says how long it holds, since 2026-07-28 */

struct mcp_method {
    const char *name;
    enum mcp_version first, last;
    unsigned flags;
    /* In the thread that takes messages: checks the params and takes a place in the order. 0, or
     * negative with the problem set. May be NULL. */
    int (*begin)(struct mcp_request *q, struct mcp_problem *p);
    /* The result, an object; NULL with the problem set. */
    json_t *(*run)(struct mcp_request *q, struct mcp_problem *p);
};

/* The answers to one batch, sent together when the last is there. Guarded by the server's lock. */
struct mcp_batch {
    json_t *answers;
    size_t pending; /* requests that are not answered, and one while the batch is being taken */
};

struct mcp_request {
    struct mcp_server *server;
    const struct mcp_method *method;
    enum mcp_version version;
    json_t *id, *params; /* params: an object, or NULL */
    struct mcp_batch *batch;
    int cancel;     /* an eventfd */
    bool cancelled; /* the client wants no answer; guarded by the server's lock */
    bool listed;    /* among the server's requests; likewise */
    /* the call of a tool, or of one of the server's own */
    struct tool_request call;
    struct tool_turn *turn;
    struct tool_progress progress;
    json_t *token; /* of progress; borrowed from params; NULL: none is wanted */
    double progressed;
    int64_t progressed_ns;
    LIST_ENTRY(mcp_request) all;
};

/* A member of params that must be a string. NULL with the problem set. */
const char *mcp_param(const struct mcp_request *q, const char *name, struct mcp_problem *p);

/* Takes the place of q->call in the order. */
int mcp_begin_call(struct mcp_request *q, struct mcp_problem *p);

/* The part of a list that the request's cursor asks for: {name: items, "nextCursor": …}. Takes the
 * items over. NULL with the problem set if the cursor is not ours. */
json_t *mcp_page(const struct mcp_request *q, const char *name, json_t *items,
                 struct mcp_problem *p);

/* server_resources.c */
int mcp_begin_list_resources(struct mcp_request *q, struct mcp_problem *p);
json_t *mcp_list_resources(struct mcp_request *q, struct mcp_problem *p);
json_t *mcp_list_templates(struct mcp_request *q, struct mcp_problem *p);
int mcp_begin_read_resource(struct mcp_request *q, struct mcp_problem *p);
json_t *mcp_read_resource(struct mcp_request *q, struct mcp_problem *p);
int mcp_begin_complete(struct mcp_request *q, struct mcp_problem *p);
json_t *mcp_complete(struct mcp_request *q, struct mcp_problem *p);

/* Files of the workspace as URIs: file:///workspace/a%20b. */
#define URI_WORKSPACE "file:///workspace/"

/* Appends the URI of a path that is relative to the workspace. Failure sticks to b->failed. */
void uri_append_path(struct buf *b, const char *path);

/* Appends the path that a URI names, relative to the workspace, with a NUL behind. -EINVAL if it is
 * not the URI of a file of the workspace, -ENOMEM. */
int uri_parse_path(const char *uri, struct buf *ret);
