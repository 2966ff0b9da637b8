/* The MCP server without a transport and without a box, with tools of this test beside the table's:
 * threads, cancellation, progress, batches, and what is sent when. Made to be run under the
 * sanitizers. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "keeper.h"
#include "mcp.h"
#include "rpc.h"
#include "server.h"

#define ANY SCHEMA({"type" : "object"})

/* Runs until it is cancelled. */
static int run_wait(struct tool_call *c, struct error *err)
{
    struct pollfd fd = {.fd = c->cancel, .events = POLLIN};
    if (c->progress)
        c->progress->say(c->progress->data, 1, "begun");
    poll(&fd, 1, -1);
    return error_set(err, ECANCELED, "cancelled");
}

/* Tells more than anybody wants to hear, and not always forwards. */
static int run_talk(struct tool_call *c, struct error *err)
{
    static const double said[] = {0.5, 0.5, 0.25, 1, 2, 3};
    for (size_t i = 0; c->progress && i < ARRAY_SIZE(said); i++)
        c->progress->say(c->progress->data, said[i], "x\xff");
    buf_append_str(&c->result->text, "done");
    return 0;
}

static int run_picture(struct tool_call *c, struct error *err)
{
    c->result->mime = "image/png";
    buf_append(&c->result->image, "\x89PNG", 4);
    return 0;
}

/* Fails with data: such as its schema promises if the input says so. */
static int run_fail(struct tool_call *c, struct error *err)
{
    tool_fail(c, "no");
    bool good = json_is_true(json_object_get(c->input, "good"));
    c->result->data = json_pack("{s:o}", "n", good ? json_integer(1) : json_string("x"));
    return 0;
}

/* More than can be sent. */
static int run_long(struct tool_call *c, struct error *err)
{
    while (buf_append_str(&c->result->text, "0123456789") == 0 && c->result->text.len < 100000)
        ;
    return 0;
}

static const struct tool WAIT = {"wait", "Wait", "", ANY, NULL, TOOL_READS, run_wait};
static const struct tool TALK = {"talk", "Talk", "", ANY, NULL, TOOL_RUNS, run_talk};
static const struct tool PICTURE = {"picture",  "Picture", "", ANY, NULL, TOOL_READS | TOOL_RUNS,
                                    run_picture};
static const struct tool FAIL = {
    "fail",
    "Fail",
    "",
    ANY,
    SCHEMA({"type" : "object", "properties" : {"n" : {"type" : "integer"}}}),
    TOOL_READS,
    run_fail};
static const struct tool LONG = {"long", "Long", "", ANY, NULL, TOOL_READS | TOOL_HOST, run_long};
static const struct tool *const OWN[] = {&WAIT, &TALK, &PICTURE, &FAIL, &LONG};

static const struct tool *find(struct tool_source *s, struct tool_session *session,
                               const char *name, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(OWN); i++)
        if (strcmp(OWN[i]->name, name) == 0)
            return OWN[i];
    return NULL;
}

static void list(struct tool_source *s, struct tool_session *session,
                 void (*each)(void *data, const struct tool *t),
                 void (*trouble)(void *data, const char *text), void *data)
{
    for (size_t i = 0; i < ARRAY_SIZE(OWN); i++)
        each(data, OWN[i]);
    trouble(data, "a server is not there");
}

static void nothing(struct tool_source *s) {}

static struct tool_source source = {.find = find, .list = list, .free = nothing};

/* A client: what it was sent. */
struct client {
    struct box *box; /* nobody holds it: every request fails */
    struct tool_session *session;
    struct mcp_server *server;
    pthread_mutex_t lock;
    pthread_cond_t came;
    json_t *got;
    size_t longest; /* that can be sent to it */
};

