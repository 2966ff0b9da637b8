/* Keys: each dialect of terminals, split at every byte; pastes; and noise that must never be
 * typed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "input.h"

struct expected {
    const char *bytes;
    enum keys_code code;
    unsigned with;
    const char *text;
};

static const struct expected CASES[] = {
    {"a", KEYS_TEXT, 0, "a"},
    {"\xc3\xa4", KEYS_TEXT, 0, "\xc3\xa4"},
    {"\xf0\x9f\x98\x80", KEYS_TEXT, 0, "\xf0\x9f\x98\x80"},
    {"\r", KEYS_ENTER, 0, ""},
    {"\n", KEYS_TEXT, KEYS_CTRL, "j"},
    {"\t", KEYS_TAB, 0, ""},
    {"\x7f", KEYS_BACKSPACE, 0, ""},
    {"\x03", KEYS_TEXT, KEYS_CTRL, "c"},
    {"\x1f", KEYS_TEXT, KEYS_CTRL, "_"},
    {"\033\r", KEYS_ENTER, KEYS_ALT, ""},
    {"\033b", KEYS_TEXT, KEYS_ALT, "b"},
    {"\033\x7f", KEYS_BACKSPACE, KEYS_ALT, ""},
    {"\033[A", KEYS_UP, 0, ""},
    {"\033OA", KEYS_UP, 0, ""},
    {"\033[1;2A", KEYS_UP, KEYS_SHIFT, ""},
    {"\033[1;5C", KEYS_RIGHT, KEYS_CTRL, ""},
    {"\033[1;3D", KEYS_LEFT, KEYS_ALT, ""},
    {"\033[H", KEYS_HOME, 0, ""},
    {"\033[1~", KEYS_HOME, 0, ""},
    {"\033[7~", KEYS_HOME, 0, ""},
    {"\033OF", KEYS_END, 0, ""},
    {"\033[4~", KEYS_END, 0, ""},
    {"\033[3~", KEYS_DELETE, 0, ""},
    {"\033[3;5~", KEYS_DELETE, KEYS_CTRL, ""},
    {"\033[5~", KEYS_PAGE_UP, 0, ""},
    {"\033[6~", KEYS_PAGE_DOWN, 0, ""},
    {"\033[Z", KEYS_TAB, KEYS_SHIFT, ""},
    /* Shift-Enter: kitty's protocol, and xterm's modifyOtherKeys. */
    {"\033[13;2u", KEYS_ENTER, KEYS_SHIFT, ""},
    {"\033[27;2;13~", KEYS_ENTER, KEYS_SHIFT, ""},
    {"\033[99;5u", KEYS_TEXT, KEYS_CTRL, "c"},
    {"\033[27u", KEYS_ESCAPE, 0, ""},
    {"\033[97:65;2;65u", KEYS_TEXT, KEYS_SHIFT, "a"},
    {"\033[27;5;67~", KEYS_TEXT, KEYS_CTRL, "c"},
    {"\033[228;1u", KEYS_TEXT, 0, "\xc3\xa4"},
    {"\033[<64;10;5M", KEYS_WHEEL_UP, 0, ""},
    {"\033[<65;10;5M", KEYS_WHEEL_DOWN, 0, ""},
};

static void check(const struct expected *c, const struct press *p)
{
    assert_int_equal(p->code, c->code);
    assert_int_equal(p->with, c->with);
    if (c->code == KEYS_TEXT)
        assert_string_equal(p->text, c->text);
}

static void test_every_dialect_is_decoded(void **state)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct keys k;
        struct press p = {0};
        keys_init(&k);
        keys_feed(&k, CASES[i].bytes, strlen(CASES[i].bytes));
        assert_true(keys_next(&k, false, &p));
        check(&CASES[i], &p);
        assert_false(keys_next(&k, true, &p));
        keys_free(&k);
    }
}

/* A byte at a time, and then all of them at once. */
static void test_sequences_may_arrive_in_pieces(void **state)
{
    struct keys k;
    struct press p = {0};
    keys_init(&k);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        size_t n = strlen(CASES[i].bytes);
        for (size_t j = 0; j < n; j++) {
            assert_false(keys_next(&k, false, &p));
            keys_feed(&k, CASES[i].bytes + j, 1);
        }
        assert_true(keys_next(&k, false, &p));
        check(&CASES[i], &p);
    }
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        keys_feed(&k, CASES[i].bytes, strlen(CASES[i].bytes));
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        assert_true(keys_next(&k, false, &p));
        check(&CASES[i], &p);
    }
    keys_free(&k);
}

