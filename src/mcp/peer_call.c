/* A call of a server's tool. */
#include <errno.h>

#include "peer.h"
#include "banned.h"

static int call_once(struct tool_call *c, const struct peer_tool *t, json_t **ret,
                     struct error *err)
{
    struct client *client = NULL;
    int r = peer_client(t->peer, &client, err);
    if (r < 0)
        return r;
    struct client_call call = {
        .method = "tools/call",
        .params = json_pack("{s:s, s:O}", "name", t->remote, "arguments", c->input),
        .timeout_ns = t->peer->timeout_ns,
        .cancel = c->cancel,
        .progress = c->progress};
    return call.params ? client_ask(client, &call, ret, err) : error_set(err, ENOMEM, "no memory");
}

int peer_tool_run(struct tool_call *c, struct error *err)
{
    const struct peer_tool *t = (const struct peer_tool *)c->tool;
    json_t *answer = NULL;
    int r = call_once(c, t, &answer, err);
    if (r == -ESTALE) /* a server on the network has forgotten us, and did not look at the call */
        r = call_once(c, t, &answer, err);
    if (r == 0)
        r = peer_take_result(t, answer, c->result, err);
    json_decref(answer);
    return r;
}
