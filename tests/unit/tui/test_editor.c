/* The line editor: every edit on texts of several lines and of characters that are more than one
 * code point; undo; and pastes that are kept aside. */
#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "input.h"

static struct editor *make(const char *text)
{
    struct editor *e;
    assert_int_equal(editor_new(&e), 0);
    assert_int_equal(editor_set(e, text), 0);
    return e;
}

static void expect(struct editor *e, const char *text, size_t cursor)
{
    size_t n, at;
    assert_string_equal(editor_text(e, &n, &at), text);
    assert_int_equal(n, strlen(text));
    assert_int_equal(at, cursor);
}

static void repeat(struct editor *e, enum edit what, int n)
{
    while (n-- > 0)
        editor_do(e, what);
}

static void test_cursor_moves(void **state)
{
    struct editor *e = make("one two\nthree\n\nfour");
    expect(e, "one two\nthree\n\nfour", 19);
    assert_true(editor_do(e, EDIT_UP));
    expect(e, "one two\nthree\n\nfour", 14); /* the empty line */
    assert_true(editor_do(e, EDIT_UP));
    expect(e, "one two\nthree\n\nfour", 12); /* and back to the column */
    assert_true(editor_do(e, EDIT_UP));
    assert_false(editor_do(e, EDIT_UP));
    expect(e, "one two\nthree\n\nfour", 4);
    editor_do(e, EDIT_LINE_END);
    expect(e, "one two\nthree\n\nfour", 7);
    editor_do(e, EDIT_WORD_LEFT);
    expect(e, "one two\nthree\n\nfour", 4);
    editor_do(e, EDIT_WORD_RIGHT);
    editor_do(e, EDIT_WORD_RIGHT);
    expect(e, "one two\nthree\n\nfour", 13);
    editor_do(e, EDIT_LINE_BEGIN);
    expect(e, "one two\nthree\n\nfour", 8);
    editor_do(e, EDIT_BEGIN);
    assert_false(editor_do(e, EDIT_LEFT));
    editor_do(e, EDIT_END);
    assert_false(editor_do(e, EDIT_RIGHT));
    assert_false(editor_do(e, EDIT_DOWN));
    editor_free(e);
}

/* An accent, a family, a flag, a skin tone: each is one step, and one deletion. */
static void test_grapheme_is_one_step(void **state)
{
    static const char *const whole[] = {
        "e\xcc\x81",
        "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa6",
        "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa",
        "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd",
        "\xe4\xb8\xad",
        "\xe2\x9d\xa4\xef\xb8\x8f",
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        char text[64];
        snprintf(text, sizeof text, "a%sb", whole[i]);
        struct editor *e = make(text);
        size_t n = strlen(whole[i]);
        repeat(e, EDIT_LEFT, 1);
        expect(e, text, 1 + n);
        repeat(e, EDIT_LEFT, 1);
        expect(e, text, 1);
        repeat(e, EDIT_RIGHT, 1);
        expect(e, text, 1 + n);
        repeat(e, EDIT_DELETE_BEFORE, 1);
        expect(e, "ab", 1);
        editor_free(e);
    }
    /* Three flags in a row are three steps. */
    struct editor *e = make("\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa\xf0\x9f\x87\xab\xf0\x9f\x87\xb7\xf0"
                            "\x9f\x87\xae\xf0\x9f\x87\xb9");
    repeat(e, EDIT_DELETE_BEFORE, 2);
    size_t n;
    editor_text(e, &n, NULL);
    assert_int_equal(n, 8);
    editor_free(e);
}

static void test_kills_are_joined_and_yanked(void **state)
{
    struct editor *e = make("git commit --all -m x");
    editor_do(e, EDIT_KILL_BLANK_BEFORE);
    editor_do(e, EDIT_KILL_BLANK_BEFORE);
    expect(e, "git commit --all ", 17);
    editor_do(e, EDIT_KILL_WORD_BEFORE);
    expect(e, "git commit --", 13);
    editor_do(e, EDIT_LINE_BEGIN);
    editor_do(e, EDIT_YANK); /* kills in a row are one, in order */
    expect(e, "all -m xgit commit --", 8);
    editor_do(e, EDIT_KILL_LINE_END);
    expect(e, "all -m x", 8);
    editor_do(e, EDIT_KILL_LINE_BEGIN);
    expect(e, "", 0);
    assert_false(editor_do(e, EDIT_KILL_LINE_BEGIN));
    editor_do(e, EDIT_YANK);
    expect(e, "all -m xgit commit --", 21);
    editor_free(e);
}

static void test_line_kill_joins_lines(void **state)
{
    struct editor *e = make("ab\ncd");
    editor_do(e, EDIT_UP);
    editor_do(e, EDIT_LINE_END);
    editor_do(e, EDIT_KILL_LINE_END);
    expect(e, "abcd", 2);
    editor_set(e, "ab\ncd");
    editor_do(e, EDIT_LINE_BEGIN);
    editor_do(e, EDIT_KILL_LINE_BEGIN);
    expect(e, "abcd", 2);
    editor_free(e);
}

static void type(struct editor *e, const char *text)
{
    for (; *text; text++)
        assert_int_equal(editor_insert(e, text, 1), 0);
}

