/*
 * What an MCP server may answer: a list of tools, and the result of a call, as any JSON. Whatever
 * it is, what comes of it is valid UTF-8 and within its limits.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "client.h"
#include "text.h"
#include "banned.h"

static void check_tool(const struct upstream_tool *t)
{
    assert(utf8_valid((const uint8_t *)t->summary, strlen(t->summary)));
    assert(utf8_valid((const uint8_t *)t->title, strlen(t->title)));
    assert(strncmp(t->name, "s.", 2) == 0 && strlen(t->remote) <= 128);
    json_t *schema = json_loads(t->input, JSON_ALLOW_NUL, NULL);
    assert(json_is_object(schema));
    json_decref(schema);
}

static void take_list(struct upstream *u, const json_t *answer)
{
    struct error err = {0};
    char *cursor = NULL;
    u->n_tools = 0;
    upstream_take_page(u, answer, &cursor, &err);
    free(cursor);
    for (size_t i = 0; i < u->n_tools; i++)
        check_tool(u->tools[i]);
}

static void take_result(struct upstream *u, const json_t *answer)
{
    static const struct {
        const char *output;
    } kinds[] = {{NULL}, {"{\"type\":\"object\",\"required\":[\"n\"]}"}};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct error err = {0};
        struct upstream_tool t = {
            .upstream = u, .name = (char *)"s.t", .output = (char *)kinds[i].output};
        _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
        upstream_take_result(&t, answer, &r, &err);
        assert(!r.text.failed && (r.text.len == 0 || utf8_valid(r.text.data, r.text.len)));
        assert(!r.data || json_is_object(r.data));
    }
}

/* Lines as they come from the pipe, while somebody waits for answer 1. */
static void take_lines(const char *data, size_t n)
{
    struct client c = {.name = (char *)"s",
                       .transport = &CLIENT_PIPE,
                       .pipe = {.reader = RPC_READER_INIT(4096), .out = BUF_INIT(4096)}};
    struct waiter w = {.id = 1, .event = -1};
    struct rpc_line line;
    struct error err = {0};
    pthread_mutex_init(&c.lock, NULL);
    c.waiters = &w;
    int r = 0;
    while (r >= 0 && n > 0 && (r = rpc_take(&c.pipe.reader, &data, &n, &line)) != 0)
        r = r < 0 ? 0 : client_take_line(&c, line.data, line.size, &err);
    assert(!w.result || w.done);
    json_decref(w.result);
    free(w.message);
    rpc_reader_free(&c.pipe.reader);
    buf_free(&c.pipe.out);
    pthread_mutex_destroy(&c.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct error err = {0};
    json_t *answer = NULL, *settings = json_object();
    take_lines((const char *)data, n);
    struct upstream *u = upstream_new("s", settings);
    if (u && rpc_parse((const char *)data, n, &answer, &err) == 0) {
        take_list(u, answer);
        take_result(u, answer);
    }
    json_decref(answer);
    upstream_free(u);
    json_decref(settings);
    return 0;
}
