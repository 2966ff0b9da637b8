/* JSON-RPC lines: any split of the bytes, every kind of message, every limit. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rpc.h"

/* What rpc_take gives for a text that comes in pieces of `piece` bytes: the lines, joined by '|',
 * with '!' for one that was too long. */
static void take_all(const char *text, size_t piece, size_t max, char *ret, size_t room)
{
    _cleanup_rpc_reader_ struct rpc_reader in = RPC_READER_INIT(max);
    struct buf out = BUF_INIT(room - 1);
    struct rpc_line line;
    for (size_t at = 0, all = strlen(text); at < all; at += piece) {
        const char *data = text + at;
        size_t n = all - at < piece ? all - at : piece;
        int r;
        while ((r = rpc_take(&in, &data, &n, &line)) != 0) {
            if (r > 0)
                buf_append(&out, line.data, line.size);
            else
                buf_append_str(&out, r == -ENOBUFS ? "!" : "?");
            buf_append_str(&out, "|");
        }
        assert_int_equal(n, 0);
    }
    if (in.lost || (in.in.len > 0 && !in.whole)) /* a line has not ended */
        buf_append_str(&out, "...");
    snprintf(ret, room, "%.*s", (int)out.len, out.data ? (char *)out.data : "");
    buf_free(&out);
}

static void test_lines(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"{}\n", "{}|"},
        {"{}\n[]\n1\n", "{}|[]|1|"},
        {"\n \r\n\t\n{}\r\n\n", "{}\r|"},
        {"{}\n{\"a", "{}|..."},
        {"12345678\n123456789\n1\n", "12345678|!|1|"},
        {"123456789123456789", "..."},
        {"123456789123456789\n\n{}\n", "!|{}|"},
    };
    char got[256];
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t piece = 1; piece <= 32; piece++) {
            take_all(cases[i][0], piece, 8, got, sizeof got);
            assert_string_equal(got, cases[i][1]);
        }
}

static int parse(const char *text, json_t **ret)
{
    struct error err = {0};
    json_t *untouched = *ret;
    int r = rpc_parse(text, strlen(text), ret, &err);
    assert_true((r < 0) == (err.text[0] != 0));
    if (r < 0)
        assert_ptr_equal(*ret, untouched);
    return r;
}

static void test_parse(void **state)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "{}x",
                                      "{} {}",
                                      "nul",
                                      "'a'",
                                      "\"\xff\"",
                                      "[1,]",
                                      "{\"a\" 1}",
                                      "{\"a\":1,\"a\":2}",
                                      "1e999",
                                      "\"\\ud800\"",
                                      "\x80",
                                      "[1 2]",
                                      "\"a\nb\"",
                                      "99999999999999999999",
                                      "{\"a\\u0000\":1}"};
    json_t *value = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(parse(bad[i], &value), -EBADMSG);
    assert_int_equal(parse("[\"a\\u0000b\", 1.5, null]", &value), 0);
    assert_true(rpc_has_nul(value));
    json_decref(value);
    assert_int_equal(parse(" {\"a\": [{\"b\": \"\\\"[,,,{\"}]} ", &value), 0);
    assert_false(rpc_has_nul(value));
    json_decref(value);
    assert_int_equal(parse("{\"a\": [0, {\"b\": \"\\u0000\"}]}", &value), 0);
    assert_true(rpc_has_nul(value));
    json_decref(value);
}

/* `[1,1,…,1]` with that many values: the array is one of them. */
static char *many(size_t values, size_t *ret_n)
{
    size_t n = 1 + 2 * (values - 1);
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, '1', n);
    for (size_t i = 2; i < n; i += 2)
        text[i] = ',';
    text[0] = '[';
    text[n - 1] = ']';
    *ret_n = n;
    return text;
}

static void test_parse_limits(void **state)
{
    struct error err = {0};
    json_t *value = NULL;
    size_t n;
    char *text = many(RPC_VALUES_MAX, &n);
    assert_int_equal(rpc_parse(text, n, &value, &err), 0);
    assert_int_equal(json_array_size(value), RPC_VALUES_MAX - 1);
    json_decref(value);
    free(text);
    text = many(RPC_VALUES_MAX + 1, &n);
    assert_int_equal(rpc_parse(text, n, &value, &err), -E2BIG);
    memset(text, '[', n); /* too many, and fewer but too deep */
    assert_int_equal(rpc_parse(text, n, &value, &err), -E2BIG);
    assert_int_equal(rpc_parse(text, 100000, &value, &err), -EBADMSG);
    free(text);
}