static int take(void *data, const json_t *request, const json_t *message)
{
    struct client *c = data;
    if (json_dumpb(message, NULL, 0, 0) > c->longest)
        return -ENOBUFS;
    pthread_mutex_lock(&c->lock);
    json_array_append_new(c->got, json_deep_copy(message));
    pthread_cond_broadcast(&c->came);
    pthread_mutex_unlock(&c->lock);
    return 0;
}

static void say(struct client *c, const char *text)
{
    mcp_server_take(c->server, text, strlen(text));
}

/* The next message that was sent. The caller's. */
static json_t *next(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    while (json_array_size(c->got) == 0)
        pthread_cond_wait(&c->came, &c->lock);
    json_t *message = json_incref(json_array_get(c->got, 0));
    json_array_remove(c->got, 0);
    pthread_mutex_unlock(&c->lock);
    return message;
}

static void expect(struct client *c, const char *text)
{
    json_t *message = next(c), *wanted = json_loads(text, 0, NULL);
    char *got = json_dumps(message, JSON_COMPACT);
    assert_non_null(wanted);
    if (!json_equal(message, wanted))
        assert_string_equal(got, text);
    free(got);
    json_decref(message);
    json_decref(wanted);
}

/* A member of the next message, by path: `result.content.0.text`. Its text, or its JSON. */
static char *expect_at(struct client *c, const char *path)
{
    json_t *message = next(c), *at = message;
    char *copy = strdup(path), *rest = copy, *part;
    while ((part = strsep(&rest, ".")) && at)
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(part)) : json_object_get(at, part);
    char *text =
        json_is_string(at) ? strdup(json_string_value(at)) : json_dumps(at, JSON_ENCODE_ANY);
    free(copy);
    json_decref(message);
    return text;
}

static void expect_text(struct client *c, const char *path, const char *wanted)
{
    char *text = expect_at(c, path);
    assert_non_null(text);
    assert_string_equal(text, wanted);
    free(text);
}

#define INITIALIZE(v)                                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"" v \
    "\"}}"
#define CALL(id, name, more)                                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" name   \
    "\"" more "}}"
#define TOKEN ",\"_meta\":{\"progressToken\":\"t\"}"
#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" #id   \
    "}}"
#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"ping\"}"
#define PONG(id) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":{}}"
#define BEGUN(more)                                                                                \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"                                             \
    "progress\",\"params\":{\"progressToken\":\"t\",\"progress\":1.0" more "}}"

static int open_client(void **state)
{
    struct error err = {0};
    struct client *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->got = json_array();
    c->longest = 50000;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->came, NULL);
    assert_int_equal(keeper_attach(&(struct registry_id){"nowhere0"}, &c->box, &err), 0);
    assert_int_equal(tool_session_new(c->box, &c->session, &err), 0);
    assert_int_equal(tool_session_add(c->session, &source), 0);
    struct mcp_options o = {.session = c->session, .send = take, .data = c};
    assert_int_equal(mcp_server_new(&o, &c->server, &err), 0);
    *state = c;
    return 0;
}

static int close_client(void **state)
{
    struct client *c = *state;
    mcp_server_free(c->server);
    assert_int_equal(json_array_size(c->got), 0);
    tool_session_free(c->session);
    box_close(c->box);
    json_decref(c->got);
    pthread_cond_destroy(&c->came);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return 0;
}

static void begin(struct client *c, const char *text)
{
    say(c, text);
    expect_text(c, "result.serverInfo.name", "hutch");
}

static void test_cancel(void **state)
{
    struct client *c = *state;
    begin(c, INITIALIZE("2025-11-25"));
    say(c, CALL(1, "wait", TOKEN));
    expect(c, BEGUN(",\"message\":\"begun\""));
    assert_false(mcp_server_idle(c->server, 0));
    assert_false(mcp_server_idle(c->server, 1));
    say(c, CALL(1, "picture", ""));
    expect_text(c, "error.code", "-32600");
    say(c, CANCEL(2));
    say(c, CANCEL("1"));
    say(c, CANCEL(1));
    assert_true(mcp_server_idle(c->server, -1));
    say(c, PING(1));
    expect(c, PONG(1));
}

