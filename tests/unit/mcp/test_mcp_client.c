/* The client's connection: many callers at once, timeouts, cancelling, a server that ends. The
 * server is this program itself, started with an argument. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "client.h"
#include "io.h"
#include "rpc.h"
#include "thread.h"

#define CALLERS 8
#define CALLS   200

/* --- the server --- */

static void answer(const json_t *id, json_t *result)
{
    _cleanup_buf_ struct buf line = BUF_INIT(RPC_MESSAGE_MAX);
    json_t *m = rpc_result(id, result);
    rpc_write(&line, m);
    io_write_all(STDOUT_FILENO, line.data, line.len);
    json_decref(m);
}

static void serve_one(const struct rpc_message *m)
{
    static const char NEWS[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n"
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
        "progress\",\"params\":{\"progressToken\":2,\"progress\":1}}\n";
    if (m->kind != RPC_REQUEST)
        return;
    if (strcmp(m->method, "initialize") == 0)
        answer(m->id, json_pack("{s:s, s:{s:{}}}", "protocolVersion", "2025-06-18", "capabilities",
                                "tools"));
    else if (strcmp(m->method, "echo") == 0)
        answer(m->id, json_incref(m->params));
    else if (strcmp(m->method, "news") == 0) {
        io_write_all(STDOUT_FILENO, NEWS, sizeof NEWS - 1);
        answer(m->id, json_object());
    } else if (strcmp(m->method, "die") == 0)
        exit(5);
}

static int serve(void)
{
    struct rpc_reader in = RPC_READER_INIT(RPC_MESSAGE_MAX);
    char piece[4096];
    ssize_t n;
    while ((n = read(STDIN_FILENO, piece, sizeof piece)) > 0) {
        const char *at = piece;
        size_t left = (size_t)n;
        struct rpc_line line;
        while (rpc_take(&in, &at, &left, &line) > 0) {
            struct rpc_message m;
            json_t *value = NULL;
            assert_int_equal(rpc_parse(line.data, line.size, &value, NULL), 0);
            rpc_look(value, &m);
            serve_one(&m);
            json_decref(value);
        }
    }
    rpc_reader_free(&in);
    return 0;
}

/* --- the tests --- */

static struct client *open_client(void)
{
    char *argv[] = {(char *)"test_mcp_client", (char *)"serve", NULL};
    char *env[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    struct child_options program = {
        .command = "/proc/self/exe", .argv = argv, .env = env, .cwd = "/"};
    struct client_options o = {.name = "s", .program = &program, .timeout_ns = 20 * NS_PER_S};
    struct client *c = NULL;
    struct error err = {0};
    int r = client_open(&o, &c, &err);
    if (r < 0)
        fail_msg("%s", err.text);
    assert_true(client_has_tools(c));
    return c;
}

static int ask(struct client *c, const char *method, json_t *params, int64_t timeout_ns, int cancel,
               json_t **ret, struct error *err)
{
    struct client_call call = {
        .method = method, .params = params, .timeout_ns = timeout_ns, .cancel = cancel};
    return client_ask(c, &call, ret, err);
}

struct caller {
    struct client *client;
    int number;
    int wrong;
    pthread_t thread;
};

static void *call_often(void *data)
{
    struct caller *self = data;
    for (int i = 0; i < CALLS; i++) {
        json_t *got = NULL;
        int r = ask(self->client, "echo", json_pack("{s:i}", "n", self->number * CALLS + i),
                    20 * NS_PER_S, -1, &got, NULL);
        self->wrong +=
            r < 0 || json_integer_value(json_object_get(got, "n")) != self->number * CALLS + i;
        json_decref(got);
    }
    return NULL;
}

static void test_many_callers(void **state)
{
    struct caller callers[CALLERS];
    struct client *c = open_client();
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.client = c, .number = i};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].wrong, 0);
    }
    assert_null(client_free(c));
}

static void test_a_large_message(void **state)
{
    struct client *c = open_client();
    json_t *got = NULL;
    char *text = malloc(8u << 20);
    memset(text, 'x', 8u << 20);
    assert_int_equal(ask(c, "echo", json_pack("{s:s%}", "t", text, (size_t)(8u << 20)),
                         60 * NS_PER_S, -1, &got, NULL),
                     0);
    assert_int_equal(json_string_length(json_object_get(got, "t")), 8u << 20);
    json_decref(got);
    free(text);
    client_free(c);
}

static void test_timeout_and_cancel(void **state)
{
    struct client *c = open_client();
    struct error err = {0};
    json_t *got = NULL;
    int ends[2];
    assert_int_equal(ask(c, "hang", json_object(), NS_PER_S / 20, -1, &got, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.text, "did not answer within 0.05 seconds"));
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(ask(c, "hang", json_object(), 20 * NS_PER_S, ends[0], &got, &err), -ECANCELED);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(ask(c, "echo", json_object(), 20 * NS_PER_S, -1, &got, &err), 0);
    json_decref(got);
    client_free(c);
}

static void test_news(void **state)
{
    struct client *c = open_client();
    json_t *got = NULL;
    assert_false(client_tools_changed(c));
    assert_int_equal(ask(c, "news", json_object(), 20 * NS_PER_S, -1, &got, NULL), 0);
    assert_true(client_tools_changed(c));
    assert_false(client_tools_changed(c));
    json_decref(got);
    client_free(c);
}

/* Everybody who waits is told, and so is whoever asks later. */
static void *ask_hanging(void *data)
{
    struct caller *self = data;
    json_t *got = NULL;
    self->wrong = ask(self->client, "hang", json_object(), 20 * NS_PER_S, -1, &got, NULL);
    return NULL;
}

static void test_a_server_that_ends(void **state)
{
    struct client *c = open_client();
    struct caller waiting = {.client = c};
    struct error err = {0};
    json_t *got = NULL;
    assert_int_equal(pthread_create(&waiting.thread, NULL, ask_hanging, &waiting), 0);
    assert_int_equal(ask(c, "die", json_object(), 20 * NS_PER_S, -1, &got, &err), -EPIPE);
    assert_non_null(strstr(err.text, "it ended (exit status 5)"));
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.wrong, -EPIPE);
    assert_false(client_alive(c));
    assert_int_equal(ask(c, "echo", json_object(), 20 * NS_PER_S, -1, &got, &err), -EPIPE);
    client_free(c);
}

static void test_stopped_while_somebody_waits(void **state)
{
    struct client *c = open_client();
    struct caller waiting = {.client = c};
    assert_int_equal(pthread_create(&waiting.thread, NULL, ask_hanging, &waiting), 0);
    client_stop(c);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.wrong, -ECANCELED);
    client_free(c);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return serve();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_callers),
        cmocka_unit_test(test_a_large_message),
        cmocka_unit_test(test_timeout_and_cancel),
        cmocka_unit_test(test_news),
        cmocka_unit_test(test_a_server_that_ends),
        cmocka_unit_test(test_stopped_while_somebody_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
