/*
 * Live jobs of kind `mcp`: an MCP server on a box of its own, which is the same as that of a job of
 * kind `box`. The server's routes (src/serve/routes_mcp.c) speak HTTP.
 *
 * Each call of `message` brings one POST: a message, or a batch. What the MCP server sends about its
 * requests goes back on the call, one JSON text per line; the call ends when all are answered.
 *
 * Requests get ids of our own on the way in, and their former ones on the way out. So answers find
 * their call, and clients without a session, which share a box, may use the same ids.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "json.h"
#include "live_box.h"
#include "mcp.h"
#include "rpc.h"
#include "thread.h"
#include "banned.h"

#define LINE_MAX_BYTES (64u << 20)
#define ID_MAX         48
#define POST_IDS_MAX   MCP_REQUESTS_MAX
#define INSTRUCTIONS                                                                               \
    "These tools work in a sandbox with a workspace of its own at /workspace. The resource "       \
    "hutch://diff shows what was changed there. Use these tools instead of others for commands "   \
    "and files of the workspace."

/* One POST that is being answered. */
struct mcp_post {
    struct mcp_post *next;
    struct live_call *call;
    uint64_t number;
    json_t *ids;  /* those of its requests, as the client wrote them; null once answered */
    size_t open;  /* requests without an answer */
    int wake;     /* an eventfd: `open` changed */
    bool sending; /* something is being sent on the call */
};

struct mcp_live {
    struct box_state *box;
    struct mcp_server *server;
    pthread_mutex_t taking; /* one thread at a time feeds the server */
    bool initialized;       /* guarded by `taking` */
    struct mcp_post *taken; /* what the thread that feeds it is taking; likewise */
    pthread_mutex_t lock;   /* guards what follows */
    pthread_cond_t changed;
    struct mcp_post *posts;
    uint64_t last;
};

/* --- from the server to the client --- */

/* "N.I": request I of POST N. The lock is held. */
static struct mcp_post *post_of_id(const struct mcp_live *m, const json_t *id, size_t *ret_index)
{
    const char *text = json_string_value(id);
    char *end = NULL;
    uint64_t number = text ? strtoull(text, &end, 10) : 0;
    if (!text || *end != '.')
        return NULL;
    *ret_index = (size_t)strtoull(end + 1, NULL, 10);
    struct mcp_post *p = m->posts;
    while (p && p->number != number)
        p = p->next;
    return p;
}

/* The message with the client's ids. Counts what it answers. The lock is held. */
static json_t *post_translate(const struct mcp_live *m, struct mcp_post *p, const json_t *message)
{
    json_t *one, *copy = json_copy((json_t *)message);
    size_t i;
    json_array_foreach(message, i, one) json_array_set_new(copy, i, post_translate(m, p, one));
    if (post_of_id(m, json_object_get(message, "id"), &i) != p ||
        json_is_null(json_array_get(p->ids, i)))
        return copy;
    json_object_set(copy, "id", json_array_get(p->ids, i));
    json_array_set_new(p->ids, i, json_null());
    p->open--;
    return copy;
}

/* The post that a message is about; the lock is held. */
static struct mcp_post *post_of_message(const struct mcp_live *m, const json_t *request,
                                        const json_t *message)
{
    size_t i, index;
    json_t *one;
    struct mcp_post *p = request ? post_of_id(m, request, &index) : m->taken;
    json_array_foreach(message, i, one) if (!p) p =
        post_of_id(m, json_object_get(one, "id"), &index);
    return p;
}

/* Fits mcp_options.send: one thread at a time. */
static int mcp_live_send(void *data, const json_t *request, const json_t *message)
{
    struct mcp_live *m = data;
    _cleanup_buf_ struct buf line = BUF_INIT(LINE_MAX_BYTES);
    pthread_mutex_lock(&m->lock);
    struct mcp_post *p = post_of_message(m, request, message);
    if (!p) { /* its client has gone */
        pthread_mutex_unlock(&m->lock);
        return 0;
    }
    p->sending = true;
    size_t open = p->open;
    _cleanup_json_ json_t *shown = post_translate(m, p, message);
    size_t answered = open - p->open;
    p->open = open; /* until it was sent */
    pthread_mutex_unlock(&m->lock);
    int r = rpc_write(&line, shown);
    if (r == 0)
        call_send(p->call, line.data, line.len);
    pthread_mutex_lock(&m->lock);
    p->sending = false;
    p->open -= r == 0 ? answered : 0;
    eventfd_write(p->wake, 1);
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return r;
}

