/*
 * Patterns: however a pattern is run, it finds the lines that match when each is matched by itself.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "search/search.h"

static struct matcher *make(const char *text, const struct pattern_options *o, struct pattern **p)
{
    struct error err = {0};
    struct matcher *m;
    if (pattern_compile(text, strlen(text), o, p, &err) < 0)
        return NULL;
    assert_int_equal(matcher_new(*p, &m), 0);
    return m;
}

/* The numbers of the lines that match, as text. */
static void lines(struct matcher *m, const char *text, char *to, size_t size)
{
    size_t n = strlen(text), at = 0, used = 0;
    struct hit h;
    unsigned kinds = text_kinds((const uint8_t *)text, n);
    to[0] = 0;
    while (matcher_next(m, (const uint8_t *)text, n, kinds, at, &h) > 0) {
        assert_true(h.line >= at && h.match >= h.line && h.match_end >= h.match);
        assert_true(h.match <= h.line_end && h.next > at && h.next <= n);
        size_t number = 1;
        for (size_t i = 0; i < h.line; i++)
            number += text[i] == '\n';
        used += (size_t)snprintf(to + used, size - used, "%zu ", number);
        at = h.next;
    }
}

static void finds_lines(void **state)
{
    static const struct {
        const char *pattern;
        bool literal, ignore_case;
        const char *text, *lines;
    } cases[] = {
        {"b", false, false, "a\nb\nc\nb", "2 4 "},
        {"^$", false, false, "a\n\nb\n", "2 "},
        {"x*", false, false, "a\nb\n", "1 2 "},
        {"x*", false, false, "a\nb", "1 2 "},
        {"$", false, false, "\n", "1 "},
        {"a$", false, false, "a\r\nb\r\n", "1 "},
        {"a\\r$", false, false, "a\r\na\n", "1 "},
        {"a\\s+b", false, false, "a\nb\na b\n", "3 "},
        {"a[^x]b", false, false, "a\nb\na b\n", "3 "},
        {"(?s)a.b", false, false, "a\nb\na b\n", "3 "},
        {"\\Aa", false, false, "ba\na\n", "2 "},
        {"a\\z", false, false, "ab\na\n", "2 "},
        {"foo(?!\\s*bar)", false, false, "foo\nbar\nfoo bar\n", "1 "},
        {"a.c", true, false, "abc\na.c\n", "2 "},
        {"A.C", true, true, "abc\na.c\n", "2 "},
        {"needle", false, true, "Needle\nNEEDLE\nneedl\n", "1 2 "},
        {"(?i)needle", false, false, "Needle\nNEEDLE\nneedl\n", "1 2 "},
        {"kiss", false, true, "\xe2\x84\xaaiss\nKISS\n", "1 2 "}, /* the Kelvin sign is a K */
        {"stra\xc3\x9f"
         "e",
         false, true,
         "STRA\xc3\x9f"
         "E\n",
         "1 "},
        {"\xc3\x89t\xc3\x89", true, true, "\xc3\xa9t\xc3\xa9\n", "1 "},
        {"a.b", false, false,
         "a\xc3\xa9"
         "b\n",
         "1 "},
        {"\\w\\w", false, false, "\xc3\xa9\xc3\xa9\n", "1 "},
        {"a.b", false, false,
         "a\xff"
         "b\na-b\n",
         "2 "},
        {"ab|cd|ef", false, false, "xef\nx\nab cd\n", "1 3 "},
        {"a(?=\\n)", false, false, "a", NULL},
        {"a\\nb", false, false, "a", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pattern *p = NULL;
        struct pattern_options o = {cases[i].literal, cases[i].ignore_case};
        struct matcher *m = make(cases[i].pattern, &o, &p);
        char got[200];
        assert_int_equal(m != NULL, cases[i].lines != NULL);
        if (!m)
            continue;
        lines(m, cases[i].text, got, sizeof got);
        if (strcmp(got, cases[i].lines) != 0)
            fail_msg("%s: lines %s instead of %s", cases[i].pattern, got, cases[i].lines);
        matcher_free(m);
        pattern_free(p);
    }
}

static void reference(pcre2_code *code, const char *text, char *to, size_t size)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    size_t used = 0, number = 1;
    to[0] = 0;
    for (const char *at = text; *at; number++) {
        size_t n = strcspn(at, "\n"), shown = n > 0 && at[n - 1] == '\r' ? n - 1 : n;
        if (pcre2_match(code, (PCRE2_SPTR)at, shown, 0, 0, data, NULL) >= 0)
            used += (size_t)snprintf(to + used, size - used, "%zu ", number);
        at += n + (at[n] == '\n');
    }
    pcre2_match_data_free(data);
}

