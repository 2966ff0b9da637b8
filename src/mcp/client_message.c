/* What a server says, line by line: answers, requests of its own, news. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client_private.h"
#include "foreign.h"
#include "banned.h"

static void notify(struct waiter *w)
{
    const uint64_t one = 1;
    (void)!write(w->event, &one, sizeof one);
}

void client_fail(struct waiter *w, const struct error *why)
{
    if (w->done)
        return;
    w->done = true;
    w->failure = *why;
    notify(w);
}

int client_put(struct client *c, json_t *message)
{
    int r = message ? rpc_write(&c->out, message) : -ENOMEM;
    c->out.failed = false; /* nothing of it was appended */
    json_decref(message);
    return r;
}

static struct waiter *find_waiter(struct client *c, const json_t *id)
{
    if (!json_is_integer(id))
        return NULL;
    for (struct waiter *w = c->waiters; w; w = w->next)
        if (w->id == json_integer_value(id))
            return w;
    return NULL;
}

/* An error that the server answers with. */
static void take_error(struct client *c, struct waiter *w, const json_t *error)
{
    struct error why;
    const json_t *said = json_object_get(error, "message"), *code = json_object_get(error, "code");
    _cleanup_free_ char *text =
        json_is_string(said) ? foreign_text(json_string_value(said), json_string_length(said), 800)
                             : NULL;
    bool lost = json_is_integer(code) && json_integer_value(code) == MCP_SESSION_LOST;
    error_set(&why, lost ? ESTALE : EREMOTEIO,
              "the MCP server '%s' answered with an error: %s (code %lld)", c->name,
              text && *text ? text : "no message", (long long)json_integer_value(code));
    client_fail(w, &why);
    if (lost && !c->dead) {
        c->dead = true;
        c->why = why;
        c->stop = true;
    }
}

static void take_answer(struct client *c, const struct rpc_message *m)
{
    struct waiter *w = find_waiter(c, m->id);
    if (!w || w->done)
        return; /* of a call that nobody waits for any more; or of none */
    c->unanswered = 0;
    if (m->kind == RPC_ERROR) {
        take_error(c, w, m->error);
        return;
    }
    w->result = json_incref(m->result);
    w->done = true;
    notify(w);
}

/* We offer nothing that a server could ask for: no roots, no sampling, no elicitation. */
static int take_request(struct client *c, const struct rpc_message *m, struct error *err)
{
    json_t *answer = strcmp(m->method, "ping") == 0
                         ? rpc_result(m->id, json_object())
                         : rpc_error(m->id, RPC_METHOD_NOT_FOUND, "hutch does not offer this");
    int r = client_put(c, answer);
    return r < 0 ? error_set(err, EPROTO, "it asks and does not read the answers") : 0;
}

static void take_progress(struct client *c, const json_t *params)
{
    char text[128];
    struct waiter *w = find_waiter(c, json_object_get(params, "progressToken"));
    const json_t *said = json_object_get(params, "message"),
                 *total = json_object_get(params, "total");
    double at = json_number_value(json_object_get(params, "progress"));
    if (!w || w->done)
        return;
    if (json_is_number(total))
        snprintf(text, sizeof text, "%.15g of %.15g", at, json_number_value(total));
    else
        snprintf(text, sizeof text, "%.15g", at);
    free(w->message);
    w->message = json_is_string(said)
                     ? foreign_text(json_string_value(said), json_string_length(said), 400)
                     : strdup(text);
    w->progressed = true;
    notify(w);
}

static void take_news(struct client *c, const struct rpc_message *m)
{
    if (strcmp(m->method, "notifications/progress") == 0)
        take_progress(c, m->params);
    else if (strcmp(m->method, "notifications/tools/list_changed") == 0)
        c->tools_changed = true;
}

/* What was meant to be a message, but cannot be read, may have been anybody's answer. */
static int take_garbage(struct client *c, const char *why)
{
    struct error err;
    error_set(&err, EPROTO, "the MCP server '%s' sent a malformed message: %.200s", c->name, why);
    for (struct waiter *w = c->waiters; w; w = w->next)
        client_fail(w, &err);
    return 0;
}

static int take_value(struct client *c, json_t *value, bool in_batch, struct error *err)
{
    struct rpc_message m;
    size_t i;
    json_t *one;
    int r = 0;
    if (json_is_array(value) && !in_batch) { /* protocol 2025-03-26 had batches */
        json_array_foreach(value, i, one)
        {
            if (r == 0)
                r = take_value(c, one, true, err);
        }
        return r;
    }
    rpc_look(value, &m);
    switch (m.kind) {
    case RPC_RESULT:
    case RPC_ERROR:
        take_answer(c, &m);
        json_object_del(value, "result"); /* it is another thread's now, whole */
        return 0;
    case RPC_REQUEST:
        return take_request(c, &m, err);
    case RPC_NOTIFICATION:
        take_news(c, &m);
        return 0;
    default:
        return take_garbage(c, m.problem);
    }
}

/* Many a server greets on stdout, against the rules: what does not even look like a message is let
 * be. */
static bool is_noise(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && (line[i] == ' ' || line[i] == '\t'))
        i++;
    return i == n || (line[i] != '{' && line[i] != '[');
}

int client_take_line(struct client *c, const char *line, size_t n, struct error *err)
{
    struct error why = {0};
    json_t *value = NULL;
    bool noise = is_noise(line, n);
    int r = noise ? 0 : rpc_parse(line, n, &value, &why);
    pthread_mutex_lock(&c->lock);
    if (noise && ++c->noise > MCP_CLIENT_NOISE_MAX)
        r = error_set(err, EPROTO, "it wrote more than %d lines that are no JSON",
                      MCP_CLIENT_NOISE_MAX);
    else if (!noise)
        r = r < 0 ? take_garbage(c, why.text) : take_value(c, value, false, err);
    pthread_mutex_unlock(&c->lock);
    json_decref(value);
    return r;
}