/* --- from the client to the server --- */

/* Gives one request an id of ours. */
static void post_add_request(struct mcp_post *p, json_t *message)
{
    char id[ID_MAX];
    struct rpc_message look;
    rpc_look(message, &look);
    if (look.kind != RPC_REQUEST || json_array_size(p->ids) >= POST_IDS_MAX)
        return;
    snprintf(id, sizeof id, "%llu.%zu", (unsigned long long)p->number, json_array_size(p->ids));
    json_array_append(p->ids, (json_t *)look.id);
    json_object_set_new(message, "id", json_string(id));
    p->open++;
}

/* A request of another POST is cancelled: it gets no answer any more. The lock is held. */
static void post_cancel_request(struct mcp_live *m, json_t *message)
{
    char id[ID_MAX];
    size_t i;
    json_t *theirs;
    json_t *params = json_object_get(message, "params");
    const json_t *wanted = json_object_get(params, "requestId");
    if (strcmp(json_get_string_or(message, "method", ""), "notifications/cancelled") != 0 ||
        !wanted || json_is_null(wanted))
        return;
    for (struct mcp_post *p = m->posts; p; p = p->next)
        json_array_foreach(p->ids, i, theirs) if (json_equal(theirs, wanted))
        {
            snprintf(id, sizeof id, "%llu.%zu", (unsigned long long)p->number, i);
            json_object_set_new(params, "requestId", json_string(id));
            json_array_set_new(p->ids, i, json_null());
            p->open--;
            eventfd_write(p->wake, 1);
            return;
        }
}

static void mcp_live_take_json(struct mcp_live *m, struct mcp_post *p, const json_t *message)
{
    _cleanup_buf_ struct buf text = BUF_INIT(2 * RPC_MESSAGE_MAX);
    m->taken = p;
    if (rpc_write(&text, message) == 0)
        mcp_server_take(m->server, (char *)text.data, text.len);
    else
        mcp_server_refuse(m->server, "the message is too long");
    m->taken = NULL;
}

/* A client that had settled a revision with a worker that was lost: it is settled again. */
static void mcp_live_initialize(struct mcp_live *m, const char *version)
{
    _cleanup_json_ json_t *message =
        json_pack("{s:s, s:s, s:s, s:{s:s, s:{}, s:{s:s, s:s}}}", "jsonrpc", "2.0", "id",
                  "initialize", "method", "initialize", "params", "protocolVersion", version,
                  "capabilities", "clientInfo", "name", "", "version", "");
    mcp_live_take_json(m, NULL, message);
    m->initialized = true;
}

static void mcp_live_take(struct mcp_live *m, struct mcp_post *p, const struct buf *body,
                          const char *version)
{
    struct error err = {0};
    _cleanup_json_ json_t *message = NULL;
    size_t i;
    json_t *one;
    LOCKED(&m->taking);
    if (rpc_parse((const char *)body->data, body->len, &message, &err) < 0) {
        m->taken = p;
        mcp_server_take(m->server, (const char *)body->data, body->len); /* says what is wrong */
        m->taken = NULL;
        return;
    }
    if (json_array_size(message) > POST_IDS_MAX) {
        m->taken = p;
        mcp_server_refuse(m->server, "the batch has too many messages");
        m->taken = NULL;
        return;
    }
    bool begins = strcmp(json_get_string_or(message, "method", ""), "initialize") == 0;
    if (!m->initialized && !begins && version)
        mcp_live_initialize(m, version);
    m->initialized |= begins;
    pthread_mutex_lock(&m->lock);
    post_add_request(p, message);
    post_cancel_request(m, message);
    json_array_foreach(message, i, one)
    {
        post_add_request(p, one);
        post_cancel_request(m, one);
    }
    pthread_mutex_unlock(&m->lock);
    mcp_live_take_json(m, p, message);
}

/* The client has gone: what it asked for is not wanted any more. */
static void mcp_live_abandon(struct mcp_live *m, const struct mcp_post *p)
{
    char id[ID_MAX];
    size_t i;
    json_t *theirs;
    LOCKED(&m->taking);
    json_array_foreach(p->ids, i, theirs)
    {
        snprintf(id, sizeof id, "%llu.%zu", (unsigned long long)p->number, i);
        _cleanup_json_ json_t *message =
            json_pack("{s:s, s:s, s:{s:s}}", "jsonrpc", "2.0", "method", "notifications/cancelled",
                      "params", "requestId", id);
        if (!json_is_null(theirs))
            mcp_live_take_json(m, NULL, message);
    }
}

