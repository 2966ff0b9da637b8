/* Untrusted bytes become clean text, and clean text becomes lines of a width. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lines.h"
#include "text.h"
#include "plain_lines.h"

static void expect_clean(const char *in, size_t n, bool output, const char *out)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    assert_int_equal(clean_append(&b, in, n, output), 0);
    assert_string_equal(buf_cstr(&b), out);
}
#define CLEAN(in, out)  expect_clean(in, sizeof in - 1, false, out)
#define OUTPUT(in, out) expect_clean(in, sizeof in - 1, true, out)

static void test_clean_replaces_controls(void **state)
{
    CLEAN("plain\ttext\nand grün 漢字 🐇", "plain\ttext\nand grün 漢字 🐇");
    CLEAN("\033[2J\033]0;t\007\b\x7f", "␛[2J␛]0;t␇␈␡");
    CLEAN("a\0b", "a␀b");
    CLEAN("dos\r\nalone\rend\r", "dos\nalone␍end␍");
    CLEAN("\xc2\x9b"
          "31m",
          "\xef\xbf\xbd"
          "31m");
    CLEAN("a\xff\xc3", "a\xef\xbf\xbd\xef\xbf\xbd");
    CLEAN("a\xed\xa0\x80", "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    CLEAN("x\u202egpj.exe", "x\xef\xbf\xbdgpj.exe");
    CLEAN("a\u2028b", "a\xef\xbf\xbd"
                      "b");
    CLEAN("👩\u200d💻 ⚠\ufe0f 👍🏽 zero\u200bwidth\ufeff\u2060", "👩💻 ⚠ 👍 zerowidth");
}

static void test_clean_drops_colours_of_output(void **state)
{
    OUTPUT("\033[1;31mFAIL\033[0m\033[m ok", "FAIL ok");
    OUTPUT("\033[38:5:1mx", "x");
    OUTPUT("\033[2Kx\033[", "␛[2Kx␛[");
    CLEAN("\033[31mx", "␛[31mx");
}

/* Every byte, alone and in pairs, becomes valid UTF-8 without any control character but \t and
 * \n. */
static void test_clean_of_every_pair_of_bytes_is_valid(void **state)
{
    for (unsigned i = 0; i < 65536; i++) {
        const uint8_t in[] = {(uint8_t)(i >> 8), (uint8_t)i, 'x'};
        _cleanup_buf_ struct buf b = BUF_INIT(64);
        assert_int_equal(clean_append(&b, in, 3, i & 1), 0);
        assert_true(b.len <= 3 * CLEAN_GROWTH);
        assert_true(utf8_valid(b.data, b.len));
        for (size_t k = 0; k < b.len; k++)
            assert_true((b.data[k] >= 0x20 && b.data[k] != 0x7f) || b.data[k] == '\n' ||
                        b.data[k] == '\t');
    }
}

static void test_widths_of_characters(void **state)
{
    int width;
    assert_int_equal(clean_width("漢字ab", strlen("漢字ab")), 6);
    assert_int_equal(clean_next("e\u0301x", 4, &width), 3);
    assert_int_equal(width, 1);
    assert_int_equal(clean_next("\u0301x", 3, &width), 2); /* a mark alone takes a column */
    assert_int_equal(width, 1);
    assert_int_equal(clean_fit("漢字", strlen("漢字"), 3, &width), 3);
    assert_int_equal(width, 2);
}

enum how { WORDS, EXACT, ONE };

/* Lines of all modes, ended by | each, and each no wider than asked for. */
static void expect_lines(enum how how, const char *text, int width, const char *first,
                         const char *rest, const char *out)
{
    _cleanup_styled_ struct styled f = STYLED_INIT;
    _cleanup_lines_ struct lines l = LINES_INIT;
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 16);
    struct margin m = {first, rest, 0, 0};
    /* styles change in the midst of words: that must not change where lines end */
    for (size_t i = 0; text[i]; i++)
        styled_add(&f, i / 3 % 2 ? ROLE_CODE : ROLE_TEXT, text + i, 1);
    how == WORDS   ? wrap_words(&f, &m, width, &l)
    : how == EXACT ? wrap_exact(&f, &m, width, 4, &l)
                   : wrap_one(&f, &m, width, 4, &l);
    for (size_t i = 0; i < l.count; i++) {
        size_t before = b.len;
        lines_plain(&l, i, &b);
        assert_true(l.all[i].width <= width + (int)strlen(first));
        assert_int_equal(l.all[i].width,
                         clean_width((const char *)b.data + before, b.len - before));
        buf_append_str(&b, "|");
    }
    assert_string_equal(buf_cstr(&b), out);
}

