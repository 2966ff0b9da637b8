/* Requests: a thread for each that takes its time, a way to cancel it, word of its progress; and
 * answers, one at a time, batches together, none to a request that was cancelled. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "server.h"
#include "banned.h"

#define META_SERVER       "io.modelcontextprotocol/serverInfo"
#define PROGRESS_EVERY_NS (200 * NS_PER_MS)

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
static void result_stamp(const struct mcp_request *q, json_t *result)
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

static json_t *answer_failure(const struct mcp_request *q, struct mcp_problem *p)
{
    json_t *m = p->code ? rpc_error(q->id, p->code, "%s", p->text)
                        : rpc_error(q->id, RPC_INTERNAL_ERROR, "no memory for the answer");
    if (m && p->data)
        json_object_set(json_object_get(m, "error"), "data", p->data);
    return m;
}

/* Takes a request from the list before its answer is out, since the client may then use its id
 * again. False if nobody wants the answer. */
static bool request_unlist(struct mcp_request *q)
{
    pthread_mutex_lock(&q->server->lock);
    if (q->listed)
        LIST_REMOVE(q, all);
    q->listed = false;
    bool wanted = !q->cancelled;
    pthread_mutex_unlock(&q->server->lock);
    return wanted;
}

/* Sends the result or the problem; frees both. */
void mcp_answer(struct mcp_request *q, json_t *result, struct mcp_problem *p)
{
    struct mcp_server *s = q->server;
    bool wanted = request_unlist(q);
    result_stamp(q, result);
    json_t *message = !wanted  ? NULL
                      : result ? rpc_result(q->id, json_incref(result))
                               : answer_failure(q, p);
    if (q->batch)
        mcp_batch_done(s, q->batch, message);
    else if (message && mcp_send(s, q->from, message) == -ENOBUFS)
        mcp_send(s, q->from,
                 rpc_error(q->id, RPC_INTERNAL_ERROR, "the result is longer than can be sent"));
    json_decref(result);
    json_decref(p->data);
    p->data = NULL;
}

void mcp_request_free(struct mcp_request *q)
{
    cleanup_close(&q->cancel);
    json_decref(q->id);
    json_decref(q->params);
    json_decref(q->call.input);
    free(q);
}

/* Numbers that only grow, not too often; from the thread of the call. */
static void request_say_progress(void *data, double seconds, const char *message)
{
    struct mcp_request *q = data;
    int64_t now = clock_now();
    bool too_soon = q->progressed_ns && now - q->progressed_ns < PROGRESS_EVERY_NS;
    double rounded = round(seconds * 1000) / 1000;
    pthread_mutex_lock(&q->server->lock);
    bool wanted = !q->cancelled;
    pthread_mutex_unlock(&q->server->lock);
    if (!wanted || too_soon || rounded <= q->progressed)
        return;
    q->progressed = rounded;
    q->progressed_ns = now;
    json_t *params = json_pack("{s:O, s:f}", "progressToken", q->token, "progress", rounded);
    if (params && message && q->version >= MCP_2025_03_26)
        json_object_set_new(params, "message", text_json(message, strlen(message)));
    mcp_send(q->server, q->from,
             params ? rpc_notification("notifications/progress", params) : NULL);
}

int mcp_begin_call(struct mcp_request *q, struct mcp_problem *p)
{
    q->call.cancel = q->cancel;
    q->progress = (struct tool_progress){.say = request_say_progress, .data = q};
    if (q->token)
        q->call.progress = &q->progress;
    int r = tool_begin(q->server->options.session, &q->call, &q->turn);
    if (r < 0)
        mcp_problem(p, RPC_INTERNAL_ERROR, "no memory for the call");
    return r;
}

/* Answers it and is done with it. The server may be freed as soon as the last request is gone. */
static void request_end(struct mcp_request *q, json_t *result, struct mcp_problem *p)
{
    struct mcp_server *s = q->server;
    mcp_answer(q, result, p);
    mcp_request_free(q);
    pthread_mutex_lock(&s->lock);
    s->n_requests--;
    pthread_cond_broadcast(&s->ended);
    pthread_mutex_unlock(&s->lock);
}

static void *request_run(void *request)
{
    struct mcp_request *q = request;
    struct mcp_problem p = {0};
    request_end(q, q->method->run(q, &p), &p);
    return NULL;
}

static struct mcp_request *server_find_request(struct mcp_server *s, const json_t *id)
{
    struct mcp_request *q;
    LIST_FOREACH(q, &s->requests, all)
    if (json_equal(q->id, id))
        return q;
    return NULL;
}

/* Joins those that run, if there is room. */
static int request_enter(struct mcp_request *q, struct mcp_problem *p)
{
    struct mcp_server *s = q->server;
    int r = -EBUSY;
    q->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&s->lock);
    if (q->cancel < 0) {
        mcp_problem(p, RPC_INTERNAL_ERROR, "no descriptor for the request");
    } else if (server_find_request(s, q->id)) {
        mcp_problem(p, RPC_INVALID_REQUEST,
                    "invalid request: its id belongs to a request that is running");
    } else if (s->n_requests >= MCP_REQUESTS_MAX) {
        mcp_problem(p, MCP_BUSY, "busy: %d requests are running", MCP_REQUESTS_MAX);
    } else {
        LIST_INSERT_HEAD(&s->requests, q, all);
        q->listed = true;
        s->n_requests++;
        r = 0;
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* Without a thread to have it runs here: nobody overtakes, but nobody can cancel it either. */
static void request_start_thread(struct mcp_request *q)
{
    pthread_attr_t how;
    pthread_t thread;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    int e = pthread_create(&thread, &how, request_run, q);
    pthread_attr_destroy(&how);
    if (e != 0)
        request_run(q);
}

void mcp_request_start(struct mcp_request *q)
{
    struct mcp_problem p = {0};
    if (request_enter(q, &p) < 0) {
        mcp_answer(q, NULL, &p);
        mcp_request_free(q);
    } else if (q->method->begin && q->method->begin(q, &p) < 0) {
        request_end(q, NULL, &p);
    } else {
        request_start_thread(q);
    }
}

static void request_cancel(struct mcp_request *q)
{
    const uint64_t one = 1;
    q->cancelled = true;
    if (write(q->cancel, &one, sizeof one) < 0) {
        /* Only a full counter makes it fail, and then it is readable anyway. */
    }
}

void mcp_cancel(struct mcp_server *s, const json_t *id)
{
    pthread_mutex_lock(&s->lock);
    struct mcp_request *q = id ? server_find_request(s, id) : NULL;
    if (q)
        request_cancel(q);
    pthread_mutex_unlock(&s->lock);
}

void mcp_cancel_all(struct mcp_server *s)
{
    struct mcp_request *q;
    pthread_mutex_lock(&s->lock);
    LIST_FOREACH(q, &s->requests, all) request_cancel(q);
    pthread_mutex_unlock(&s->lock);
}

bool mcp_server_idle(struct mcp_server *s, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * NS_PER_MS;
    if (until.tv_nsec >= NS_PER_S) {
        until.tv_nsec -= NS_PER_S;
        until.tv_sec++;
    }
    pthread_mutex_lock(&s->lock);
    int e = 0;
    while (s->n_requests > 0 && e == 0 && ms != 0)
        e = ms < 0 ? pthread_cond_wait(&s->ended, &s->lock)
                   : pthread_cond_timedwait(&s->ended, &s->lock, &until);
    bool idle = s->n_requests == 0;
    pthread_mutex_unlock(&s->lock);
    return idle;
}
