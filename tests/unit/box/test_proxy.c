/* The proxy's pure parts: hosts and ports, the allow-list, which addresses are public, request
 * heads, bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "session.h"
#include "cleanup.h"

static void test_target_good(void **state)
{
    static const struct {
        const char *text, *host;
        int port;
        enum proxy_host_kind kind;
    } cases[] = {
        {"example.org", "example.org", 0, PROXY_HOST_NAME},
        {"Example.ORG.:8080", "example.org", 8080, PROXY_HOST_NAME},
        {"a_b-c.example.org:1", "a_b-c.example.org", 1, PROXY_HOST_NAME},
        {"localhost:65535", "localhost", 65535, PROXY_HOST_NAME},
        {"1.2.3.4", "1.2.3.4", 0, PROXY_HOST_ADDRESS},
        {"[::1]:80", "::1", 80, PROXY_HOST_ADDRESS},
        {"[2001:DB8:0:0::1]", "2001:db8::1", 0, PROXY_HOST_ADDRESS},
        {"[::ffff:10.0.0.1]:22", "10.0.0.1", 22, PROXY_HOST_ADDRESS},
        {"4.example:443", "4.example", 443, PROXY_HOST_NAME},
        {"0xdead.example", "0xdead.example", 0, PROXY_HOST_NAME},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct proxy_target t;
        assert_int_equal(proxy_target_parse(cases[i].text, strlen(cases[i].text), &t), 0);
        assert_string_equal(t.host.text, cases[i].host);
        assert_int_equal(t.port, cases[i].port);
        assert_int_equal(t.host.kind, cases[i].kind);
    }
}

static void test_target_bad(void **state)
{
    static const char *const cases[] = {
        "",           ":80",       "host:",      "host:0",       "host:65536", "host:99999999999",
        "host:-1",    "host:+1",   "host: 1",    "host:8 0",     "a:b:80",     "::1",
        "::1:80",     "[::1",      "[]:80",      "[1.2.3.4]:80", "[::1]80",    "[::1]:",
        "[::1%eth0]", "[host]:80", "ho st",      "user@host",    "host/path",  "h\xc3\xb6st",
        "..",         "a..b",      ".a",         "127.1",        "2130706433", "0x7f000001",
        "0177.0.0.1", "1.2.3.4.5", "127.0.0.1.", "a.0x7f",       "a.1",        "%31.example",
        "*.example",  "host\\x",   "host#",      "256.1.1.1",    "1.2.3",      "0x",
    };
    struct proxy_target t;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (proxy_target_parse(cases[i], strlen(cases[i]), &t) != -EINVAL)
            fail_msg("'%s' was taken", cases[i]);
    assert_int_equal(proxy_target_parse("a\0b", 3, &t), -EINVAL);

    char label[80];
    memset(label, 'a', sizeof label);
    assert_int_equal(proxy_target_parse(label, 63, &t), 0);
    assert_int_equal(proxy_target_parse(label, 64, &t), -EINVAL);
    char name[300];
    for (size_t i = 0; i < sizeof name; i++)
        name[i] = i % 2 ? '.' : 'a';
    assert_int_equal(proxy_target_parse(name, 253, &t), 0);
    assert_int_equal(proxy_target_parse(name, 255, &t), -EINVAL);
}

static bool is_public(const char *text)
{
    uint8_t bytes[16];
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;
    assert_int_equal(inet_pton(family, text, bytes), 1);
    struct proxy_address a = proxy_address_make(family, bytes);
    return proxy_address_is_public(&a);
}

static void test_public_addresses(void **state)
{
    static const char *const yes[] = {"1.1.1.1",          "8.8.8.8",         "9.255.255.255",
                                      "11.0.0.0",         "100.63.255.255",  "100.128.0.0",
                                      "126.255.255.255",  "128.0.0.0",       "169.253.0.1",
                                      "172.15.255.255",   "172.32.0.0",      "192.167.0.1",
                                      "192.169.0.1",      "198.17.0.1",      "198.20.0.0",
                                      "223.255.255.255",  "2606:4700::1111", "2a00:1450::1",
                                      "64:ff9b::8.8.8.8", "2002:808:808::1", "::ffff:8.8.8.8"};
    static const char *const no[] = {"0.0.0.0",
                                     "0.1.2.3",
                                     "10.0.0.1",
                                     "10.255.255.255",
                                     "100.64.0.1",
                                     "100.127.255.255",
                                     "127.0.0.1",
                                     "127.255.0.1",
                                     "168.63.129.16",
                                     "169.254.169.254",
                                     "172.16.0.1",
                                     "172.31.255.255",
                                     "192.0.0.192",
                                     "192.0.2.1",
                                     "192.88.99.1",
                                     "192.168.0.1",
                                     "198.18.0.1",
                                     "198.19.255.255",
                                     "198.51.100.7",
                                     "203.0.113.9",
                                     "224.0.0.1",
                                     "239.1.1.1",
                                     "240.0.0.1",
                                     "255.255.255.255",
                                     "::",
                                     "::1",
                                     "::ffff:127.0.0.1",
                                     "::ffff:10.1.2.3",
                                     "::127.0.0.1",
                                     "::10.0.0.1",
                                     "fe80::1",
                                     "febf::1",
                                     "fec0::1",
                                     "fc00::1",
                                     "fd00:ec2::254",
                                     "ff02::1",
                                     "64:ff9b::10.0.0.1",
                                     "64:ff9b::169.254.169.254",
                                     "64:ff9b:1::8.8.8.8",
                                     "2002:7f00:1::1",
                                     "2002:a00:1::1",
                                     "2002:c0a8:1::",
                                     "2001::1",
                                     "2001:0:4136:e378::1",
                                     "2001:db8::1",
                                     "2001:10::1",
                                     "3fff::1",
                                     "100::1",
                                     "5f00::1",
                                     "4000::1"};
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
        if (!is_public(yes[i]))
            fail_msg("%s should be public", yes[i]);
    for (size_t i = 0; i < ARRAY_SIZE(no); i++)
        if (is_public(no[i]))
            fail_msg("%s should not be public", no[i]);
}

static bool allows(const struct proxy_allow *items, size_t n, const char *text)
{
    struct proxy_target t;
    assert_int_equal(proxy_target_parse(text, strlen(text), &t), 0);
    for (size_t i = 0; i < n; i++)
        if (proxy_allow_matches(&items[i], &t))
            return true;
    return false;
}

static void test_list(void **state)
{
    static const char *const specs[] = {"Example.org", "api.example.org:8443", "*.example.net",
                                        "10.0.0.1:5432", "[::1]"};
    struct proxy_allow items[ARRAY_SIZE(specs)];
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++)
        assert_int_equal(proxy_parse_allow(specs[i], &items[i], NULL), 0);

    static const char *const yes[] = {
        "example.org:80",       "EXAMPLE.ORG:443",   "example.org.:443",
        "api.example.org:8443", "a.example.net:443", "a.b.example.net:80",
        "10.0.0.1:5432",        "[::1]:80",          "[::ffff:10.0.0.1]:5432"};
    static const char *const no[] = {"example.org:8080",
                                     "api.example.org:443",
                                     "www.example.org:443",
                                     "example.net:443",
                                     "xexample.net:443",
                                     "a.example.net:22",
                                     "a.example.net.x:443",
                                     "10.0.0.1:80",
                                     "10.0.0.2:5432",
                                     "[::1]:81",
                                     "[::2]:80",
                                     "localhost:80"};
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
        if (!allows(items, ARRAY_SIZE(items), yes[i]))
            fail_msg("%s should be allowed", yes[i]);
    for (size_t i = 0; i < ARRAY_SIZE(no); i++)
        if (allows(items, ARRAY_SIZE(items), no[i]))
            fail_msg("%s should not be allowed", no[i]);
}

static void test_allow_errors(void **state)
{
    static const struct {
        const char *spec, *says;
    } cases[] = {
        {"", "empty"},
        {"https://example.org", "without a scheme"},
        {"example.org/x", "without a scheme"},
        {"me@example.org", "without a user"},
        {"2001:db8::1", "in brackets"},
        {"*", "at the start of a name"},
        {"a.*.org", "at the start of a name"},
        {"*.1.2.3.4", "no subdomains"},
        {"*.", "at the start of a name"},
        {"example.org:http", "from 1 to 65535"},
        {"example.org:70000", "from 1 to 65535"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err = {0};
        struct proxy_allow a;
        assert_int_equal(proxy_parse_allow(cases[i].spec, &a, &err), -EINVAL);
        if (!strstr(err.text, cases[i].says))
            fail_msg("'%s': %s", cases[i].spec, err.text);
    }
}

static int parse(const char *head, struct proxy_request *ret)
{
    const char *why = NULL;
    assert_int_equal(proxy_head_end(head, strlen(head)), strlen(head));
    int r = proxy_request_parse(head, strlen(head), ret, &why);
    if (r < 0)
        assert_non_null(why);
    return r;
}

static void test_request_connect(void **state)
{
    struct proxy_request r;
    assert_int_equal(
        parse("CONNECT Example.org:443 HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\n\r\n",
              &r),
        0);
    assert_true(r.connect);
    assert_string_equal(r.target.host.text, "example.org");
    assert_int_equal(r.target.port, 443);
    assert_int_equal(parse("CONNECT [::1]:80 HTTP/1.0\r\nContent-Length: 0\r\n\r\n", &r), 0);
    assert_string_equal(r.target.host.text, "::1");
}

static void check_forward(const char *head, const char *expected)
{
    struct proxy_request r;
    _cleanup_buf_ struct buf out = BUF_INIT(PROXY_HEAD_MAX);
    assert_int_equal(parse(head, &r), 0);
    assert_int_equal(proxy_request_forward(&r, false, NULL, &out), 0);
    assert_string_equal(buf_cstr(&out), expected);
}

static void test_request_forward(void **state)
{
    check_forward(
        "GET http://Example.org/a?b=c HTTP/1.1\r\nHost: evil.example\r\nAccept: */*\r\n\r\n",
        "GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    check_forward("GET http://example.org:8080 HTTP/1.0\r\n\r\n",
                  "GET / HTTP/1.0\r\nHost: example.org:8080\r\nConnection: close\r\n\r\n");
    check_forward("GET http://[2001:db8::1]?q HTTP/1.1\r\n\r\n",
                  "GET /?q HTTP/1.1\r\nHost: [2001:db8::1]\r\nConnection: close\r\n\r\n");
    check_forward("POST http://h/ HTTP/1.1\r\nConnection: X-Private , "
                  "content-length,Keep-Alive\r\nX-Private: 1\r\n"
                  "Content-Length: 3\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nUpgrade: "
                  "websocket\r\n"
                  "Keep-Alive: 5\r\nX-Public:\t2 \r\n\r\n",
                  "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX-Public: 2\r\nConnection: "
                  "close\r\n\r\n");
}

