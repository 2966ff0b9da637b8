/*
 * The MCP server on whatever a client may send, line by line, without a box: every line that is a
 * request gets exactly one answer with its id, what is sent is a proper message, and the server
 * ends. The first byte chooses the revision that is settled before, if any.
 */
#include <errno.h>
#include <string.h>

#include "compose.h"
#include "keeper.h"
#include "mcp.h"
#include "rpc.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct tally {
    size_t answers;
};

static void check_one(struct tally *t, json_t *message)
{
    struct rpc_message m;
    rpc_look(message, &m);
    require(m.kind == RPC_RESULT || m.kind == RPC_ERROR || m.kind == RPC_NOTIFICATION);
    t->answers += m.kind != RPC_NOTIFICATION && m.id;
}

/* The server sends one message at a time. */
static int take(void *data, const json_t *request, const json_t *message)
{
    struct tally *t = data;
    size_t i;
    json_t *one;
    if (json_is_array(message))
        json_array_foreach(message, i, one) check_one(t, one);
    else
        check_one(t, (json_t *)message);
    return 0;
}

static void settle(struct mcp_server *s, uint8_t which)
{
    static const char *const versions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
    char text[256];
    if (which % 8 >= ARRAY_SIZE(versions))
        return;
    snprintf(text, sizeof text,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
             "\"protocolVersion\":\"%s\"}}",
             versions[which % 8]);
    mcp_server_take(s, text, strlen(text));
}

/* How many answers with an id a line must get; what is cancelled, or in a batch, is not counted
 * on. */
static size_t expected(const char *line, size_t n, bool *ret_sure)
{
    struct error err = {0};
    struct rpc_message m;
    json_t *value = NULL;
    if (rpc_parse(line, n, &value, &err) < 0)
        return 0;
    rpc_look(value, &m);
    *ret_sure &= !json_is_array(value) && m.kind != RPC_NOTIFICATION;
    size_t count = m.id && (m.kind == RPC_REQUEST || m.kind == RPC_INVALID);
    json_decref(value);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct error err = {0};
    struct tally tally = {0};
    static struct box *box; /* nobody holds it: every request fails */
    struct tool_session *session = NULL;
    struct mcp_server *server = NULL;
    bool sure = true;
    size_t wanted = 0;
    if (n == 0)
        return 0;
    require(box || keeper_attach(&(struct registry_id){"nowhere0"}, &box, &err) == 0);
    require(tool_session_new(box, &session, &err) == 0);
    struct mcp_options how = {.session = session, .send = take, .data = &tally};
    require(mcp_server_new(&how, &server, &err) == 0);
    settle(server, data[0]);
    wanted += data[0] % 8 < 4;
    _cleanup_rpc_reader_ struct rpc_reader in = RPC_READER_INIT(RPC_MESSAGE_MAX);
    const char *text = (const char *)data + 1;
    struct rpc_line line;
    n--;
    while (rpc_take(&in, &text, &n, &line) > 0) {
        wanted += expected(line.data, line.size, &sure);
        mcp_server_take(server, line.data, line.size);
    }
    require(mcp_server_idle(server, -1));
    require(!sure || tally.answers == wanted);
    mcp_server_free(server);
    tool_session_free(session);
    return 0;
}
