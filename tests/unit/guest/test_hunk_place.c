/* Where hunks go, and what is reported of those that find no place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "patch/patch.h"
#include "text.h"

static struct diff diff_of(const char *hunks)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1u << 20);
    struct diff d;
    struct error err = {0};
    buf_printf(&b, "--- a/f\n+++ b/f\n%s", hunks);
    if (diff_parse(b.data, b.len, false, &d, &err) < 0)
        fail_msg("%s", err.text);
    return d;
}

static struct place_failure last;

static void remember(void *data, const struct place_failure *f)
{
    last = *f;
}

struct how {
    unsigned fuzz;
    bool ignore_space;
};

static struct place_result place(const char *text, const char *hunks, struct how how,
                                 const char *expected)
{
    _cleanup_diff_ struct diff d = diff_of(hunks);
    _cleanup_buf_ struct buf out = BUF_INIT(1u << 20);
    struct text_lines file;
    struct place_result result;
    uint64_t work = PLACE_WORK_MAX;
    struct place_call call = {&d, &d.files[0], how.fuzz, how.ignore_space, &work, remember, NULL};
    assert_int_equal(text_lines_split((const uint8_t *)text, strlen(text), &file), 0);
    assert_int_equal(place_hunks(&call, &file, &out, &result), 0);
    text_lines_free(&file);
    assert_int_equal(result.failures == 0, expected != NULL);
    if (expected)
        assert_string_equal(out.len ? buf_cstr(&out) : "", expected);
    return result;
}

static const struct how EXACT = {0, false}, FUZZY = {2, false}, SPACE = {2, true};

#define MIDDLE "@@ -3,3 +3,3 @@\n c\n-d\n+D\n e\n"

static void test_finds_hunks_at_an_offset(void **state)
{
    place("a\nb\nc\nd\ne\nf\n", MIDDLE, EXACT, "a\nb\nc\nD\ne\nf\n");
    assert_int_equal(
        place("x\ny\na\nb\nc\nd\ne\nf\n", MIDDLE, EXACT, "x\ny\na\nb\nc\nD\ne\nf\n").offset, 2);
    assert_int_equal(place("c\nd\ne\nf\n", MIDDLE, FUZZY, "c\nD\ne\nf\n").offset, -2);
    /* Two places at the same distance: further down comes first. */
    place("c\nd\ne\nx\nc\nd\ne\nx\n", "@@ -3,3 +3,3 @@\n c\n-d\n+D\n e\n", EXACT,
          "c\nd\ne\nx\nc\nD\ne\nx\n");
}

