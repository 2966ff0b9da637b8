/* Calls: their order, the cache, and what becomes of input and results; with tools of this test in
 * place of the table's, and no box. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "session.h"

static atomic_int inside, most_inside, runs;
static pthread_barrier_t meeting;

static int meet(struct tool_call *c, struct error *err)
{
    pthread_barrier_wait(&meeting); /* comes back only if as many run at once */
    return 0;
}

static int be_alone(struct tool_call *c, struct error *err)
{
    int now = ++inside;
    if (now > most_inside)
        most_inside = now;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    inside--;
    buf_printf(&c->result->text, "%d", ++runs);
    return 0;
}

static int count(struct tool_call *c, struct error *err)
{
    buf_printf(&c->result->text, "%d", ++runs);
    c->result->data = json_pack("{s:i}", "runs", (int)runs);
    return 0;
}

static int run_out(struct tool_call *c, struct error *err)
{
    runs++;
    c->result->data = json_object();
    return error_set(err, ENOSPC, "no room\xff");
}

static int linger(struct tool_call *c, struct error *err)
{
    c->result->lingers = true;
    return count(c, err);
}

#define ANY SCHEMA({"type" : "object"})

static const struct tool MEET = {"meet", "", "", ANY, NULL, TOOL_READS, meet};
static const struct tool ALONE = {"alone", "", "", ANY, NULL, TOOL_CHANGES, be_alone};
static const struct tool COUNT = {"count", "",
                                  "",      SCHEMA({"type" : "object", "required" : ["x"]}),
                                  NULL,    TOOL_READS | TOOL_CACHED,
                                  count};
static const struct tool FAIL = {"fail", "", "", ANY, NULL, TOOL_READS | TOOL_CACHED, run_out};
static const struct tool CHANGE = {"change", "", "", ANY, NULL, TOOL_CHANGES, count};
static const struct tool RUNS = {"runs", "", "", ANY, NULL, TOOL_RUNS, count};
static const struct tool LINGER = {"linger", "", "", ANY, NULL, TOOL_RUNS, linger};
static const struct tool *const OWN[] = {&MEET, &ALONE, &COUNT, &FAIL, &CHANGE, &RUNS, &LINGER};

static const struct tool *find(struct tool_source *s, struct tool_session *session,
                               const char *name, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(OWN); i++)
        if (strcmp(OWN[i]->name, name) == 0)
            return OWN[i];
    if (strcmp(name, "broken") == 0)
        error_set(err, EIO, "it is broken");
    return NULL;
}

static void nothing(struct tool_source *s) {}

static struct tool_source source = {.find = find, .free = nothing};

static struct tool_session *open_session(void)
{
    struct tool_session *s = NULL;
    assert_int_equal(tool_session_new(NULL, &s, NULL), 0);
    assert_int_equal(tool_session_add(s, &source), 0);
    runs = inside = most_inside = 0;
    return s;
}

/* Calls, checks how far it came, and gives the text in a static buffer. */
static const char *call(struct tool_session *s, const char *name, const char *input, int reached)
{
    static char text[256];
    struct tool_result r;
    json_t *in = json_loads(input, 0, NULL);
    struct tool_request q = {.name = name, .input = in, .cancel = -1};
    assert_int_equal(tool_call(s, &q, &r), reached);
    snprintf(text, sizeof text, "%s%s%s", r.failed ? "failed: " : "", r.cached ? "cached: " : "",
             r.text.len ? buf_cstr(&r.text) : "");
    if (r.failed)
        assert_null(r.data);
    json_decref(in);
    tool_result_free(&r);
    return text;
}

static void test_reach(void **state)
{
    struct tool_session *s = open_session();
    assert_string_equal(call(s, "nope", "{}", -ENOENT),
                        "failed: there is no tool 'nope'; `hutch tool --list` shows all");
    assert_string_equal(
        call(s, "git_push", "{}", -ENOENT), /* nobody said what it may do on the host */
        "failed: there is no tool 'git_push'; `hutch tool --list` shows all");
    assert_string_equal(call(s, "broken", "{}", -EIO), "failed: it is broken");
    assert_string_equal(call(s, "count", "{}", -EINVAL), "failed: input.x: is missing");
    assert_int_equal(runs, 0);
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "1");
    assert_string_equal(call(s, "fail", "{}", 0), "failed: no room\xef\xbf\xbd");
    tool_session_free(s);
}