static void test_undo_and_redo(void **state)
{
    struct editor *e = make("");
    type(e, "hello world");
    editor_do(e, EDIT_UNDO);
    expect(e, "hello", 5); /* by words */
    editor_do(e, EDIT_UNDO);
    expect(e, "", 0);
    editor_do(e, EDIT_REDO);
    editor_do(e, EDIT_REDO);
    expect(e, "hello world", 11);
    assert_false(editor_do(e, EDIT_REDO));
    editor_do(e, EDIT_KILL_LINE_BEGIN);
    editor_do(e, EDIT_UNDO);
    expect(e, "hello world", 11);
    editor_do(e, EDIT_UNDO);
    type(e, "!"); /* what could be redone is gone */
    assert_false(editor_do(e, EDIT_REDO));
    expect(e, "hello!", 6);
    editor_free(e);
}

static void test_undo_memory_is_bounded(void **state)
{
    struct editor *e = make("");
    for (int i = 0; i < 1000; i++)
        assert_int_equal(editor_replace(e, 0, 0, "x", 1), 0);
    int steps = 0;
    while (editor_do(e, EDIT_UNDO))
        steps++;
    assert_in_range(steps, 150, 250);
    editor_free(e);
}

static void test_swap_exchanges_characters(void **state)
{
    struct editor *e = make("abc");
    editor_do(e, EDIT_SWAP);
    expect(e, "acb", 3);
    editor_do(e, EDIT_LINE_BEGIN);
    assert_false(editor_do(e, EDIT_SWAP));
    editor_free(e);
}

/* 10,000 lines: one character of the text, folded on the screen, whole in what is sent. */
static void test_long_paste_is_one_character(void **state)
{
    struct buf lines = BUF_INIT(1 << 20), shown = BUF_INIT(1 << 20), whole = BUF_INIT(4 << 20);
    size_t cursor, n;
    for (int i = 0; i < 10000; i++)
        buf_printf(&lines, "line %d\n", i);
    struct editor *e = make("see ");
    assert_int_equal(editor_paste(e, (const char *)lines.data, lines.len), 0);
    type(e, " ok");
    assert_int_equal(editor_copy(e, false, &shown, &cursor), 0);
    assert_string_equal(buf_cstr(&shown), "see [pasted 10,000 lines] ok");
    assert_int_equal(cursor, shown.len);
    assert_int_equal(editor_copy(e, true, &whole, NULL), 0);
    assert_int_equal(whole.len, lines.len + 7);
    assert_memory_equal(whole.data + 4, lines.data, lines.len);
    repeat(e, EDIT_LEFT, 4); /* over it as one */
    editor_text(e, &n, &cursor);
    assert_int_equal(cursor, 4);
    editor_do(e, EDIT_DELETE);
    expect(e, "see  ok", 4);
    editor_do(e, EDIT_UNDO);
    shown.len = 0;
    editor_copy(e, false, &shown, &cursor);
    assert_string_equal(buf_cstr(&shown), "see [pasted 10,000 lines] ok");
    assert_int_equal(cursor, 4);
    buf_free(&lines);
    buf_free(&shown);
    buf_free(&whole);
    editor_free(e);
}

static void test_short_paste_is_inserted(void **state)
{
    struct editor *e = make("");
    assert_int_equal(editor_paste(e, "a\nb", 3), 0);
    expect(e, "a\nb", 3);
    editor_free(e);
}

/* The characters that stand for pastes cannot be smuggled in. */
static void test_text_cannot_forge_paste_marks(void **state)
{
    struct editor *e = make("");
    char lines[64];
    memset(lines, '\n', sizeof lines);
    editor_paste(e, lines, sizeof lines);
    editor_insert(e, "\xf4\x8f\x80\x80", 4);
    editor_replace(e, 0, 0, "x\xf4\x8f\x80\x80y", 6);
    struct buf whole = BUF_INIT(1024);
    editor_copy(e, true, &whole, NULL);
    assert_int_equal(whole.len, 64 + 4 + 6);
    buf_free(&whole);
    editor_free(e);
}

static void test_text_length_is_bounded(void **state)
{
    struct editor *e = make("");
    static char much[EDITOR_TYPED_MAX];
    memset(much, 'x', sizeof much);
    assert_int_equal(editor_replace(e, 0, 0, much, sizeof much - 1), 0);
    assert_int_equal(editor_insert(e, "y", 1), -ENOBUFS);
    assert_true(editor_do(e, EDIT_DELETE_BEFORE));
    assert_int_equal(editor_insert(e, "y", 1), 0);
    editor_reset(e);
    assert_true(editor_is_empty(e));
    int pastes = 0;
    while (pastes < 100 && editor_paste(e, much, sizeof much) == 0)
        pastes++;
    assert_in_range(pastes, 16, EDITOR_MAX / EDITOR_TYPED_MAX);
    editor_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cursor_moves),
        cmocka_unit_test(test_grapheme_is_one_step),
        cmocka_unit_test(test_kills_are_joined_and_yanked),
        cmocka_unit_test(test_line_kill_joins_lines),
        cmocka_unit_test(test_undo_and_redo),
        cmocka_unit_test(test_undo_memory_is_bounded),
        cmocka_unit_test(test_swap_exchanges_characters),
        cmocka_unit_test(test_long_paste_is_one_character),
        cmocka_unit_test(test_short_paste_is_inserted),
        cmocka_unit_test(test_text_cannot_forge_paste_marks),
        cmocka_unit_test(test_text_length_is_bounded),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