/* Whatever runs when the server is freed is cancelled: nobody hears of it. */
static void test_free_while_calls_run(void **state)
{
    struct client *c = *state;
    begin(c, INITIALIZE("2024-11-05"));
    say(c, CALL(1, "wait", TOKEN));
    expect(c, BEGUN(""));
    say(c, CALL(2, "wait", ""));
    say(c, CALL(3, "talk", ""));
}

static void test_many_at_once(void **state)
{
    struct client *c = *state;
    char text[256];
    begin(c, INITIALIZE("2025-11-25"));
    for (int i = 1; i <= MCP_REQUESTS_MAX; i++) {
        snprintf(text, sizeof text, CALL(% d, "wait", ""), i);
        say(c, text);
    }
    say(c, CALL(100, "wait", ""));
    expect_text(c, "error.code", "-32000");
    for (int i = MCP_REQUESTS_MAX; i > 0; i--) {
        snprintf(text, sizeof text, CANCEL(% d), i);
        say(c, text);
    }
    assert_true(mcp_server_idle(c->server, -1));
    say(c, CALL(1, "picture", ""));
    expect_text(c, "result.content.0.data", "iVBORw==");
}

static void test_progress(void **state)
{
    struct client *c = *state;
    begin(c, INITIALIZE("2025-06-18"));
    say(c, CALL(1, "talk", TOKEN));
    expect(c, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
              "progress\",\"params\":{\"progressToken\":\"t\","
              "\"progress\":0.5,\"message\":\"x\xef\xbf\xbd\"}}");
    expect_text(c, "result.content.0.text", "done");
    say(c, CALL(2, "talk", ",\"_meta\":{\"progressToken\":[1]}"));
    expect_text(c, "result.content.0.text", "done");
}

static void test_failed_data(void **state)
{
    struct client *c = *state;
    begin(c, INITIALIZE("2025-11-25"));
    say(c, CALL(1, "fail", ",\"arguments\":{\"good\":true}"));
    expect(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
              "\"no\"}],"
              "\"isError\":true,\"structuredContent\":{\"n\":1}}}");
    say(c, CALL(2, "fail", ""));
    expect(c, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
              "\"no\"}],"
              "\"isError\":true}}");
}

static void test_longer_than_can_be_sent(void **state)
{
    struct client *c = *state;
    begin(c, INITIALIZE("2025-11-25"));
    say(c, CALL(1, "long", ""));
    expect_text(c, "error.message", "the result is longer than can be sent");
}

static void test_batch(void **state)
{
    struct client *c = *state;
    begin(c, INITIALIZE("2025-03-26"));
    say(c, "[" CALL(1, "wait", TOKEN) "," PING(2) ",5]");
    expect(c, BEGUN(",\"message\":\"begun\""));
    say(c, CANCEL(1));
    expect(c,
           "[" PONG(2) ",{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":"
                       "\"invalid request: it is not an object\"}}]");
    assert_true(mcp_server_idle(c->server, -1));
    say(c, "[" CALL(1, "talk", "") "]");
    expect_text(c, "0.result.content.0.text", "done");
}