static void test_cache(void **state)
{
    struct tool_session *s = open_session();
    struct tool_cache *cache = tool_cache_new(1 << 20);
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "1");
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "2"); /* no cache */
    tool_session_set_cache(s, cache);
    assert_string_equal(call(s, "count", "{\"x\":1,\"y\":2}", 0), "3");
    assert_string_equal(call(s, "count", "{\"y\":2,\"x\":1}", 0),
                        "cached: 3"); /* members in any order */
    assert_string_equal(call(s, "count", "{\"x\":2}", 0), "4");
    assert_string_equal(call(s, "fail", "{}", 0), "failed: no room\xef\xbf\xbd");
    call(s, "fail", "{}", 0);
    assert_int_equal(runs, 6); /* failures are not kept */
    tool_session_free(s);
    tool_cache_free(cache);
}

/* Where nobody else changes the box, the cache is good again after every change; but not once
 * something runs on. */
static void test_cache_alone(void **state)
{
    struct tool_session *s = open_session();
    struct tool_cache *cache = tool_cache_new(1 << 20);
    tool_session_set_cache(s, cache);
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "1");
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "cached: 1");
    assert_string_equal(call(s, "change", "{}", 0), "2");
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "3");
    assert_string_equal(call(s, "runs", "{}", 0), "4");
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "5");
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "cached: 5");
    assert_string_equal(call(s, "linger", "{}", 0), "6");
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "7");
    assert_string_equal(call(s, "change", "{}", 0), "8");
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "9");
    assert_string_equal(call(s, "count", "{\"x\":1}", 0), "10");
    tool_session_free(s);
    tool_cache_free(cache);
}

static void *finish(void *data)
{
    struct tool_result r;
    tool_finish(data, &r);
    int number = atoi(buf_cstr(&r.text));
    tool_result_free(&r);
    return (void *)(intptr_t)number;
}

/* Places are taken in one thread, and kept whichever thread comes first. What was cancelled
 * meanwhile, or cannot be called, leaves its place. */
static void test_two_steps(void **state)
{
    struct tool_session *s = open_session();
    enum { N = 20 };
    struct tool_request q[N];
    struct tool_turn *turns[N];
    pthread_t threads[N];
    int cancelled = eventfd(1, EFD_CLOEXEC);
    for (size_t i = 0; i < N; i++) {
        q[i] = (struct tool_request){.name = i % 4 == 2 ? "nope" : "alone",
                                     .cancel = i % 4 == 3 ? cancelled : -1};
        assert_int_equal(tool_begin(s, &q[i], &turns[i]), 0);
    }
    for (size_t i = N; i-- > 0;)
        assert_int_equal(pthread_create(&threads[i], NULL, finish, turns[i]), 0);
    for (size_t i = 0, ran = 0; i < N; i++) {
        void *number;
        pthread_join(threads[i], &number);
        assert_int_equal((intptr_t)number, i % 4 < 2 ? ++ran : 0);
    }
    assert_int_equal(most_inside, 1);
    close(cancelled);
    tool_session_free(s);
}

static void test_cache_is_bounded(void **state)
{
    struct tool_cache *cache = tool_cache_new(64 << 10);
    struct tool_result r = TOOL_RESULT_INIT, found;
    uint8_t key[CACHE_KEY_SIZE] = {0};
    unsigned kept = 0;
    memset(buf_reserve(&r.text, 4096), 'x', 4096);
    r.text.len = 4096;
    for (unsigned i = 0; i < 100; i++) {
        key[0] = (uint8_t)i;
        tool_cache_add(cache, key, &r);
        key[0] = 0; /* the first one is used again and again, and stays */
        assert_true(tool_cache_find(cache, key, &found));
        tool_result_free(&found);
    }
    for (unsigned i = 0; i < 100; i++) {
        key[0] = (uint8_t)i;
        if (tool_cache_find(cache, key, &found)) {
            kept++;
            tool_result_free(&found);
        }
    }
    assert_in_range(kept, 10, 16);
    memset(buf_reserve(&r.text, 32 << 10), 'x', 32 << 10);
    r.text.len += 32 << 10;
    key[1] = 1;
    tool_cache_add(cache, key, &r); /* more than a quarter of it */
    assert_false(tool_cache_find(cache, key, &found));
    tool_result_free(&r);
    tool_cache_free(cache);
}

