/*
 * JSON-RPC 2.0 as MCP speaks it on a byte stream: one JSON text per line. Framing, telling the
 * kinds of messages apart, and building them; who calls what is the server's and the client's
 * business.
 *
 *     struct rpc_reader in = RPC_READER_INIT(RPC_MESSAGE_MAX);
 *     …read n bytes to data…
 *     while ((r = rpc_take(&in, &data, &n, &line)) != 0)
 *         if (r > 0 && rpc_parse(line.data, line.size, &value, &err) == 0)
 *             …rpc_look(value, &message)…
 *
 * Nothing here trusts the other side: a message has a maximum of bytes and of values, and an
 * oversized one is skipped to its end and reported, never kept.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "text.h"

#define RPC_MESSAGE_MAX (16u << 20) /* bytes of a line */
#define RPC_VALUES_MAX  (1u << 20)  /* values in it: each takes far more memory than its bytes */

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
};

/* Lines out of bytes that come in pieces of any size. */
struct rpc_reader {
    struct buf in;
    bool whole; /* `in` holds a line that was handed out */
    bool lost;  /* the line is too long: the rest of it is dropped */
};

#define RPC_READER_INIT(maximum) ((struct rpc_reader){.in = BUF_INIT(maximum)})
void rpc_reader_free(struct rpc_reader *r);
#define _cleanup_rpc_reader_ _cleanup_(rpc_reader_free)

struct rpc_line {
    const char *data; /* without the newline; valid until the next rpc_take */
    size_t size;
};

/*
 * Takes bytes up to the end of the next line, and moves *data and *n past them. Returns 1 with a
 * line; 0 when all were taken and the line is not at its end; -ENOBUFS at the end of a line that
 * could not be kept. Empty lines are passed over.
 */
int rpc_take(struct rpc_reader *r, const char **data, size_t *n, struct rpc_line *ret);

/* One JSON value of the line. -EBADMSG (it is not JSON), -E2BIG (more values than RPC_VALUES_MAX)
 * or -ENOMEM, with the text set. Strings may hold NUL: see rpc_has_nul. */
int rpc_parse(const char *data, size_t n, json_t **ret, struct error *err);

/* Does a string somewhere in it hold a NUL, so that it is no C string? (Names never do.) */
bool rpc_has_nul(const json_t *value);

enum rpc_kind { RPC_INVALID, RPC_REQUEST, RPC_NOTIFICATION, RPC_RESULT, RPC_ERROR };

/* What a value is. Everything is borrowed from it. */
struct rpc_message {
    enum rpc_kind kind;
    const json_t *id;    /* string or number; NULL: none, or none that can be used */
    const char *method;  /* of a request or notification */
    json_t *params;      /* an object or an array, or NULL */
    json_t *result;      /* of a RESULT */
    json_t *error;       /* of an ERROR: the object */
    const char *problem; /* of what is INVALID: what is wrong with it */
};

/* An array, a batch, is INVALID; who takes batches looks at each of its items. */
void rpc_look(json_t *value, struct rpc_message *ret);

/* Builders. They take params and results over, also when they fail; NULL without memory (or if what
 * they are given to take over is NULL, but for params, which then are left out). `id` is borrowed;
 * NULL: null. */
json_t *rpc_request(const json_t *id, const char *method, json_t *params);
json_t *rpc_notification(const char *method, json_t *params);
json_t *rpc_result(const json_t *id, json_t *result);
json_t *rpc_error(const json_t *id, int code, const char *fmt, ...) PRINTF(3, 4);

/* Appends the message as one line, with its newline. 0, or -ENOBUFS; then nothing was appended. */
int rpc_write(struct buf *out, const json_t *message);
