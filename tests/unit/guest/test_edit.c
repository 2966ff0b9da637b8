/* What edit_file does with a text: finding, replacing, and explaining what is near. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "edit/edit.h"

static struct span b(const char *s)
{
    return (struct span){(const uint8_t *)s, strlen(s)};
}

static struct edit edit(const char *old, const char *new, bool all)
{
    return (struct edit){b(old), b(new), all};
}

static void expect_edited(const char *text, struct edit e, const char *want, uint64_t count)
{
    _cleanup_buf_ struct buf out = BUF_INIT(EDIT_TEXT_MAX);
    struct edit_match m;
    assert_int_equal(edit_apply(b(text), &e, &out, &m), 0);
    assert_string_equal(buf_cstr(&out), want);
    assert_int_equal(m.count, count);
}

static void expect_refused(const char *text, struct edit e, int r, struct edit_match *m)
{
    _cleanup_buf_ struct buf out = BUF_INIT(EDIT_TEXT_MAX);
    assert_int_equal(edit_apply(b(text), &e, &out, m), r);
}

static void test_replaces_the_only_place(void **state)
{
    expect_edited("one two three\n", edit("two", "2", false), "one 2 three\n", 1);
    expect_edited("x", edit("x", "", false), "", 1);
    expect_edited("a\nb\n", edit("b\n", "b\nc\n", false), "a\nb\nc\n", 1);
}

static void test_replaces_all(void **state)
{
    expect_edited("a.a.a", edit("a", "bb", true), "bb.bb.bb", 3);
    expect_edited("aaa", edit("aa", "x", true), "xa", 1);
}

static void test_several_places_are_refused_with_their_lines(void **state)
{
    struct edit_match m = {0};
    expect_refused("x\ny\nx\n\nx", edit("x", "z", false), -ENOTUNIQ, &m);
    assert_int_equal(m.count, 3);
    assert_int_equal(m.line[0], 1);
    assert_int_equal(m.line[1], 3);
    assert_int_equal(m.line[2], 5);
    expect_refused("aaa", edit("aa", "x", false), -ENOTUNIQ, &m); /* they overlap */
    assert_int_equal(m.count, 2);
}

static void test_nothing_found_is_refused(void **state)
{
    struct edit_match m = {0};
    expect_refused("", edit("x", "y", false), -ENOENT, &m);
    expect_refused("abc", edit("abcd", "y", true), -ENOENT, &m);
}

static void test_line_endings_are_those_of_the_text(void **state)
{
    expect_edited("a\r\nb\r\nc\r\n", edit("a\nb\n", "1\n2\n3\n", false), "1\r\n2\r\n3\r\nc\r\n", 1);
    expect_edited("a\r\nb\r\n", edit("b", "b\nc", false), "a\r\nb\r\nc\r\n", 1);
    expect_edited("a\nb\nc\n", edit("a\r\nb", "1\r\n2", false), "1\n2\nc\n", 1);
    /* A text with both kinds is left as it is. */
    expect_edited("a\r\nb\nc\n", edit("b", "b\nb", false), "a\r\nb\nb\nc\n", 1);
}

static void test_a_text_that_gets_too_large_is_refused(void **state)
{
    size_t n = 64u << 10;
    char *text = malloc(n + 1), longer[1100];
    struct edit_match m = {0};
    assert_non_null(text);
    memset(text, 'a', n);
    memset(longer, 'b', sizeof longer - 1);
    text[n] = longer[sizeof longer - 1] = 0;
    expect_refused(text, edit("a", longer, true), -E2BIG, &m);
    free(text);
}

static void expect_folded(const char *in, const char *out)
{
    _cleanup_buf_ struct buf folded = BUF_INIT(4096);
    struct span s = b(in);
    while (s.n > 0) {
        struct folded f = fold_at(s, 0);
        assert_true(f.used > 0 && f.used <= s.n);
        buf_append(&folded, f.bytes, f.n);
        s = span_part(s, f.used, s.n);
    }
    assert_string_equal(buf_cstr(&folded), out);
}