static void test_escape_alone_is_a_key(void **state)
{
    struct keys k;
    struct press p = {0};
    keys_init(&k);
    keys_feed(&k, "\033", 1);
    assert_false(keys_next(&k, false, &p));
    assert_true(keys_waits(&k));
    assert_true(keys_next(&k, true, &p));
    assert_int_equal(p.code, KEYS_ESCAPE);
    keys_feed(&k, "\033\033", 2);
    assert_true(keys_next(&k, false, &p));
    assert_int_equal(p.code, KEYS_ESCAPE);
    assert_true(keys_next(&k, true, &p));
    assert_int_equal(p.code, KEYS_ESCAPE);
    keys_free(&k);
}

static void feed_paste(struct keys *k, const char *text, size_t n, size_t piece)
{
    struct press p;
    keys_feed(k, "\033[200~", 6);
    for (size_t i = 0; i < n; i += piece) {
        keys_feed(k, text + i, n - i < piece ? n - i : piece);
        assert_false(keys_next(k, true, &p));
    }
    keys_feed(k, "\033[201~", 6);
}

static void test_paste_is_one_press(void **state)
{
    static const char text[] = "a\rb\r\nc\n\x03\033[A\033[20\t\xff\xc3\xa4";
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        struct keys k;
        struct press p = {0};
        keys_init(&k);
        feed_paste(&k, text, sizeof text - 1, piece);
        keys_feed(&k, "x", 1);
        assert_true(keys_next(&k, false, &p));
        assert_int_equal(p.code, KEYS_PASTE);
        assert_int_equal(k.paste.len, strlen("a\nb\nc\n[A[20\t\xef\xbf\xbd\xc3\xa4"));
        assert_memory_equal(k.paste.data, "a\nb\nc\n[A[20\t\xef\xbf\xbd\xc3\xa4", k.paste.len);
        assert_true(keys_next(&k, false, &p));
        assert_string_equal(p.text, "x");
        keys_free(&k);
    }
}

static void test_paste_length_is_bounded(void **state)
{
    static char piece[1 << 20];
    struct keys k;
    struct press p = {0};
    memset(piece, 'x', sizeof piece);
    keys_init(&k);
    keys_feed(&k, "\033[200~", 6);
    for (int i = 0; i < 20; i++) {
        keys_feed(&k, piece, sizeof piece);
        keys_next(&k, false, &p);
    }
    keys_feed(&k, "\033[201~", 6);
    assert_true(keys_next(&k, false, &p));
    assert_int_equal(p.code, KEYS_PASTE);
    assert_int_equal(k.paste.len, KEYS_PASTE_MAX);
    assert_true(k.cut);
    keys_free(&k);
}

/* Function keys, answers of the terminal, focus, releases, cut and endless sequences: nothing is
 * typed. */
static void test_noise_types_nothing(void **state)
{
    static const char *const noise[] = {
        "\033[15~", "\033OP",      "\033[[A", "\033[?62;c", "\033[>41;354;0c", "\033[I",
        "\033[O",   "\033[57441u", "\xff",    "\xc2\x85",   "\033[<0;3;4M",    "\033[<64;3;4m",
    };
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++) {
        struct keys k;
        struct press p = {0};
        keys_init(&k);
        keys_feed(&k, noise[i], strlen(noise[i]));
        assert_false(keys_next(&k, true, &p));
        keys_feed(&k, "y", 1);
        assert_true(keys_next(&k, true, &p));
        assert_string_equal(p.text, "y");
        keys_free(&k);
    }
    struct keys k;
    struct press p = {0};
    keys_init(&k);
    keys_feed(&k, "\033[12;", 5);
    assert_false(keys_next(&k, false, &p));
    assert_false(keys_next(&k, true, &p));
    assert_false(keys_waits(&k));
    keys_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dialect_is_decoded),
        cmocka_unit_test(test_sequences_may_arrive_in_pieces),
        cmocka_unit_test(test_escape_alone_is_a_key),
        cmocka_unit_test(test_paste_is_one_press),
        cmocka_unit_test(test_paste_length_is_bounded),
        cmocka_unit_test(test_noise_types_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