static void test_wrap_breaks_between_words(void **state)
{
    expect_lines(WORDS, "", 10, "", "", "");
    expect_lines(WORDS, "one two three", 10, "", "", "one two|three|");
    expect_lines(WORDS, "one two three", 7, "- ", "  ", "- one two|  three|");
    expect_lines(WORDS, "one  two \n\n three", 20, "", "",
                 "one  two||"
                 " three|");
    expect_lines(WORDS, "abcdefghij klm", 4, "", "", "abcd|efgh|ij|klm|");
    expect_lines(WORDS, "a abcdefghij", 4, "", "", "a|abcd|efgh|ij|");
    expect_lines(WORDS, "a\nb\n", 4, "", "", "a|b|");
    expect_lines(WORDS, "    indented text", 12, "", "", "    indented|text|");
}

static void test_wrap_breaks_beside_wide_characters(void **state)
{
    expect_lines(WORDS, "漢字漢字漢字", 5, "", "", "漢字|漢字|漢字|");
    expect_lines(WORDS, "漢字。漢", 4, "", "", "漢|字。|漢|"); /* no line begins with a full stop */
    expect_lines(WORDS, "abc漢字", 5, "", "", "abc漢|字|");
    expect_lines(WORDS, "e\u0301e\u0301e\u0301", 2, "", "", "e\u0301e\u0301|e\u0301|");
}

static void test_wrap_exact_keeps_blanks(void **state)
{
    expect_lines(EXACT, "", 8, "  ", "  ", "  |");
    expect_lines(EXACT, "a  b", 8, "", "", "a  b|");
    expect_lines(EXACT, "\tif (x)", 12, "", "", "    if (x)|");
    expect_lines(EXACT, "a\tb", 8, "", "", "a   b|");
    expect_lines(EXACT, "12345678\t9", 8, "", "", "12345678|    9|");
    expect_lines(EXACT, "abcdefgh", 4, "> ", "  ", "> abcd|  efgh|");
    expect_lines(EXACT, "abc漢", 4, "", "", "abc|漢|");
}

static void test_wrap_one_cuts_with_ellipsis(void **state)
{
    expect_lines(ONE, "abcd", 4, "", "", "abcd|");
    expect_lines(ONE, "abcde", 4, "", "", "abc…|");
    expect_lines(ONE, "ab漢", 4, "", "", "ab漢|");
    expect_lines(ONE, "ab漢漢", 4, "", "", "ab…|");
    expect_lines(ONE, "abc\td", 4, "", "", "abc…|");
    expect_lines(ONE, "ab\nsecond", 9, "", "", "ab|");
}

/* However wide the terminal, no line is wider and no character is lost. */
static void test_wrap_loses_no_character(void **state)
{
    static const char text[] =
        "Ein längerer Text mit 漢字 und e\u0301 und sehrsehrsehrlangenwörtern, 🐇🐇🐇 (eins) zwei";
    _cleanup_styled_ struct styled f = STYLED_INIT;
    styled_puts(&f, ROLE_TEXT, text);
    for (int width = 2; width < 60; width++) {
        _cleanup_lines_ struct lines l = LINES_INIT;
        _cleanup_buf_ struct buf b = BUF_INIT(4096);
        size_t k = 0;
        wrap_words(&f, &(struct margin){"", "", 0, 0}, width, &l);
        for (size_t i = 0; i < l.count; i++) {
            lines_plain(&l, i, &b);
            assert_true(l.all[i].width <= width);
        }
        for (size_t i = 0; i < sizeof text - 1; i++) {
            if (text[i] == ' ')
                continue;
            while (k < b.len && b.data[k] == ' ')
                k++;
            assert_int_equal((uint8_t)text[i], b.data[k++]);
        }
    }
}

static void test_lines_cut_removes_the_last(void **state)
{
    _cleanup_lines_ struct lines l = LINES_INIT;
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    for (int i = 0; i < 4; i++) {
        lines_puts(&l, ROLE_TEXT, i % 2 ? "odd" : "");
        lines_end(&l);
    }
    lines_cut(&l, 2);
    lines_puts(&l, ROLE_CODE, "new");
    lines_end(&l);
    assert_int_equal(l.count, 3);
    lines_plain(&l, 1, &b);
    lines_plain(&l, 2, &b);
    assert_string_equal(buf_cstr(&b), "oddnew");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean_replaces_controls),
        cmocka_unit_test(test_clean_drops_colours_of_output),
        cmocka_unit_test(test_clean_of_every_pair_of_bytes_is_valid),
        cmocka_unit_test(test_widths_of_characters),
        cmocka_unit_test(test_wrap_breaks_between_words),
        cmocka_unit_test(test_wrap_breaks_beside_wide_characters),
        cmocka_unit_test(test_wrap_exact_keeps_blanks),
        cmocka_unit_test(test_wrap_one_cuts_with_ellipsis),
        cmocka_unit_test(test_wrap_loses_no_character),
        cmocka_unit_test(test_lines_cut_removes_the_last),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
