/* Answers on their way out: one at a time, batches together, none to who has cancelled. */
#include <errno.h>
#include <stdlib.h>

#include "server_private.h"
#include "banned.h"

#define META_SERVER "io.modelcontextprotocol/serverInfo"

int mcp_send(struct mcp_server *s, uint64_t to, json_t *message)
{
    if (!message)
        return -ENOMEM;
    pthread_mutex_lock(&s->sending);
    int r = s->options.send(s->options.data, to, message);
    pthread_mutex_unlock(&s->sending);
    json_decref(message);
    return r;
}

/* Adds an answer (or none) to a batch, and sends it when it was the last. Without a batch there is
 * nothing to do. */
void mcp_batch_done(struct mcp_server *s, struct mcp_batch *b, json_t *answer)
{
    if (!b)
        return;
    pthread_mutex_lock(&s->lock);
    if (answer)
        json_array_append_new(b->answers, answer);
    bool last = --b->pending == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    if (json_array_size(b->answers) > 0)
        mcp_send(s, b->from, b->answers);
    else
        json_decref(b->answers);
    free(b);
}

/* What every result carries since results are without a session. */
static void stamp(const struct mcp_request *q, json_t *result)
{
    if (!result || q->version < MCP_2026_07_28)
        return;
    json_t *meta = json_object_get(result, "_meta");
    if (!meta) {
        meta = json_object();
        json_object_set_new(result, "_meta", meta);
    }
    json_object_set_new(meta, META_SERVER, mcp_server_info(q));
    json_object_set_new(result, "resultType", json_string("complete"));
    if (q->method->flags & MCP_CACHEABLE) {
        json_object_set_new(result, "ttlMs", json_integer(0));
        json_object_set_new(result, "cacheScope", json_string("private"));
    }
}

static json_t *failure(const struct mcp_request *q, struct mcp_problem *p)
{
    json_t *m = p->code ? rpc_error(q->id, p->code, "%s", p->text)
                        : rpc_error(q->id, RPC_INTERNAL_ERROR, "no memory for the answer");
    if (m && p->data)
        json_object_set(json_object_get(m, "error"), "data", p->data);
    return m;
}

/* Takes a request from the list before its answer is out, since the client may then use its id
 * again. False if nobody wants the answer. */
static bool unlist(struct mcp_request *q)
{
    pthread_mutex_lock(&q->server->lock);
    if (q->listed)
        LIST_REMOVE(q, all);
    q->listed = false;
    bool wanted = !q->cancelled;
    pthread_mutex_unlock(&q->server->lock);
    return wanted;
}

void mcp_answer(struct mcp_request *q, json_t *result, struct mcp_problem *p)
{
    struct mcp_server *s = q->server;
    bool wanted = unlist(q);
    stamp(q, result);
    json_t *message = !wanted  ? NULL
                      : result ? rpc_result(q->id, json_incref(result))
                               : failure(q, p);
    if (q->batch)
        mcp_batch_done(s, q->batch, message);
    else if (message && mcp_send(s, q->from, message) == -ENOBUFS)
        mcp_send(s, q->from,
                 rpc_error(q->id, RPC_INTERNAL_ERROR, "the result is longer than can be sent"));
    json_decref(result);
    json_decref(p->data);
    p->data = NULL;
}
