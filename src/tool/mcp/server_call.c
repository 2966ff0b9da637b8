/* A call of a server's tool. */
#include <errno.h>

#include "server.h"
#include "banned.h"

int server_tool_run(struct tool_call *c, struct error *err)
{
    const struct server_tool *t = (const struct server_tool *)c->tool;
    struct client *client = NULL;
    json_t *answer = NULL;
    int r = server_client(t->server, &client, err);
    if (r < 0)
        return r;
    struct client_call call = {
        .method = "tools/call",
        .params = json_pack("{s:s, s:O}", "name", t->remote, "arguments", c->input),
        .timeout_ns = t->server->timeout_ns,
        .cancel = c->cancel,
        .progress = c->progress};
    if (!call.params)
        return error_set(err, ENOMEM, "no memory");
    r = client_ask(client, &call, &answer, err);
    if (r == 0)
        r = server_take_result(t, answer, c->result, err);
    json_decref(answer);
    return r;
}
