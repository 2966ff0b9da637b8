/* The parts of the server that need no connection: addresses, names, ranges, events, the pool. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server.h"
#include "sse.h"
#include "banned.h"

/* Each schema of each row is JSON, and each operation has a name of its own. */
static void test_tables_can_be_made_ready(void **state)
{
    struct dispatch *d = NULL;
    struct error err = {0};
    if (dispatch_new(&d, &err) < 0)
        fail_msg("%s", err.text);
    dispatch_free(d);
    for (size_t t = 0; ROUTE_TABLES[t]; t++)
        for (const struct route *r = ROUTE_TABLES[t]; r->method; r++) {
            json_t *output = r->output ? json_loads(r->output, 0, NULL) : NULL;
            if (r->output && !output)
                fail_msg("the output of %s is not JSON", r->operation);
            json_decref(output);
            assert_true(r->run && r->status && r->summary && r->tag);
        }
    for (const struct pair *s = API_SCHEMAS; s->name; s++) {
        json_t *schema = json_loads(s->value, 0, NULL);
        if (!schema)
            fail_msg("the schema %s is not JSON", s->name);
        json_decref(schema);
    }
}

static void test_addresses_to_listen_on(void **state)
{
    static const struct {
        const char *text, *host, *port;
    } CASES[] = {
        {"127.0.0.1:8642", "127.0.0.1", "8642"},
        {"[::1]:0", "::1", "0"},
        {":80", "", "80"},
        {"a.example:65535", "a.example", "65535"},
        {"localhost", NULL, NULL},
        {"localhost:", NULL, NULL},
        {"localhost:65536", NULL, NULL},
        {"localhost:x", NULL, NULL},
        {"::1:80", NULL, NULL},
        {"localhost:1x", NULL, NULL},
        {"[::1]", NULL, NULL},
        {"localhost:-1", NULL, NULL},
        {"localhost:000080", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        char host[64];
        const char *port;
        struct error err = {0};
        int r = listen_parse(CASES[i].text, host, sizeof host, &port, &err);
        if ((r == 0) != (CASES[i].host != NULL))
            fail_msg("'%s': %s", CASES[i].text, err.text);
        if (r == 0) {
            assert_string_equal(host, CASES[i].host);
            assert_string_equal(port, CASES[i].port);
        }
    }
}

static void test_hosts(void **state)
{
    const struct serve_options o = {
        .listen = "own.example:80", .hosts = {"other.example"}, .n_hosts = 1};
    const struct serve s = {.options = &o};
    static const char *const GOOD[] = {"own.example", "OTHER.example:1", "localhost", "10.0.0.1",
                                       "10.0.0.1:80", "[::1]:9",         "[fe80::1]"};
    static const char *const BAD[] = {"",
                                      "evil.example",
                                      "own.example.evil",
                                      "xown.example",
                                      "localhost:x",
                                      "10.0.0.1.evil",
                                      "[::1",
                                      "[::1]x",
                                      "::1",
                                      "10.0.0",
                                      "own.example@evil"};
    for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++)
        if (!auth_host_allowed(&s, GOOD[i]))
            fail_msg("'%s' is refused", GOOD[i]);
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
        if (auth_host_allowed(&s, BAD[i]))
            fail_msg("'%s' is allowed", BAD[i]);
}

static void test_ranges(void **state)
{
    static const struct {
        const char *text;
        uint64_t size;
        int r;
        uint64_t first, n;
    } CASES[] = {
        {"bytes=0-0", 10, 1, 0, 1},
        {"bytes=2-", 10, 1, 2, 8},
        {"bytes=-3", 10, 1, 7, 3},
        {"bytes=-30", 10, 1, 0, 10},
        {"bytes=5-100", 10, 1, 5, 5},
        {"bytes=10-", 10, -1, 0, 0},
        {"bytes=0-", 0, -1, 0, 0},
        {"bytes=-0", 10, -1, 0, 0},
        {"bytes=5-4", 10, 0, 0, 0},
        {"bytes=0-1,3-4", 10, 0, 0, 0},
        {"bytes= 1-2", 10, 0, 0, 0},
        {"bytes=--1", 10, 0, 0, 0},
        {"lines=1-2", 10, 0, 0, 0},
        {"bytes=", 10, 0, 0, 0},
        {"bytes=-", 10, 0, 0, 0},
        {"bytes=1-2-3", 10, 0, 0, 0},
        {"bytes=99999999999999999999-", 10, -1, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
        uint64_t first = 0, n = 0;
        int r = range_parse(CASES[i].text, CASES[i].size, &first, &n);
        if (r != CASES[i].r || first != CASES[i].first || n != CASES[i].n)
            fail_msg("'%s' of %llu: %d %llu %llu", CASES[i].text, (unsigned long long)CASES[i].size,
                     r, (unsigned long long)first, (unsigned long long)n);
    }
    assert_int_equal(range_parse(NULL, 10, &(uint64_t){0}, &(uint64_t){0}), 0);
}

/* What is appended is read again as it was, but that all ends of lines become \n. */
static void test_events_are_framed(void **state)
{
    static const char *const TEXTS[][2] = {
        {"", ""},         {"{\"a\":1}", NULL}, {"a\nb", NULL},   {"a\r\nb", "a\nb"},
        {"a\rb", "a\nb"}, {"a\n", "a\n"},      {"\n\n", "\n\n"}, {"data: x\n\nid: 9", NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
        _cleanup_buf_ struct buf out = BUF_INIT(4096);
        assert_int_equal(sse_append(&out, i + 1, "kind", TEXTS[i][0], strlen(TEXTS[i][0])), 0);
        _cleanup_sse_ struct sse s = SSE_INIT(4096);
        const char *data = (const char *)out.data;
        size_t n = out.len;
        struct sse_event event;
        assert_int_equal(sse_take(&s, &data, &n, &event), 1);
        assert_string_equal(event.type, "kind");
        assert_string_equal(event.data, TEXTS[i][1] ? TEXTS[i][1] : TEXTS[i][0]);
        assert_int_equal(strtol(sse_last_id(&s), NULL, 10), (long)i + 1);
        assert_int_equal(sse_take(&s, &data, &n, &event), 0);
    }
}

struct hold {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned running;
    bool go;
};

static void hold_run(void *data)
{
    struct hold *h = data;
    LOCKED(&h->lock);
    h->running++;
    pthread_cond_broadcast(&h->changed);
    while (!h->go)
        pthread_cond_wait(&h->changed, &h->lock);
}

/* Users cannot take the last threads; nothing is queued; all end. */
static void test_pool_is_bounded(void **state)
{
    struct hold h = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false};
    struct pool *p = pool_new();
    unsigned users = 0, workers = 0;
    while (pool_submit(p, false, hold_run, &h) == 0)
        users++;
    while (pool_submit(p, true, hold_run, &h) == 0)
        workers++;
    assert_int_equal(users, HANDLERS_MAX - HANDLERS_RESERVED);
    assert_int_equal(workers, HANDLERS_RESERVED);
    pthread_mutex_lock(&h.lock);
    while (h.running < HANDLERS_MAX)
        pthread_cond_wait(&h.changed, &h.lock);
    h.go = true;
    pthread_cond_broadcast(&h.changed);
    pthread_mutex_unlock(&h.lock);
    assert_true(pool_end(p));
    assert_int_equal(pool_submit(p, true, hold_run, &h), -EAGAIN);
    pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_can_be_made_ready),
        cmocka_unit_test(test_addresses_to_listen_on),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_events_are_framed),
        cmocka_unit_test(test_pool_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