static void test_folds_what_is_confused(void **state)
{
    expect_folded("A b\tC\r\n", "abc");
    expect_folded("‘x’ “y” `z` \"w\"", "'x''y''z''w'");
    expect_folded("1–2—3−4", "1-2-3-4");
    expect_folded("a\xc2\xa0"
                  "b\xe2\x80\x8b"
                  "c",
                  "abc");
    expect_folded("é e\xcc\x81 …", "ee...");
    expect_folded("ＡＢ（", "ab(");
    expect_folded("漢\xff\xfe", "漢\xff\xfe");
}

static void expect_explained(const char *text, const char *old, const char *const *words)
{
    _cleanup_buf_ struct buf out = BUF_INIT(EDIT_EXPLAIN_MAX);
    struct line_range place;
    struct edit e = edit(old, "", false);
    edit_explain(b(text), &e, &out, &place);
    for (const char *s = buf_cstr(&out); *words; words++)
        if (!strstr(s, *words))
            fail_msg("'%s' is not in: %s", *words, s);
}

#define EXPLAINED(text, old, ...)                                                                  \
    expect_explained(text, old, (const char *const[]){__VA_ARGS__, NULL})

static void test_names_what_cannot_be_seen(void **state)
{
    EXPLAINED("a {\n\tb;\n\tc;\n}\n", "a {\n    b;\n    c;\n}", "lines 1 to 4", "2 of the 4 lines",
              "(line 2 has 1 tab where `old` has 4 spaces)", "(line 3 has 1 tab where",
              "     2\t\tb;");
    EXPLAINED("  a {\n    b;\n  }\n", "a {\n  b;\n}\n",
              "line 2 has 2 spaces where `old` has nothing");
    EXPLAINED("\t  a\n", "    a\n", "line 1 has 1 tab where `old` has 2 spaces");
    EXPLAINED("x = 1;  \ny\n", "x = 1;\ny", "line 1 has 2 spaces where `old` has nothing");
    EXPLAINED("x = 1;\ny\n", "x = 1; \ny", "line 1 has nothing where `old` has 1 space");
    EXPLAINED("say ‘hi’\n", "say 'hi'", "line 1 has ‘ (U+2018) where `old` has ' (U+0027)");
    EXPLAINED("say \"hi\"\n", "say 'hi'", "line 1 has \" (U+0022)");
    EXPLAINED("1–2 – x\n", "1-2 - x", "line 1 has – (U+2013) where `old` has - (U+002D)");
    EXPLAINED("a\xc2\xa0z of all\n", "a z of all", "line 1 has U+00A0 where `old` has 1 space");
    EXPLAINED("ab\xe2\x80\x8b"
              "cde\n",
              "abcde", "line 1 has U+200B where `old` has nothing");
    EXPLAINED("Hello\n", "hello", "line 1 has H (U+0048) where `old` has h (U+0068)");
    EXPLAINED("caf\xc3\xa9\n", "cafe\xcc\x81", "line 1 has é (U+00E9) where `old` has e (U+0065)");
    EXPLAINED("wait…\n", "wait...", "line 1 has … (U+2026) where `old` has . (U+002E)");
    EXPLAINED("one\n\ntwo\n", "one\ntwo", "lines 1 to 3", "2 of the 2 lines", "at line 2");
    EXPLAINED("a\r\nb\nc\n", "a\nb\nc\n",
              "only line endings differ: the file has both CRLF and LF");
    EXPLAINED("last line", "last line\n", "line 1 has nothing where `old` has a line break");
}

static void test_shows_lines_that_differ(void **state)
{
    const char *text = "int f(void)\n{\n\tint a = 1;\n\tint b = 2;\n\treturn a + b;\n}\n";
    EXPLAINED(text, "\tint a = 1;\n\tint b = 3;\n\treturn a + b;\n", "lines 3 to 5",
              "2 of the 3 lines", "at line 4", "`old`: \tint b = 3;", "file : \tint b = 2;");
    EXPLAINED(text, "return a + c;", "line 5");
    EXPLAINED("a\r\nbb b\r\nlast\r\n", "a\nbb c\nlast\n", "2 of the 3 lines");
}