static void test_kinds(void **state)
{
    static const struct {
        const char *text;
        enum rpc_kind kind;
        const char *id; /* as JSON, or NULL */
    } cases[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}", RPC_REQUEST, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"a\",\"params\":{}}", RPC_REQUEST, "\"x\""},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"\",\"params\":[]}", RPC_REQUEST, "\"\""},
        {"{\"jsonrpc\":\"2.0\",\"id\":-1.5,\"method\":\"a\",\"more\":1}", RPC_REQUEST, "-1.5"},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", RPC_NOTIFICATION, NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", RPC_RESULT, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}", RPC_RESULT, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", RPC_ERROR, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", RPC_ERROR, NULL},
        {"{\"jsonrpc\":\"2.0\",\"error\":{}}", RPC_ERROR, NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}", RPC_INVALID, NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"a\"}", RPC_INVALID, NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"a\"}", RPC_INVALID, NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":1}", RPC_INVALID, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000b\"}", RPC_INVALID, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":1}", RPC_INVALID, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":null}", RPC_INVALID, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_INVALID, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{}}", RPC_INVALID, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"x\"}", RPC_INVALID, "1"},
        {"{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{}}", RPC_INVALID, NULL},
        {"{\"jsonrpc\":\"2.0\",\"result\":{}}", RPC_INVALID, NULL},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"a\"}", RPC_INVALID, "1"},
        {"{\"id\":1,\"method\":\"a\"}", RPC_INVALID, "1"},
        {"{\"jsonrpc\":2,\"id\":1,\"method\":\"a\"}", RPC_INVALID, "1"},
        {"[]", RPC_INVALID, NULL},
        {"[{\"jsonrpc\":\"2.0\",\"method\":\"a\"}]", RPC_INVALID, NULL},
        {"1", RPC_INVALID, NULL},
        {"null", RPC_INVALID, NULL},
        {"\"a\"", RPC_INVALID, NULL},
        {"{}", RPC_INVALID, NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rpc_message m;
        json_t *value = NULL;
        assert_int_equal(parse(cases[i].text, &value), 0);
        rpc_look(value, &m);
        assert_int_equal(m.kind, cases[i].kind);
        assert_int_equal(m.problem != NULL, m.kind == RPC_INVALID);
        char *id = m.id ? json_dumps(m.id, JSON_ENCODE_ANY) : NULL;
        assert_int_equal(id != NULL, cases[i].id != NULL);
        if (id)
            assert_string_equal(id, cases[i].id);
        free(id);
        json_decref(value);
    }
}

static void check_written(json_t *message, const char *expected)
{
    _cleanup_buf_ struct buf out = BUF_INIT(4096);
    assert_non_null(message);
    assert_int_equal(rpc_write(&out, message), 0);
    assert_string_equal(buf_cstr(&out), expected);
    json_decref(message);
}

static void test_builders(void **state)
{
    json_t *id = json_string("a\nb");
    check_written(
        rpc_request(id, "tools/call", json_pack("{s:i}", "x", 1)),
        "{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"method\":\"tools/call\",\"params\":{\"x\":1}}\n");
    check_written(rpc_request(id, "ping", NULL),
                  "{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"method\":\"ping\"}\n");
    check_written(rpc_notification("n", NULL), "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n");
    check_written(rpc_result(id, json_object()),
                  "{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"result\":{}}\n");
    check_written(rpc_error(NULL, RPC_PARSE_ERROR, "bad %s", "\xff\n"),
                  "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"bad "
                  "\xef\xbf\xbd\\n\"}}\n");
    check_written(
        rpc_error(id, RPC_INVALID_PARAMS, "no"),
        "{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"error\":{\"code\":-32602,\"message\":\"no\"}}\n");
    assert_null(rpc_result(id, NULL));
    json_decref(id);
}

static void test_write_limit(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(64);
    json_t *small = rpc_notification("n", NULL),
           *large = rpc_notification("0123456789012345678", NULL);
    assert_int_equal(rpc_write(&out, small), 0);
    size_t len = out.len;
    assert_int_equal(rpc_write(&out, large), -ENOBUFS);
    assert_int_equal(out.len, len);
    json_decref(small);
    json_decref(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_limits), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_builders),     cmocka_unit_test(test_write_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