/* The whole body. 0, or a negative errno; then the call was answered. */
static int mcp_call_read(struct live_call *c, struct buf *ret)
{
    _cleanup_buf_ struct buf piece = BUF_INIT(1u << 20);
    bool end = false;
    while (!end) {
        int r = call_receive(c, &piece, -1, &end);
        if (r < 0)
            return r;
        if (r > 0 && buf_append(ret, piece.data, piece.len) < 0) {
            call_problem(c, 413, "too-large", "a message has at most %u MiB",
                         RPC_MESSAGE_MAX >> 20);
            return -EFBIG;
        }
    }
    return 0;
}

/* False: nobody waits for the answers any more. */
static bool mcp_post_wait(struct mcp_live *m, struct mcp_post *p)
{
    for (;;) {
        eventfd_t n;
        pthread_mutex_lock(&m->lock);
        size_t open = p->open;
        pthread_mutex_unlock(&m->lock);
        if (open == 0)
            return true;
        if (cancel_wait(p->wake, POLLIN, -1, call_cancel(p->call)) < 0)
            return false;
        eventfd_read(p->wake, &n);
    }
}

static void mcp_post_link(struct mcp_live *m, struct mcp_post *p)
{
    LOCKED(&m->lock);
    p->number = ++m->last;
    p->next = m->posts;
    m->posts = p;
}

static void mcp_post_unlink(struct mcp_live *m, struct mcp_post *p)
{
    LOCKED(&m->lock);
    struct mcp_post **at = &m->posts;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    while (p->sending)
        pthread_cond_wait(&m->changed, &m->lock);
}

static void mcp_call_message(struct live_call *c)
{
    struct mcp_live *m = call_state(c);
    struct mcp_post p = {.call = c, .ids = json_array(), .wake = eventfd(0, EFD_CLOEXEC)};
    _cleanup_buf_ struct buf body = BUF_INIT(RPC_MESSAGE_MAX);
    if (!p.ids || p.wake < 0) {
        call_problem(c, 503, "busy", "the worker has no memory or descriptors left");
    } else if (mcp_call_read(c, &body) == 0) {
        mcp_post_link(m, &p);
        mcp_live_take(m, &p, &body, json_get_string(call_input(c), "version"));
        if (!mcp_post_wait(m, &p))
            mcp_live_abandon(m, &p);
        mcp_post_unlink(m, &p);
        call_send(c, NULL, 0);
    }
    json_decref(p.ids);
    cleanup_close(&p.wake);
}

/* --- the job --- */

static struct mcp_live *mcp_live_free(struct mcp_live *m)
{
    mcp_server_free(m->server);
    pthread_mutex_destroy(&m->taking);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->changed);
    free(m);
    return NULL;
}

static int mcp_live_open(struct live_job *l, void **ret, struct error *err)
{
    void *box = NULL;
    struct mcp_live *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ENOMEM, "no memory");
    pthread_mutex_init(&m->taking, NULL);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    int r = LIVE_BOX.open(l, &box, err);
    m->box = box;
    if (r == 0) {
        const char *net = json_get_string(json_object_get(live_job_spec(l), "box"), "net");
        const struct mcp_options o = {.session = m->box->tools,
                                      .open_world = net && strcmp(net, "off") != 0,
                                      .instructions = INSTRUCTIONS,
                                      .send = mcp_live_send,
                                      .data = m};
        r = mcp_server_new(&o, &m->server, err);
        if (r < 0)
            LIVE_BOX.close(l, box, false);
    }
    if (r < 0)
        mcp_live_free(m);
    else
        *ret = m;
    return r;
}

static void mcp_live_close(struct live_job *l, void *state, bool keep)
{
    struct mcp_live *m = state;
    struct box_state *box = m->box;
    mcp_live_free(m);
    LIVE_BOX.close(l, box, keep);
}

static const struct live_op MCP_OPS[] = {{"message", mcp_call_message}, {0}};

/* A call that is under way when the worker is lost gets no answer; the box and its files stay. */
const struct live_kind LIVE_MCP = {
    .name = "mcp", .open = mcp_live_open, .close = mcp_live_close, .ops = MCP_OPS};
