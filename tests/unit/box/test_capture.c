/* Kept output: exactly the head and the tail of the stream, for every limit, length and way to cut
 * it into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "box.h"

static char stream[4096];

static int make_stream(void **state)
{
    for (size_t i = 0; i < sizeof stream; i++)
        stream[i] = (char)(i * 31 + i / 255);
    return 0;
}

static void free_capture(struct box_capture *c)
{
    buf_free(&c->head);
    buf_free(&c->tail);
}

/* The plain rule: up to limit bytes are kept, the larger half from the front, the rest from the
 * end. */
static void assert_kept(const struct box_capture *c, size_t limit, size_t n)
{
    size_t tail_most = limit / 2, head = n < limit - tail_most ? n : limit - tail_most;
    size_t tail = n - head < tail_most ? n - head : tail_most;
    assert_int_equal(c->total, n);
    assert_int_equal(c->head.len, head);
    assert_int_equal(c->tail.len, tail);
    if (head)
        assert_memory_equal(c->head.data, stream, head);
    if (tail)
        assert_memory_equal(c->tail.data, stream + n - tail, tail);
}

static void check(size_t limit, size_t n, size_t piece)
{
    _cleanup_(free_capture) struct box_capture c;
    capture_init(&c, limit);
    for (size_t at = 0; at < n; at += piece)
        assert_int_equal(capture_add(&c, stream + at, n - at < piece ? n - at : piece), 0);
    capture_finish(&c);
    assert_kept(&c, limit, n);
}

static void test_all_small_cases(void **state)
{
    for (size_t limit = 0; limit < 12; limit++)
        for (size_t n = 0; n < 50; n++)
            for (size_t piece = 1; piece < 30; piece++)
                check(limit, n, piece);
}

static void test_random_pieces(void **state)
{
    srand(1);
    for (int i = 0; i < 20000; i++) {
        _cleanup_(free_capture) struct box_capture c;
        size_t limit = (size_t)rand() % 300, n = 0;
        capture_init(&c, limit);
        while (rand() % 20 && n < sizeof stream - 200) {
            size_t piece = (size_t)rand() % (rand() % 4 ? 20 : 200);
            assert_int_equal(capture_add(&c, stream + n, piece), 0);
            n += piece;
        }
        capture_finish(&c);
        assert_kept(&c, limit, n);
    }
}

/* However much comes, not more is held than twice the limit. */
static void test_memory_is_bounded(void **state)
{
    _cleanup_(free_capture) struct box_capture c;
    capture_init(&c, 1000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(capture_add(&c, stream, sizeof stream), 0);
    assert_true(c.head.cap + c.tail.cap <= 2000);
    assert_int_equal(c.total, 10000 * sizeof stream);
}

static void test_the_tail_alone(void **state)
{
    for (size_t limit = 0; limit < 12; limit++)
        for (size_t n = 0; n < 50; n++)
            for (size_t piece = 1; piece < 30; piece++) {
                _cleanup_(free_capture) struct box_capture c;
                size_t kept = n < limit ? n : limit;
                capture_init_tail(&c, limit);
                for (size_t at = 0; at < n; at += piece)
                    assert_int_equal(capture_add(&c, stream + at, n - at < piece ? n - at : piece),
                                     0);
                capture_finish(&c);
                assert_int_equal(c.total, n);
                assert_int_equal(c.tail.len, kept);
                if (kept)
                    assert_memory_equal(c.tail.data, stream + n - kept, kept);
            }
}

/* A limit of the size that a person may ask for costs nothing before there is output. */
static void test_large_limits_cost_nothing(void **state)
{
    _cleanup_(free_capture) struct box_capture c;
    capture_init(&c, INT64_MAX);
    assert_int_equal(capture_add(&c, stream, 100), 0);
    capture_finish(&c);
    assert_kept(&c, (size_t)INT64_MAX, 100);
    assert_true(c.head.cap + c.tail.cap < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_small_cases),   cmocka_unit_test(test_random_pieces),
        cmocka_unit_test(test_memory_is_bounded), cmocka_unit_test(test_large_limits_cost_nothing),
        cmocka_unit_test(test_the_tail_alone),
    };
    return cmocka_run_group_tests(tests, make_stream, NULL);
}