static void test_request_bad(void **state)
{
    static const char *const cases[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET http://h/\r\n\r\n",
        "GET  http://h/ HTTP/1.1\r\n\r\n",
        "GET http://h/ HTTP/1.1 \r\n\r\n",
        "GET http://h/ HTTP/2.0\r\n\r\n",
        "GET http://h/ http/1.1\r\n\r\n",
        "GET http://h/a b HTTP/1.1\r\n\r\n",
        "GET http://h/\x80 HTTP/1.1\r\n\r\n",
        "GET http://h/\n HTTP/1.1\r\n\r\n",
        "G@T http://h/ HTTP/1.1\r\n\r\n",
        " GET http://h/ HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET https://h/ HTTP/1.1\r\n\r\n",
        "GET ftp://h/ HTTP/1.1\r\n\r\n",
        "GET http:// HTTP/1.1\r\n\r\n",
        "GET http:///x HTTP/1.1\r\n\r\n",
        "GET http://user@h/ HTTP/1.1\r\n\r\n",
        "GET http://user:pw@h/ HTTP/1.1\r\n\r\n",
        "GET http://h:99999/ HTTP/1.1\r\n\r\n",
        "GET http://h:0/ HTTP/1.1\r\n\r\n",
        "GET http://h/#f HTTP/1.1\r\n\r\n",
        "GET http://h\\@g/ HTTP/1.1\r\n\r\n",
        "CONNECT h HTTP/1.1\r\n\r\n",
        "CONNECT http://h:80/ HTTP/1.1\r\n\r\n",
        "CONNECT u@h:443 HTTP/1.1\r\n\r\n",
        "CONNECT h:443 HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
        "CONNECT h:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "connect h:443 HTTP/1.1\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nNo colon\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nA : b\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\n: b\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nA: b\nB: c\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nA: b\rB: c\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nA: \x01\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nContent-Length: \r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
        "GET http://h/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
        "chunked\r\n\r\n",
    };
    struct proxy_request r;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *why = NULL;
        if (proxy_request_parse(cases[i], strlen(cases[i]), &r, &why) != -EBADMSG || !why)
            fail_msg("taken: %s", cases[i]);
    }
    static const char nul[] = "GET http://h/ HTTP/1.1\r\nA: b\0c\r\n\r\n";
    const char *why;
    assert_int_equal(proxy_request_parse(nul, sizeof nul - 1, &r, &why), -EBADMSG);
}