static void test_ties_hunks_to_the_ends_of_the_file(void **state)
{
    place("x\na\nb\n", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n", EXACT, NULL);
    assert_int_equal(last.why, PLACE_ELSEWHERE);
    place("a\nb\nx\n", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", EXACT, NULL);
    assert_int_equal(last.line, 1);
    place("z\na\nb\n", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", EXACT, "z\na\nb\nc\n");
    place("", "@@ -0,0 +1 @@\n+x\n", EXACT, "x\n");
    place("y\n", "@@ -0,0 +1 @@\n+x\n", FUZZY, "x\ny\n");
}

static void test_drops_context_by_fuzz(void **state)
{
    static const char HUNK[] = "@@ -1,7 +1,7 @@\n a\n b\n c\n-d\n+D\n e\n f\n g\n";
    assert_int_equal(place("a\nB\nc\nd\ne\nf\ng\n", HUNK, FUZZY, "a\nB\nc\nD\ne\nf\ng\n").fuzz, 2);
    assert_int_equal(place("A\nb\nc\nd\ne\nf\nG\n", HUNK, FUZZY, "A\nb\nc\nD\ne\nf\nG\n").fuzz, 1);
    place("A\nb\nc\nd\ne\nf\nG\n", HUNK, EXACT, NULL);
    place("a\nb\nC\nd\ne\nf\ng\n", HUNK, FUZZY, NULL);
    assert_int_equal(last.why, PLACE_NOWHERE);
}

static void test_hunks_share_context_and_offset(void **state)
{
    static const char BOTH[] = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -3,3 +3,3 @@\n c\n-d\n+D\n e\n";
    place("a\nb\nc\nd\ne\n", BOTH, FUZZY, "a\nB\nc\nD\ne\n");
    /* The offset of the first is expected of the second. */
    place("x\nx\nx\na\nb\nc\nk\nl\nm\nk\nl\nm\n",
          "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -7,3 +7,3 @@\n k\n-l\n+L\n m\n", FUZZY,
          "x\nx\nx\na\nB\nc\nk\nl\nm\nk\nL\nm\n");
    /* Hunks with numbers are put in their order, as git takes them in any. */
    place("x\na\nb\nc\n", "@@ -2,2 +2,2 @@\n-a\n+A\n b\n@@ -1,1 +1,1 @@\n-x\n+X\n", EXACT,
          "X\nA\nb\nc\n");
    place("x\na\nb\nc\n", "@@ -2,2 +2,2 @@\n-a\n+A\n b\n@@ -2,2 +2,2 @@\n-a\n+B\n b\n", FUZZY,
          NULL);
    assert_int_equal(last.why, PLACE_BEHIND);
}

static void test_compares_the_last_newline(void **state)
{
    static const char HUNK[] = "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n";
    place("a\nb", HUNK, EXACT, "A\nb");
    /* git would apply it and remove the newline; patch refuses, and so do we. */
    place("a\nb\n", HUNK, EXACT, NULL);
    assert_int_equal(last.why, PLACE_SPACE);
    place("a\nb\nc\n", HUNK, EXACT, NULL);
    place("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n", EXACT, NULL);
    place("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n", EXACT, "a\nB\n");
}

static void test_ignores_whitespace_if_asked(void **state)
{
    place("c\r\nd\r\ne\r\n", MIDDLE, FUZZY, NULL);
    assert_int_equal(last.why, PLACE_SPACE);
    place("c\r\nd\r\ne\r\n", MIDDLE, SPACE, "c\r\nD\r\ne\r\n");
    place("c  \nd\ne\t", MIDDLE, SPACE, "c  \nD\ne\t");
}

static void test_recognises_an_applied_hunk(void **state)
{
    place("a\nb\nc\nD\ne\nf\n", MIDDLE, FUZZY, NULL);
    assert_int_equal(last.why, PLACE_APPLIED);
}

static void test_finds_hunks_without_numbers(void **state)
{
    place("a\nb\nc\n", "@@\n-b\n+B\n", EXACT, "a\nB\nc\n");
    place("a\nb\nc\nb\n", "@@\n-b\n+B\n", EXACT, NULL);
    assert_int_equal(last.why, PLACE_SEVERAL);
    place("f\nb\ng\nb\n", "@@ g\n-b\n+B\n", EXACT, "f\nb\ng\nB\n");
    place("a\nb\nc\nb\n", "@@\n a\n-b\n+B\n@@\n c\n-b\n+B\n", EXACT, "a\nB\nc\nB\n");
    place("a\nb", "@@\n a\n-b\n+B\n", EXACT, "a\nB\n");
    place("a\nb", "@@\n-a\n+A\n b\n", EXACT, "A\nb");
    place("a\n", "@@\n+x\n", EXACT, NULL);
}

static void test_gives_up_a_costly_search(void **state)
{
    _cleanup_buf_ struct buf file = BUF_INIT(1u << 20), hunk = BUF_INIT(1u << 20);
    for (int i = 0; i < 100000; i++)
        buf_append(&file, "a\n", 2);
    buf_printf(&hunk, "@@ -5000,3001 +5000,3001 @@\n");
    for (int i = 0; i < 3000; i++)
        buf_append(&hunk, " a\n", 3);
    buf_append_str(&hunk, "-b\n+c\n a\n");
    place(buf_cstr(&file), buf_cstr(&hunk), EXACT, NULL);
    assert_int_equal(last.why, PLACE_COSTLY);
}

/* What differs at the nearest place. */
static void near_is(const char *text, const char *hunk, size_t line, size_t expected,
                    size_t n_expected, size_t n_found)
{
    _cleanup_diff_ struct diff d = diff_of(hunk);
    struct text_lines file;
    struct hunk_lines p;
    struct hunk_nearest n;
    assert_int_equal(text_lines_split((const uint8_t *)text, strlen(text), &file), 0);
    assert_int_equal(hunk_lines_make(&d, &d.hunks[0], &p), 0);
    assert_int_equal(hunk_nearest_find(&file, &p, 0, &n), 0);
    assert_int_equal(n.line, line);
    assert_int_equal(n.n_expected, n_expected);
    assert_int_equal(n.n_found, n_found);
    if (line)
        assert_int_equal(n.expected, expected);
    hunk_lines_free(&p);
    text_lines_free(&file);
}

static void test_names_the_nearest_place(void **state)
{
    static const char HUNK[] = "@@ -1,5 +1,5 @@\n alpha\n beta\n-gamma\n+x\n delta\n epsilon\n";
    near_is("x\nx\nalpha\nbeta\ngamma2\ndelta\nepsilon\n", HUNK, 5, 2, 1, 1);
    near_is("alpha\nbeta\nnew\ngamma\ndelta\nepsilon\n", HUNK, 3, 2, 0, 1);
    near_is("alpha\nbeta\ndelta\nepsilon\n", HUNK, 3, 2, 1, 0);
    near_is("nothing\nof\nthat\n", HUNK, 0, 0, 5, 0);
    near_is("x\nreturn value + 1;\n", "@@ -1 +1 @@\n-return value + 2;\n+y\n", 2, 0, 1, 1);
    near_is("", HUNK, 0, 0, 5, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_hunks_at_an_offset),
        cmocka_unit_test(test_ties_hunks_to_the_ends_of_the_file),
        cmocka_unit_test(test_drops_context_by_fuzz),
        cmocka_unit_test(test_hunks_share_context_and_offset),
        cmocka_unit_test(test_compares_the_last_newline),
        cmocka_unit_test(test_ignores_whitespace_if_asked),
        cmocka_unit_test(test_recognises_an_applied_hunk),
        cmocka_unit_test(test_finds_hunks_without_numbers),
        cmocka_unit_test(test_names_the_nearest_place),
        cmocka_unit_test(test_gives_up_a_costly_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