static void every_way_says_the_same(void **state)
{
    static const char *const pieces[] = {
        "a",     "b",   "ab",   "ba",    "k",      "\xc3\xa9", ".",     "\\s", "\\S", "\\w", "\\W",
        "\\d",   "\\D", "[^a]", "[a b]", "[^\\s]", "[\\sx]",   "[^]b]", "\\b", "\\B", "^",   "$",
        "(",     ")",   "(?:",  "(?=",   "(?!",    "(?<!a)",   "|",     "*",   "+",   "?",   "{2}",
        "{0,1}", "*?",  "++",   "(?>",   "\\1",    "\\h",      "\\H",   "\\N", "\\Z", "\\A", "x"};
    static const char *const letters[] = {"a", "a",  "b",  "b",  "ab", "k",       " ",
                                          "x", "\n", "\n", "\n", "\r", "\xc3\xa9"};
    unsigned compiled = 0;
    srandom(11);
    for (int round = 0; round < 60000; round++) {
        char expression[200] = "", text[120], got[400], want[400];
        for (long k = 1 + random() % 7; k > 0; k--)
            strncat(expression, pieces[(size_t)random() % (sizeof pieces / sizeof *pieces)],
                    sizeof expression - strlen(expression) - 1);
        text[0] = 0;
        for (long k = random() % 40; k > 0; k--)
            strncat(text, letters[random() % (round % 3 == 0 ? 13 : 11)],
                    sizeof text - strlen(text) - 1);
        struct pattern_options o = {.ignore_case = round % 2};
        struct pattern *p = NULL;
        struct matcher *m = make(expression, &o, &p);
        if (!m)
            continue;
        int code;
        size_t offset;
        pcre2_code *c = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF |
                                          (o.ignore_case ? PCRE2_CASELESS : 0),
                                      &code, &offset, NULL);
        assert_non_null(c);
        lines(m, text, got, sizeof got);
        reference(c, text, want, sizeof want);
        if (strcmp(got, want) != 0)
            fail_msg("/%s/%s on '%s': lines %s instead of %s", expression, o.ignore_case ? "i" : "",
                     text, got, want);
        compiled++;
        pcre2_code_free(c);
        matcher_free(m);
        pattern_free(p);
    }
    assert_true(compiled > 5000);
}

static void refuses(void **state)
{
    static const char *const bad[][2] = {{"(a", "parenthesis"},
                                         {"a**b(", "at offset"},
                                         {"[z-a]", "range out of order"},
                                         {"\\C", "\\C"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pattern *p = NULL;
        struct error err = {0};
        assert_int_equal(
            pattern_compile(bad[i][0], strlen(bad[i][0]), &(struct pattern_options){0}, &p, &err),
            -EINVAL);
        if (!strstr(err.text, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], err.text);
    }
    struct error err = {0};
    struct pattern *p = NULL;
    char *huge = malloc(PATTERN_MAX + 2);
    memset(huge, 'a', PATTERN_MAX + 1);
    assert_int_equal(pattern_compile(huge, PATTERN_MAX + 1, &(struct pattern_options){0}, &p, &err),
                     -EINVAL);
    assert_int_equal(pattern_compile("", 0, &(struct pattern_options){0}, &p, &err), -EINVAL);
    free(huge);
}

static void gives_up(void **state)
{
    static const char *const patterns[] = {"(a+)+$", "(a|a)*b$", "(?:a?){40}a{40}b", "^(a+)*\\1b"};
    const char *text = "x\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac\n";
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct pattern *p = NULL;
        struct hit h = {0};
        struct matcher *m = make(patterns[i], &(struct pattern_options){0}, &p);
        assert_non_null(m);
        int r = matcher_next(m, (const uint8_t *)text, strlen(text), 0, 0, &h);
        if (r == -E2BIG) {
            assert_int_equal(h.line, 2);
            assert_non_null(matcher_error(m));
        } else {
            assert_int_equal(r, 0); /* it was clever enough */
        }
        if (i == 0)
            assert_int_equal(r, -E2BIG);
        matcher_free(m);
        pattern_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_lines),
        cmocka_unit_test(every_way_says_the_same),
        cmocka_unit_test(refuses),
        cmocka_unit_test(gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