static void test_request_many_headers(void **state)
{
    _cleanup_buf_ struct buf head = BUF_INIT(PROXY_HEAD_MAX);
    buf_append_str(&head, "GET http://h/ HTTP/1.1\r\n");
    for (int i = 0; i < PROXY_HEADERS_MAX; i++)
        buf_append_str(&head, "A: b\r\n");
    struct proxy_request r;
    const char *why;
    size_t n = head.len;
    buf_append_str(&head, "\r\n");
    assert_int_equal(proxy_request_parse((const char *)head.data, head.len, &r, &why), 0);
    head.len = n;
    buf_append_str(&head, "A: b\r\n\r\n");
    assert_int_equal(proxy_request_parse((const char *)head.data, head.len, &r, &why), -EBADMSG);
}

/* Feeds the bytes in pieces of each size and returns how many belong to the body, the same each
 * time. */
static ssize_t scan(const struct proxy_request *r, const char *data, size_t n, bool *ret_done)
{
    ssize_t first = -2;
    for (size_t piece = 1; piece <= n; piece++) {
        struct proxy_body b;
        ssize_t total = 0;
        proxy_body_begin(&b, r);
        for (size_t at = 0; at < n && total >= 0 && !b.done; at += piece) {
            ssize_t used = proxy_body_scan(&b, data + at, n - at < piece ? n - at : piece);
            total = used < 0 ? used : total + used;
        }
        if (first != -2)
            assert_int_equal(total, first);
        first = total;
        *ret_done = b.done;
    }
    return first;
}

