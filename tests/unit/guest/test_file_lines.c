/* Lines of a text: which come, how they are cut, how many there are. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "file.h"
#include "wire.h"

static struct line_got scan(const char *text, size_t n, struct line_want want, const char *lines)
{
    struct line_source s = {.fd = -1, .text = (const uint8_t *)text, .size = n};
    want.bytes = want.bytes ? want.bytes : 65536;
    want.characters = want.characters ? want.characters : 2000;
    want.count = want.count ? want.count : 2000;
    _cleanup_buf_ struct buf out = BUF_INIT(line_scan_room(&want));
    struct line_got got;
    struct error err = {0};
    assert_int_equal(line_scan(&s, &want, &out, &got, &err), 0);
    assert_string_equal(buf_cstr(&out), lines);
    return got;
}

static struct line_got scan_text(const char *text, struct line_want want, const char *lines)
{
    return scan(text, strlen(text), want, lines);
}

static void expect_no_line(const char *text, int64_t first, const char *words)
{
    struct line_source s = {.fd = -1, .text = (const uint8_t *)text, .size = strlen(text)};
    struct line_want want = {first, 10, 100, 100};
    _cleanup_buf_ struct buf out = BUF_INIT(line_scan_room(&want));
    struct line_got got;
    struct error err = {0};
    assert_int_equal(line_scan(&s, &want, &out, &got, &err), -ERANGE);
    assert_non_null(strstr(err.text, words));
}

static void test_all_lines(void **state)
{
    struct line_got g = scan_text("a\nb\nc\n", (struct line_want){.first = 1}, "a\nb\nc\n");
    assert_int_equal(g.first, 1);
    assert_int_equal(g.count, 3);
    assert_int_equal(g.lines, 3);
    assert_true(g.lines_known && !g.more);
    assert_int_equal(g.endings, WIRE_ENDS_LF);
    g = scan_text("a\r\nb", (struct line_want){.first = 1}, "a\r\nb");
    assert_int_equal(g.lines, 2);
    assert_int_equal(g.endings, WIRE_ENDS_CRLF | WIRE_ENDS_NOT);
    g = scan_text("", (struct line_want){.first = 1}, "");
    assert_int_equal(g.count, 0);
}

static void test_some_lines(void **state)
{
    struct line_got g =
        scan_text("a\nb\nc\nd\n", (struct line_want){.first = 2, .count = 2}, "b\nc\n");
    assert_int_equal(g.first, 2);
    assert_int_equal(g.lines, 4);
    assert_true(g.more);
    g = scan_text("a\nb\nc\nd", (struct line_want){.first = 4}, "d");
    assert_false(g.more);
}

static void test_from_the_end(void **state)
{
    assert_int_equal(scan_text("a\nb\nc\n", (struct line_want){.first = -1}, "c\n").first, 3);
    assert_int_equal(scan_text("a\nb\nc", (struct line_want){.first = -2}, "b\nc").first, 2);
    assert_int_equal(scan_text("a\nb\n", (struct line_want){.first = -9}, "a\nb\n").first, 1);
    assert_int_equal(scan_text("a\nb\n", (struct line_want){.first = INT64_MIN}, "a\nb\n").first,
                     1);
    assert_true(scan_text("a\nb\nc\n", (struct line_want){.first = -3, .count = 1}, "a\n").more);
}

static void test_no_such_line(void **state)
{
    expect_no_line("a\nb\n", 3, "the file has 2 lines");
    expect_no_line("a\nb", 3, "the file has 2 lines");
    expect_no_line("a", INT64_MAX, "the file has 1 line");
}

static void test_long_lines_are_cut(void **state)
{
    struct line_want want = {.first = 1, .characters = 3};
    struct line_got g =
        scan_text("abc\nabcd\nx", want, "abc\nabc … [1 more characters in this line]\nx");
    assert_int_equal(g.cut, 1);
    scan_text("äöüß!", want, "äöü … [2 more characters in this line]");
    scan_text("abc\r\nabcd\r\n", want, "abc\r\nabc … [1 more characters in this line]\r\n");
}

static void test_too_much_is_left_out_by_whole_lines(void **state)
{
    struct line_got g = scan_text("aaaa\nbbbb\ncccc\n", (struct line_want){.first = 1, .bytes = 11},
                                  "aaaa\nbbbb\n");
    assert_int_equal(g.count, 2);
    assert_int_equal(g.lines, 3);
    assert_true(g.more);
    /* The first line comes in any case. */
    assert_int_equal(
        scan_text("aaaa\nbb\n", (struct line_want){.first = 1, .bytes = 2}, "aaaa\n").count, 1);
}

/* A file is read in blocks; a line may lie across several, and the pieces are the same as those in
 * memory. */
static void test_a_file_is_read_as_memory_is(void **state)
{
    static uint8_t block[LINE_SOURCE_BLOCK];
    FILE *f = tmpfile();
    assert_non_null(f);
    for (int i = 1; i <= 300000; i++)
        fprintf(f, "line %d%s", i, i % 7 ? "\n" : "\r\n");
    for (int i = 0; i < 1000000; i++)
        fputc('x', f);
    fprintf(f, "\nend\n");
    fflush(f);
    struct line_source s = {.fd = fileno(f), .block = block};
    static const struct {
        struct line_want want;
        const char *text;
        uint64_t first;
    } cases[] = {
        {{200000, 1, 1000, 10}, "line 20000 … [1 more characters in this line]\n", 200000},
        {{300001, 2, 1000, 4}, "xxxx … [999996 more characters in this line]\nend\n", 300001},
        {{-1, 5, 1000, 100}, "end\n", 300002},
        {{-3, 1, 1000, 100}, "line 300000\n", 300000},
        {{-300002, 1, 1000, 100}, "line 1\n", 1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_buf_ struct buf out = BUF_INIT(line_scan_room(&cases[i].want));
        struct line_got got;
        assert_int_equal(line_scan(&s, &cases[i].want, &out, &got, NULL), 0);
        assert_string_equal(buf_cstr(&out), cases[i].text);
        assert_int_equal(got.first, cases[i].first);
        assert_int_equal(got.lines, 300002);
        assert_true(got.lines_known);
    }
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_lines),
        cmocka_unit_test(test_some_lines),
        cmocka_unit_test(test_from_the_end),
        cmocka_unit_test(test_no_such_line),
        cmocka_unit_test(test_long_lines_are_cut),
        cmocka_unit_test(test_too_much_is_left_out_by_whole_lines),
        cmocka_unit_test(test_a_file_is_read_as_memory_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