/* The hints of the tools above, in their order, behind those of the table. */
static void test_hints(void **state)
{
    static const struct {
        const char *name;
        bool reads, destroys, open;
    } wanted[] = {{"wait", 1, 0, 0},
                  {"talk", 0, 1, 0},
                  {"picture", 1, 0, 0},
                  {"fail", 1, 0, 0},
                  {"long", 1, 0, 1}};
    struct client *c = *state;
    begin(c, INITIALIZE("2025-03-26"));
    say(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    json_decref(next(c)); /* the log message */
    json_t *message = next(c),
           *tools = json_object_get(json_object_get(message, "result"), "tools");
    for (size_t i = 0, first = json_array_size(tools) - ARRAY_SIZE(wanted); i < ARRAY_SIZE(wanted);
         i++) {
        json_t *tool = json_array_get(tools, first + i),
               *hints = json_object_get(tool, "annotations");
        assert_string_equal(json_string_value(json_object_get(tool, "name")), wanted[i].name);
        assert_int_equal(json_is_true(json_object_get(hints, "readOnlyHint")), wanted[i].reads);
        assert_int_equal(json_is_true(json_object_get(hints, "destructiveHint")),
                         wanted[i].destroys);
        assert_int_equal(json_is_true(json_object_get(hints, "openWorldHint")), wanted[i].open);
    }
    json_decref(message);
}

static void test_log(void **state)
{
    struct client *c = *state;
    begin(c, INITIALIZE("2025-11-25"));
    say(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    expect(c, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
              "message\",\"params\":{\"level\":\"warning\",\"logger\":"
              "\"hutch\",\"data\":\"a server is not there\"}}");
    expect_text(c, "id", "1");
    say(c, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"logging/"
           "setLevel\",\"params\":{\"level\":\"error\"}}");
    expect(c, PONG(2));
    say(c, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\"}");
    expect_text(c, "id", "3");
}

/* Without a box whatever needs one fails, and that is all. */
static void test_no_box(void **state)
{
    struct client *c = *state;
    begin(c, INITIALIZE("2025-11-25"));
    say(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}");
    expect_text(c, "error.code", "-32603");
    say(c, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/"
           "read\",\"params\":{\"uri\":\"hutch://diff\"}}");
    expect_text(c, "error.code", "-32603");
}

static void test_refuse(void **state)
{
    struct client *c = *state;
    mcp_server_refuse(c->server, "too long");
    expect(c, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"invalid "
              "request: "
              "too long\"}}");
}

static void test_uris(void **state)
{
    static const char *const good[][2] = {{"a", "a"},
                                          {"a/b", "a/b"},
                                          {"a b", "a%20b"},
                                          {"%", "%25"},
                                          {"ä?#\n", "%C3%A4%3F%23%0A"},
                                          {"\xff", "%FF"},
                                          {"-._~!$&'()*+,;=:@", "-._~!$&'()*+,;=:@"}};
    static const char *const bad[] = {"",
                                      "file:///workspace/",
                                      "file:///workspace",
                                      "file:///a",
                                      "file:///workspace/%",
                                      "file:///workspace/%1",
                                      "file:///workspace/%G1",
                                      "file:///workspace/%00",
                                      "file:///workspace/a?b",
                                      "file:///workspace/a#"};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        _cleanup_buf_ struct buf uri = BUF_INIT(256), path = BUF_INIT(256);
        uri_append_path(&uri, good[i][0]);
        assert_string_equal(buf_cstr(&uri) + strlen(URI_WORKSPACE), good[i][1]);
        assert_int_equal(uri_parse_path((char *)uri.data, &path), 0);
        assert_string_equal((char *)path.data, good[i][0]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        _cleanup_buf_ struct buf path = BUF_INIT(256);
        assert_int_equal(uri_parse_path(bad[i], &path), -EINVAL);
    }
    _cleanup_buf_ struct buf small = BUF_INIT(4);
    assert_int_equal(uri_parse_path(URI_WORKSPACE "12345", &small), -ENOMEM);
}

#define WITH_CLIENT(f) cmocka_unit_test_setup_teardown(f, open_client, close_client)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CLIENT(test_cancel),       WITH_CLIENT(test_free_while_calls_run),
        WITH_CLIENT(test_many_at_once), WITH_CLIENT(test_progress),
        WITH_CLIENT(test_failed_data),  WITH_CLIENT(test_longer_than_can_be_sent),
        WITH_CLIENT(test_batch),        WITH_CLIENT(test_hints),
        WITH_CLIENT(test_log),          WITH_CLIENT(test_no_box),
        WITH_CLIENT(test_refuse),       cmocka_unit_test(test_uris),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