static void test_body(void **state)
{
    const struct proxy_request chunked = {.body = PROXY_BODY_CHUNKED};
    const struct proxy_request five = {.body = PROXY_BODY_LENGTH, .body_length = 5},
                               none = {.body = PROXY_BODY_NONE};
    static const struct {
        const char *data;
        ssize_t used;
        bool done;
    } cases[] = {
        {"0\r\n\r\nGET", 5, true},
        {"3\r\nabc\r\n0\r\n\r\nX", 13, true},
        {"3;x=\"y\"\r\nabc\r\n0\r\nA: b\r\n\r\nX", 25, true},
        {"A\r\n0123456789\r\n00\r\n\r\n", 21, true},
        {"3\r\nab", 5, false},
        {"3\nabc\r\n", -EBADMSG, false},
        {"3\r\nabcd\r\n", -EBADMSG, false},
        {"\r\n", -EBADMSG, false},
        {"g\r\n", -EBADMSG, false},
        {"-1\r\n", -EBADMSG, false},
        {"0x3\r\nabc", -EBADMSG, false},
        {"3 \r\nabc", -EBADMSG, false},
        {"ffffffffffffffffff\r\n", -EBADMSG, false},
        {"0\r\nA: b\n\r\n", -EBADMSG, false},
        {"0\r\n\rX", -EBADMSG, false},
    };
    bool done;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(scan(&chunked, cases[i].data, strlen(cases[i].data), &done),
                         cases[i].used);
        if (cases[i].used >= 0)
            assert_int_equal(done, cases[i].done);
    }
    assert_int_equal(scan(&five, "1234567", 7, &done), 5);
    assert_true(done);
    assert_int_equal(scan(&five, "1234", 4, &done), 4);
    assert_false(done);
    assert_int_equal(scan(&none, "12", 2, &done), 0);
}

