/* Looking through bytes: all lengths and places around a block, compared with the plain way to do
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "search/bytes.h"

#define SIZE 100

/* At the very end of its memory, so that a sanitizer sees a read beyond it. */
static uint8_t *exact(const uint8_t *from, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, from, n);
    return copy;
}

static void finds_first_and_last(void **state)
{
    uint8_t text[SIZE];
    for (size_t n = 0; n <= SIZE; n++)
        for (size_t at = 0; at <= n; at++) {
            memset(text, 'a', sizeof text);
            if (at < n)
                text[at] = '\n';
            uint8_t *s = exact(text, n);
            assert_int_equal(bytes_find(s, n, '\n'), at);
            assert_int_equal(bytes_find_last(s, n, '\n'), at);
            free(s);
        }
    assert_int_equal(bytes_find((const uint8_t *)"a\nb\nc", 5, '\n'), 1);
    assert_int_equal(bytes_find_last((const uint8_t *)"a\nb\nc", 5, '\n'), 3);
}

static void counts(void **state)
{
    size_t n = 10000;
    uint8_t *text = malloc(n);
    assert_non_null(text);
    memset(text, '\n', n);
    for (size_t i = 0; i <= n; i += 37)
        assert_int_equal(bytes_count(text, i, '\n'), i);
    assert_int_equal(bytes_count(text, n, 'x'), 0);
    for (size_t i = 0; i < n; i += 3)
        text[i] = 'x';
    assert_int_equal(bytes_count(text, n, 'x'), (n + 2) / 3);
    free(text);
}

static void tells_kinds(void **state)
{
    static const struct {
        uint8_t c;
        unsigned kinds;
    } cases[] = {{0, BYTES_NUL},   {0x80, BYTES_HIGH}, {0xff, BYTES_HIGH},
                 {'\r', BYTES_CR}, {'\n', 0},          {0x7f, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t at = 0; at < SIZE; at++) {
            uint8_t text[SIZE];
            memset(text, 'a', sizeof text);
            text[at] = cases[i].c;
            assert_int_equal(bytes_kinds(text, SIZE), cases[i].kinds);
            assert_int_equal(bytes_kinds(text, at), 0);
        }
}

static size_t plainly(const char *needle, size_t n_needle, const uint8_t *s, size_t n, size_t from,
                      int fold)
{
    for (size_t i = from; i + n_needle <= n; i++) {
        int same = fold ? strncasecmp((const char *)s + i, needle, n_needle)
                        : memcmp(s + i, needle, n_needle);
        if (same == 0)
            return i;
    }
    return n;
}

static void finder_agrees(void **state)
{
    static const char *const needles[] = {
        "a", "ab", "ba", "aab", "abab", "aaaaaaaaaaaaaaaaaaab", "b@[", "zz", "ab`{", "q_function"};
    uint8_t text[300];
    srandom(7);
    for (int round = 0; round < 3000; round++) {
        size_t n = (size_t)random() % sizeof text;
        for (size_t i = 0; i < n; i++)
            text[i] = (uint8_t) "aaabbABAB@`[{z"[random() % 14];
        uint8_t *s = exact(text, n);
        for (size_t i = 0; i < sizeof needles / sizeof *needles; i++)
            for (int fold = 0; fold < 2; fold++) {
                struct finder f;
                finder_init(&f, (const uint8_t *)needles[i], strlen(needles[i]), fold);
                for (size_t from = 0; from <= n; from += 1 + n / 3)
                    assert_int_equal(finder_find(&f, s, n, from),
                                     plainly(needles[i], strlen(needles[i]), s, n, from, fold));
            }
        free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_first_and_last),
        cmocka_unit_test(counts),
        cmocka_unit_test(tells_kinds),
        cmocka_unit_test(finder_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