struct running_call {
    struct tool_turn *turn;
    struct tool_result *ret;
    pthread_t thread;
};

static void *finish_call(void *data)
{
    struct running_call *c = data;
    tool_finish(c->turn, c->ret);
    return NULL;
}

/* As a frontend does that receives calls in one thread and runs each in another. */
static void call_in_threads(struct tool_session *s, const struct tool_request *q, size_t n,
                            struct tool_result *ret)
{
    struct running_call calls[64];
    assert_in_range(n, 1, ARRAY_SIZE(calls));
    for (size_t i = 0; i < n; i++) {
        calls[i].ret = &ret[i];
        assert_int_equal(tool_begin(s, &q[i], &calls[i].turn), 0);
    }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&calls[i].thread, NULL, finish_call, &calls[i]), 0);
    for (size_t i = 0; i < n; i++)
        pthread_join(calls[i].thread, NULL);
}

#define MANY 6

static void test_readers_run_together(void **state)
{
    struct tool_session *s = open_session();
    struct tool_request q[MANY];
    struct tool_result r[MANY];
    pthread_barrier_init(&meeting, NULL, MANY);
    for (size_t i = 0; i < MANY; i++)
        q[i] = (struct tool_request){.name = "meet", .cancel = -1};
    call_in_threads(s, q, MANY, r);
    for (size_t i = 0; i < MANY; i++)
        tool_result_free(&r[i]);
    pthread_barrier_destroy(&meeting);
    tool_session_free(s);
}

static void test_others_run_in_order(void **state)
{
    struct tool_session *s = open_session();
    enum { N = 40 };
    struct tool_request q[N];
    struct tool_result r[N];
    for (size_t i = 0; i < N; i++)
        q[i] = (struct tool_request){.name = i % 5 == 4 ? "fail" : "alone", .cancel = -1};
    call_in_threads(s, q, N, r);
    assert_int_equal(most_inside, 1);
    for (size_t i = 0; i < N; i++) {
        char want[16];
        snprintf(want, sizeof want, "%zu", i + 1);
        assert_int_equal(r[i].failed, i % 5 == 4);
        if (!r[i].failed)
            assert_string_equal(buf_cstr(&r[i].text), want);
        tool_result_free(&r[i]);
    }
    tool_session_free(s);
}

/* Who only looks does not wait for ever behind a call that takes long. */
static void test_patience(void **state)
{
    struct tool_session *s = open_session();
    struct tool_request slow = {.name = "meet", .cancel = -1},
                        look = {.name = "alone", .cancel = -1, .patience_ms = 20};
    struct tool_result first, second;
    struct tool_turn *before = NULL;
    assert_int_equal(tool_begin(s, &slow, &before), 0); /* it has its place, and does not end */
    assert_int_equal(tool_call(s, &look, &second), 0);
    assert_string_equal(buf_cstr(&second.text), "1");
    pthread_barrier_init(&meeting, NULL, 1);
    assert_int_equal(tool_finish(before, &first), 0);
    pthread_barrier_destroy(&meeting);
    tool_result_free(&first);
    tool_result_free(&second);
    tool_session_free(s);
}

static void check_text(const char *bytes, size_t n, const char *want)
{
    _cleanup_buf_ struct buf b = BUF_INIT(100);
    text_append(&b, bytes, n);
    assert_string_equal(b.len ? buf_cstr(&b) : "", want);
    json_t *j = text_json(bytes, n);
    assert_non_null(j);
    json_decref(j);
}

static void test_text(void **state)
{
    check_text("", 0, "");
    check_text("a\xc3\xa4", 3, "a\xc3\xa4");
    check_text("\xff", 1, "\xef\xbf\xbd");
    check_text("a\xc3", 2, "a\xef\xbf\xbd");
    check_text("a\0b", 3,
               "a\xe2\x90\x80"
               "b");
    check_text("\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* a surrogate */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reach),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_cache_alone),
        cmocka_unit_test(test_cache_is_bounded),
        cmocka_unit_test(test_two_steps),
        cmocka_unit_test(test_readers_run_together),
        cmocka_unit_test(test_others_run_in_order),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