static void test_body_long_line(void **state)
{
    const struct proxy_request chunked = {.body = PROXY_BODY_CHUNKED};
    static char line[10000];
    struct proxy_body b;
    memset(line, 'x', sizeof line);
    proxy_body_begin(&b, &chunked);
    assert_int_equal(proxy_body_scan(&b, "1;", 2), 2);
    assert_int_equal(proxy_body_scan(&b, line, sizeof line), -EBADMSG);
}

static const struct proxy_upstream *upstream_of(const struct proxy_upstreams *u, const char *where,
                                                bool connect)
{
    struct proxy_target target;
    assert_int_equal(proxy_target_parse(where, strlen(where), &target), 0);
    return proxy_upstreams_find(u, &target, connect);
}

static void test_upstream(void **state)
{
    struct proxy_upstreams u = {.except = "example.org, .inside.net,10.0.0.1 other.org:8080"};
    proxy_upstream_parse("http://ada:p%40ss@Proxy.example.net:3128/", &u.https);
    assert_true(u.https.set && !u.https.unusable);
    assert_string_equal(u.https.target.host.text, "proxy.example.net");
    assert_int_equal(u.https.target.port, 3128);
    assert_string_equal(u.https.authorization, "Basic YWRhOnBAc3M=");
    assert_ptr_equal(upstream_of(&u, "pypi.org:443", true), &u.https);
    assert_null(upstream_of(&u, "pypi.org:80", false)); /* none is set for http */
    static const char *const direct[] = {"example.org:443", "a.example.org:443", "a.inside.net:443",
                                         "10.0.0.1:443",    "other.org:8080",    "localhost:443",
                                         "127.0.0.1:443",   "[::1]:443"};
    for (size_t i = 0; i < ARRAY_SIZE(direct); i++)
        assert_null(upstream_of(&u, direct[i], true));
    assert_non_null(upstream_of(&u, "notexample.org:443", true));
    assert_non_null(upstream_of(&u, "other.org:443", true));
    proxy_upstream_parse("socks5://proxy.example.net", &u.http);
    assert_true(u.http.set && u.http.unusable);
    proxy_upstream_parse("", &u.http);
    assert_false(u.http.set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upstream),
        cmocka_unit_test(test_target_good),
        cmocka_unit_test(test_target_bad),
        cmocka_unit_test(test_public_addresses),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_allow_errors),
        cmocka_unit_test(test_request_connect),
        cmocka_unit_test(test_request_forward),
        cmocka_unit_test(test_request_bad),
        cmocka_unit_test(test_request_many_headers),
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_body_long_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
