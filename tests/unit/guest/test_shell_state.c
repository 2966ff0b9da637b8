/* The state of a session as bytes: what is one, what is none, and commands that export
 * variables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <string.h>

#include "shell/shell.h"

#define BYTES(text) text, sizeof(text) - 1

static const char WHOLE[] = "/usr\n\0declare -x A='1'\n\0f () { :; }\n\0end";

static void whole(void **data)
{
    struct state s;
    assert_true(state_parse(WHOLE, sizeof WHOLE, &s));
    assert_int_equal(s.cwd_len, 4);
    assert_memory_equal(s.cwd, "/usr", 4);
    assert_string_equal(s.exports, "declare -x A='1'\n");
    assert_string_equal(s.functions, "f () { :; }\n");
}

static void put_together_again(void **data)
{
    _cleanup_buf_ struct buf b = BUF_INIT(STATE_MAX);
    struct state s;
    assert_true(state_parse(WHOLE, sizeof WHOLE, &s));
    assert_int_equal(state_put(&b, s.cwd, s.cwd_len, s.exports, "", s.functions), 0);
    assert_int_equal(b.len, sizeof WHOLE);
    assert_memory_equal(b.data, WHOLE, b.len);
}

static void with_more(void **data)
{
    _cleanup_buf_ struct buf b = BUF_INIT(STATE_MAX);
    struct state s;
    assert_int_equal(state_put(&b, "/", 1, "one\n", "two\n", ""), 0);
    assert_true(state_parse(b.data, b.len, &s));
    assert_string_equal(s.exports, "one\ntwo\n");
}

static void any_piece_missing(void **data)
{
    struct state s;
    for (size_t n = 0; n < sizeof WHOLE; n++)
        assert_false(state_parse(WHOLE, n, &s));
}

static void none(void **data)
{
    struct state s;
    static char folder[PATH_MAX + 32];
    assert_false(state_parse(BYTES("/usr\n\0\0\0end\0x"), &s));
    assert_false(state_parse(BYTES("usr\n\0\0\0end\0"), &s));
    assert_false(state_parse(BYTES("/usr\0\0\0end\0"), &s));
    assert_false(state_parse(BYTES("\n\0\0\0end\0"), &s));
    assert_false(state_parse(BYTES("/\n\0\0\0End\0"), &s));
    memset(folder, '/', PATH_MAX + 2);
    memcpy(folder + PATH_MAX + 2, "\n\0\0\0end", 8);
    assert_false(state_parse(folder, PATH_MAX + 2 + 8, &s));
    memcpy(folder + 2, "\n\0\0\0end", 8);
    assert_true(state_parse(folder, 2 + 8, &s));
}

static void as_large_as_may_be(void **data)
{
    _cleanup_buf_ struct buf b = BUF_INIT(STATE_MAX);
    _cleanup_buf_ struct buf text = BUF_INIT(STATE_MAX);
    size_t most = STATE_MAX - strlen("/") - 2 - 1 - 1 - 4;
    void *at = buf_reserve(&text, most);
    assert_non_null(at);
    memset(at, 'x', most);
    text.len = most - 1;
    assert_int_equal(state_put(&b, "/", 1, buf_cstr(&text), "x", ""), 0);
    assert_int_equal(b.len, STATE_MAX);
    b.len = 0;
    assert_true(state_put(&b, "/", 1, buf_cstr(&text), "xx", "") < 0);
}

static void report(void **data)
{
    struct state_report r;
    state_parse_report(BYTES(""), &r);
    assert_false(r.taken);
    state_parse_report(BYTES("taken"), &r);
    assert_false(r.taken);
    state_parse_report(BYTES("taken\0\0"), &r);
    assert_true(r.taken && !r.gone && r.rest_len == 0);
    state_parse_report(BYTES("taken\0gone\0rest"), &r);
    assert_true(r.taken && r.gone && r.rest_len == 4);
    assert_memory_equal(r.rest, "rest", 4);
    state_parse_report(BYTES("taken\0\0rest"), &r);
    assert_true(r.taken && !r.gone && r.rest_len == 4);
}

static void variables(void **data)
{
    assert_true(state_is_variable("A=1"));
    assert_true(state_is_variable("_a9="));
    assert_false(state_is_variable("A"));
    assert_false(state_is_variable("=x"));
    assert_false(state_is_variable("9A=1"));
    assert_false(state_is_variable("PWD=/"));
    assert_false(state_is_variable("SHELLOPTS=errexit"));
    assert_false(state_is_variable("BASH_FUNC_x%%=() { :; }"));
    assert_true(state_is_foreign("BASH_FUNC_x%%=() { :; }"));
    assert_true(state_is_foreign("a-b=1"));
    assert_false(state_is_foreign("PWD=/"));
    assert_false(state_is_foreign("=x"));
}

static void exports(void **data)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1024);
    state_put_export(&b, "A=it's $x", false);
    state_put_export(&b, "B=", true);
    assert_string_equal(buf_cstr(&b), "declare -x A='it'\\''s $x'\nexport B=''\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),     cmocka_unit_test(put_together_again),
        cmocka_unit_test(with_more), cmocka_unit_test(any_piece_missing),
        cmocka_unit_test(none),      cmocka_unit_test(as_large_as_may_be),
        cmocka_unit_test(report),    cmocka_unit_test(variables),
        cmocka_unit_test(exports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
