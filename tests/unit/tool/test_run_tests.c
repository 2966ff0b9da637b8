/* Finding a test runner in a shell command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run_tests.h"
#include "text.h"

/* The command as its words, with | between simple commands. */
static void check_words(const char *text, const char *expected)
{
    _cleanup_shell_line_ struct shell_line *l = NULL;
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    assert_int_equal(shell_line_parse(text, &l), 0);
    for (size_t i = 0; i < l->n_commands; i++) {
        buf_append_str(&b, i ? " | " : "");
        for (size_t w = 0; w < l->commands[i].count; w++)
            buf_printf(&b, "%s%s", w ? " " : "", l->words[l->commands[i].first + w].text);
    }
    assert_string_equal(buf_cstr(&b), expected);
}

static void words(void **state)
{
    check_words("", "");
    check_words("  pytest -q  ", "pytest -q");
    check_words("a b; c && d || e & f\ng | h", "a b | c | d | e | f | g | h");
    check_words("'a b' \"c d\"e f\\ g", "a b c de f g");
    check_words("a >out 2>&1 b <in &>both c", "a b c");
    check_words("if a; then b; else c; fi", "a | b | c");
    check_words("( a b ) && { c; }", "a b | c");
    check_words("a # b\nc", "a | c");
    check_words("a $(b; c \")\") `d;e` ${f:-;} g", "a    g");
    check_words("a \\\n b", "a b");
    check_words("a ''", "a ");
    check_words("! a", "a");
}

static void words_that_are_none(void **state)
{
    static const char *const OPEN[] = {"'", "a \"b", "$(", "`x", "a ${b", "$( '"};
    struct shell_line *l = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(OPEN); i++)
        assert_int_equal(shell_line_parse(OPEN[i], &l), -EINVAL);
    char many[4 * SHELL_WORDS_MAX];
    for (size_t i = 0; i < sizeof many - 1; i++)
        many[i] = i % 2 ? ' ' : 'a';
    many[sizeof many - 1] = 0;
    assert_int_equal(shell_line_parse(many, &l), -E2BIG);
    for (size_t i = 0; i < sizeof many - 1; i++)
        many[i] = i % 2 ? ';' : 'a';
    assert_int_equal(shell_line_parse(many, &l), -E2BIG);
    assert_null(l);
}

static void places_are_those_of_the_text(void **state)
{
    static const char TEXT[] = "x; 'py'test  -q >out | cat";
    _cleanup_shell_line_ struct shell_line *l = NULL;
    assert_int_equal(shell_line_parse(TEXT, &l), 0);
    assert_int_equal(l->n_commands, 3);
    assert_int_equal(l->words[1].begin, 3);
    assert_int_equal(l->words[1].end, 11);
    assert_int_equal(l->commands[1].end, strlen("x; 'py'test  -q >out"));
    assert_true(l->commands[1].piped);
    assert_false(l->commands[2].piped);
}

/* The runner of the first command that has one, and the word that options go behind. */
static void check_runner(const char *text, const char *framework, const char *behind)
{
    _cleanup_shell_line_ struct shell_line *l = NULL;
    assert_int_equal(shell_line_parse(text, &l), 0);
    const struct runner *r = NULL;
    size_t at = 0;
    for (size_t i = 0; i < l->n_commands && !r; i++)
        r = runner_find(l, &l->commands[i], &at);
    if (!framework) {
        assert_null(r);
        return;
    }
    if (!r)
        fail_msg("%s: no runner was found", text);
    assert_string_equal(r->framework, framework);
    assert_string_equal(l->words[at - 1].text, behind);
}

static void runners(void **state)
{
    check_runner("pytest", "pytest", "pytest");
    check_runner("cd x && .venv/bin/pytest -q", "pytest", ".venv/bin/pytest");
    check_runner("python3.12 -X dev -W error -m pytest a", "pytest", "pytest");
    check_runner("A=1 B='2 3' python -u -m unittest -v", "unittest", "unittest");
    check_runner("timeout -k 5 60 env -i A=b pytest", "pytest", "pytest");
    check_runner("coverage run -m pytest x", "pytest", "pytest");
    check_runner("uv run pytest", "pytest", "pytest");
    check_runner("poetry run python -m pytest", "pytest", "pytest");
    check_runner("npx --yes jest --ci", "jest", "jest");
    check_runner("cargo +nightly test --lib", "cargo", "test");
    check_runner("cargo nextest run", "nextest", "run");
    check_runner("go test ./...", "go", "test");
    check_runner("node --import tsx --test a.js", "node", "--test");
    check_runner("npm --prefix web test", "npm", "test");
    check_runner("meson test -C build", "meson", "test");
    check_runner("(cd build; ctest)", "ctest", "ctest");
    check_runner("make -C x check", "make", "make");
    check_runner("./gradlew test", "gradle", "./gradlew");
    check_runner("vendor/bin/phpunit", "phpunit", "vendor/bin/phpunit");
}

static void no_runners(void **state)
{
    static const char *const NONE[] = {
        "echo pytest",    "cat pytest.ini", "'pytest -q'",   "go build",        "cargo build",
        "python test.py", "node a.js",      "meson setup b", "grep -r ctest .", "$pytest",
        "# pytest",       "timeout 5",      "env",           ">pytest true"};
    for (size_t i = 0; i < ARRAY_SIZE(NONE); i++)
        check_runner(NONE[i], NULL, NULL);
}

static void quoting(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(256);
    shell_quote(&b, "it's $HOME");
    assert_string_equal(buf_cstr(&b), "'it'\\''s $HOME'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(words_that_are_none),
        cmocka_unit_test(places_are_those_of_the_text),
        cmocka_unit_test(runners),
        cmocka_unit_test(no_runners),
        cmocka_unit_test(quoting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
