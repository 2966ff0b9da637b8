/* A call of a server's tool. */
#include <errno.h>

#include "peer.h"
#include "banned.h"

int peer_tool_run(struct tool_call *c, struct error *err)
{
    const struct peer_tool *t = (const struct peer_tool *)c->tool;
    struct client *client = NULL;
    json_t *answer = NULL;
    int r = peer_client(t->peer, &client, err);
    if (r < 0)
        return r;
    struct client_call call = {
        .method = "tools/call",
        .params = json_pack("{s:s, s:O}", "name", t->remote, "arguments", c->input),
        .timeout_ns = t->peer->timeout_ns,
        .cancel = c->cancel,
        .progress = c->progress};
    if (!call.params)
        return error_set(err, ENOMEM, "no memory");
    r = client_ask(client, &call, &answer, err);
    if (r == 0)
        r = peer_take_result(t, answer, c->result, err);
    json_decref(answer);
    return r;
}
