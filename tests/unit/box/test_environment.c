/* A command's environment: made up, each variable once, the later one winning, nothing of the
 * host's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "exec.h"

#define VARIABLES_MAX 64

struct variables {
    struct buf frame;
    char *list[VARIABLES_MAX];
    size_t count;
};

static void free_variables(struct variables *v)
{
    while (v->count > 0)
        free(v->list[--v->count]);
    buf_free(&v->frame);
}

static void make(struct variables *v, char *const *box, char *const *command, bool tty)
{
    struct wire_frame f;
    struct wire_field field;
    *v = (struct variables){.frame = BUF_INIT(WIRE_BODY_MAX)};
    size_t begin = wire_begin(&v->frame, WIRE_EXEC);
    environment_put(&v->frame, box, command, tty, false);
    wire_end(&v->frame, begin);
    assert_true(wire_parse(v->frame.data, v->frame.len, &f) > 0);
    for (size_t at = 0; wire_next(&f, &at, &field);) {
        assert_int_equal(field.key, WIRE_K_ENV);
        assert_true(v->count < VARIABLES_MAX);
        v->list[v->count++] = strndup((const char *)field.data, field.size);
    }
}

/* The value, which must be there once; or NULL. */
static const char *value_of(const struct variables *v, const char *name)
{
    const char *value = NULL;
    size_t n = strlen(name);
    for (size_t i = 0; i < v->count; i++)
        if (strncmp(v->list[i], name, n) == 0 && v->list[i][n] == '=') {
            assert_null(value);
            value = v->list[i] + n + 1;
        }
    return value;
}

static char *const NONE[] = {NULL};

static void test_made_up(void **state)
{
    _cleanup_(free_variables) struct variables v;
    make(&v, NONE, NULL, false);
    assert_string_equal(value_of(&v, "HOME"), "/home/agent");
    assert_string_equal(value_of(&v, "USER"), "agent");
    assert_string_equal(value_of(&v, "TMPDIR"), "/tmp");
    assert_string_equal(value_of(&v, "TERM"), "dumb");
    assert_non_null(strstr(value_of(&v, "PATH"), "/usr/bin"));
}

static void test_nothing_of_the_host(void **state)
{
    _cleanup_(free_variables) struct variables v;
    setenv("ANTHROPIC_API_KEY", "secret", 1);
    setenv("SSH_AUTH_SOCK", "/secret", 1);
    setenv("HOME", "/secret", 1);
    setenv("PATH", "/secret", 1);
    make(&v, NONE, NONE, true);
    for (size_t i = 0; i < v.count; i++)
        assert_null(strstr(v.list[i], "secret"));
    assert_null(value_of(&v, "SSH_AUTH_SOCK"));
}

static void test_later_wins(void **state)
{
    const char *const box[] = {"A=1", "B=1", "A=2", "HOME=/box", "PATHS=x", NULL};
    const char *const command[] = {"B=3", "B=4", "HOME=/command", "C=", "TERM=vt100", NULL};
    _cleanup_(free_variables) struct variables v;
    make(&v, (char *const *)box, (char *const *)command, true);
    assert_string_equal(value_of(&v, "A"), "2");
    assert_string_equal(value_of(&v, "B"), "4");
    assert_string_equal(value_of(&v, "C"), "");
    assert_string_equal(value_of(&v, "HOME"), "/command");
    assert_string_equal(value_of(&v, "TERM"), "vt100");
    assert_string_equal(value_of(&v, "PATHS"), "x"); /* no other name that begins alike */
    assert_non_null(strstr(value_of(&v, "PATH"), "/usr/bin"));
}

static void assert_term(const char *host, bool tty, const char *expected)
{
    _cleanup_(free_variables) struct variables v;
    setenv("TERM", host, 1);
    make(&v, NULL, NULL, tty);
    assert_string_equal(value_of(&v, "TERM"), expected);
}

/* The host's terminal is named to a command that has one, if it is a name at all. */
static void test_term(void **state)
{
    char longest[] = "TERM-of-58-bytes-0123456789012345678901234567890123456789x";
    char longer[] = "TERM-of-59-bytes-0123456789012345678901234567890123456789xy";
    assert_int_equal(strlen(longest), 58);
    assert_term("xterm-256color", true, "xterm-256color");
    assert_term("xterm-256color", false, "dumb");
    assert_term("", true, "dumb");
    assert_term("x y", true, "dumb");
    assert_term("x\033[31m", true, "dumb");
    assert_term("../x", true, "dumb");
    assert_term(longest, true, longest);
    assert_term(longer, true, "dumb");
    unsetenv("TERM");
    _cleanup_(free_variables) struct variables v;
    make(&v, NULL, NULL, true);
    assert_string_equal(value_of(&v, "TERM"), "dumb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_up),
        cmocka_unit_test(test_nothing_of_the_host),
        cmocka_unit_test(test_later_wins),
        cmocka_unit_test(test_term),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