static void test_says_that_nothing_is_like_it(void **state)
{
    EXPLAINED("alpha\nbeta\n", "12345 67890", "No text in the file is similar");
    EXPLAINED("", "x", "The file is empty");
}

static void test_recognises_line_numbers_and_edits_made_before(void **state)
{
    _cleanup_buf_ struct buf out = BUF_INIT(EDIT_EXPLAIN_MAX);
    struct line_range place;
    struct edit e = edit("before()", "after_the_edit()", false);
    EXPLAINED("a\nb\n", "     1\ta\n     2\tb\n", "begins its lines with numbers");
    edit_explain(b("x\nafter_the_edit()\n"), &e, &out, &place);
    assert_non_null(strstr(buf_cstr(&out), "already there, at line 2"));
}

/* A text of many lines, and a block in the middle of it. */
static char *many_lines(size_t lines, const char *fmt, size_t *ret_n)
{
    _cleanup_buf_ struct buf text = BUF_INIT(EDIT_TEXT_MAX);
    for (size_t i = 0; i < lines; i++)
        buf_printf(&text, fmt, i);
    *ret_n = text.len;
    return strdup(buf_cstr(&text));
}

static void test_finds_a_block_in_a_large_text(void **state)
{
    size_t n;
    _cleanup_free_ char *text = many_lines(500000, "    value_%zu = compute(1);\n", &n);
    struct line_range w;
    const char *old = "    value_400000 = compute(1);\n    value_400001 = compute(2);\n    "
                      "value_400002 = compute(1);\n";
    assert_int_equal(nearest_text_find((struct span){(uint8_t *)text, n}, b(old), -1, &w), 1);
    assert_int_equal(w.line, 400001);
    assert_int_equal(w.count, 3);
}

/* Texts made to be slow: work that grew with the square of their size would not end before the test
 * is ended. */
static void test_hostile_texts_take_linear_time(void **state)
{
    size_t n, m;
    _cleanup_free_ char *same = many_lines(2000000, "aaaa\n", &n),
                        *old = many_lines(20000, "aaaa\n", &m);
    _cleanup_free_ char *long_line = calloc(1, 16u << 20);
    _cleanup_buf_ struct buf out = BUF_INIT(EDIT_EXPLAIN_MAX);
    struct line_range place;
    old[m - 2] = 'b';
    struct edit e = {{(uint8_t *)old, m}, {(uint8_t *)"", 0}, false};
    edit_explain((struct span){(uint8_t *)same, n}, &e, &out, &place);
    memset(long_line, 'a', (16u << 20) - 1);
    struct edit f = edit("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "", false);
    edit_explain((struct span){(uint8_t *)long_line, (16u << 20) - 1}, &f, &out, &place);
    assert_int_equal(place.line, 1); /* its one line is most like it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaces_the_only_place),
        cmocka_unit_test(test_replaces_all),
        cmocka_unit_test(test_several_places_are_refused_with_their_lines),
        cmocka_unit_test(test_nothing_found_is_refused),
        cmocka_unit_test(test_line_endings_are_those_of_the_text),
        cmocka_unit_test(test_a_text_that_gets_too_large_is_refused),
        cmocka_unit_test(test_folds_what_is_confused),
        cmocka_unit_test(test_names_what_cannot_be_seen),
        cmocka_unit_test(test_shows_lines_that_differ),
        cmocka_unit_test(test_says_that_nothing_is_like_it),
        cmocka_unit_test(test_recognises_line_numbers_and_edits_made_before),
        cmocka_unit_test(test_finds_a_block_in_a_large_text),
        cmocka_unit_test(test_hostile_texts_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
