/* Server-sent events: all line ends, wherever the stream is cut; limits. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "sse.h"

/* Every event as `type|data|id;`, of a stream that comes in pieces of `piece` bytes. */
static const char *read_all(struct sse *s, const char *in, size_t n, size_t piece, struct buf *out)
{
    for (size_t at = 0; at < n; at += piece) {
        const char *data = in + at;
        size_t left = n - at < piece ? n - at : piece;
        struct sse_event e;
        int r;
        while ((r = sse_take(s, &data, &left, &e)) > 0) {
            assert_int_equal(e.data[e.n], 0);
            const char *id = sse_last_id(s);
            buf_printf(out, "%s|%s|%s;", e.type, e.data, id ? id : "");
        }
        assert_int_equal(r, 0);
        assert_int_equal(left, 0);
    }
    return buf_cstr(out);
}

static void expect_n(const char *in, size_t n, const char *want)
{
    for (size_t piece = 1; piece <= n; piece++) {
        _cleanup_sse_ struct sse s = SSE_INIT(4096);
        _cleanup_buf_ struct buf out = BUF_INIT(8192);
        assert_string_equal(read_all(&s, in, n, piece, &out), want);
    }
}

static void expect(const char *in, const char *want)
{
    expect_n(in, strlen(in), want);
}

static void test_line_ends(void **state)
{
    expect("data: a\n\ndata: b\n\n", "message|a|;message|b|;");
    expect("data: a\r\n\r\ndata: b\r\n\r\n", "message|a|;message|b|;");
    expect("data: a\r\rdata: b\r\r", "message|a|;message|b|;");
    expect("data: a\r\n\ndata: b\r\r\n", "message|a|;message|b|;");
}

static void test_fields(void **state)
{
    expect("event: add\ndata: 1\ndata:2\ndata:  3\n\n", "add|1\n2\n 3|;");
    expect("data\n\n", "message||;");
    expect("data\ndata\n\n", "message|\n|;");
    expect(": comment\n:\n\n\ndata: a\n: more\n\n", "message|a|;");
    expect("Data: a\ndatax: b\nfoo\n\n", "");
    expect("event: lost\n\ndata: a\n\n", "message|a|;");
    expect("data: cut off\n", "");
    expect("\xef\xbb\xbf"
           "data: a\n\n",
           "message|a|;");
    expect("\xef\xbb\xbf\xef\xbb\xbf"
           "data: a\n\n",
           "");
}

static void test_ids(void **state)
{
    expect("id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", "message|a|1;message|b|1;message|c|;");
    expect("id: 7\n\ndata: a\n\n", "message|a|7;");
    static const char with_nul[] = "id: 7\ndata: a\n\nid: x\0y\ndata: b\n\n";
    expect_n(with_nul, sizeof with_nul - 1, "message|a|7;message|b|7;");
}

static int64_t retry_of(const char *in)
{
    _cleanup_sse_ struct sse s = SSE_INIT(4096);
    _cleanup_buf_ struct buf out = BUF_INIT(8192);
    read_all(&s, in, strlen(in), strlen(in), &out);
    return s.retry_ms;
}

static void test_retry(void **state)
{
    assert_int_equal(retry_of("data: a\n\n"), -1);
    assert_int_equal(retry_of("retry: 250\n"), 250);
    assert_int_equal(retry_of("retry: 250\nretry: 2s\n"), 250);
    assert_int_equal(retry_of("retry: -1\n"), -1);
    assert_int_equal(retry_of("retry:\n"), -1);
    assert_int_equal(retry_of("retry: 99999999999999999999999999\n"), 24LL * 60 * 60 * 1000);
}

static int take_much(const char *line, int times, size_t max)
{
    _cleanup_sse_ struct sse s = SSE_INIT(max);
    struct sse_event e;
    for (int i = 0; i < times; i++) {
        const char *data = line;
        size_t n = strlen(line);
        int r = sse_take(&s, &data, &n, &e);
        if (r != 0)
            return r;
    }
    return 0;
}

static void test_limits(void **state)
{
    assert_int_equal(take_much("data: 0123456789\n", 9, 100), 0);
    assert_int_equal(take_much("data: 0123456789\n", 10, 100), -EMSGSIZE);
    assert_int_equal(take_much("0123456789", 11, 100), -EMSGSIZE);
    assert_int_equal(take_much(": comments are for free\n", 1000, 100), 0);
    /* A name or an id that is too long is as if it had not been said. */
    char long_id[SSE_ID_MAX + 100];
    memset(long_id, 'x', sizeof long_id);
    memcpy(long_id, "id: ", 4);
    memcpy(long_id + sizeof long_id - 12, "\ndata: a\n\n", 11);
    _cleanup_sse_ struct sse s = SSE_INIT(16384);
    _cleanup_buf_ struct buf out = BUF_INIT(16384);
    assert_string_equal(read_all(&s, long_id, strlen(long_id), 1000, &out), "message|a|;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_ends), cmocka_unit_test(test_fields), cmocka_unit_test(test_ids),
        cmocka_unit_test(test_retry),     cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
