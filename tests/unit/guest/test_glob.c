/* Globs, braces and ignore rules. What git itself says is compared in
 * tests/guest/test_search.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "search/glob.h"

static void matches(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"a", "a", true},
        {"*", "", true},
        {"*", "a/b", false},
        {"*.c", "x.c", true},
        {"*.c", ".c", true},
        {"*.c", "x.cc", false},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"?", "/", false},
        {"a?c", "abc", true},
        {"a/*/c", "a/b/c", true},
        {"a/*/c", "a/b/b/c", false},
        {"**", "a/b/c", true},
        {"**/c", "c", true},
        {"**/c", "a/b/c", true},
        {"**/c", "a/bc", false},
        {"a/**", "a/b", true},
        {"a/**", "a/b/c", true},
        {"a/**", "a", false},
        {"a/**/c", "a/c", true},
        {"a/**/c", "a/x/y/c", true},
        {"a/**/c", "ab/c", false},
        {"a**c", "abbc", true},
        {"a**c", "ab/bc", false},
        {"**/a*/**/b", "x/ab/y/z/b", true},
        {"**/a*/**/b", "x/ab/y/z/bb", false},
        {"**/x/**/x", "x/y/x/y", false},
        {"[abc]", "b", true},
        {"[!abc]", "b", false},
        {"[^abc]", "d", true},
        {"[a-c]x", "bx", true},
        {"[]]", "]", true},
        {"[!]]", "]", false},
        {"[a-]", "-", true},
        {"[z-a]", "z", true},
        {"[z-a]", "m", false},
        {"[\\]]", "]", true},
        {"[[:digit:]]", "7", true},
        {"[[:digit:]]", "x", false},
        {"[[:nonsense:]]", "x", false},
        {"[[:digit]", ":", true},
        {"[!a]", "/", false},
        {"[a", "a", false},
        {"[", "[", false},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"a\\", "a\\", false},
        {"\\a", "a", true},
        {"*a*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool got = glob_match(cases[i].pattern, strlen(cases[i].pattern), cases[i].text,
                              strlen(cases[i].text));
        if (got != cases[i].matches)
            fail_msg("'%s' against '%s' gives %d", cases[i].pattern, cases[i].text, got);
    }
}

static int join(void *data, const char *pattern, size_t n)
{
    char *all = data;
    size_t used = strlen(all);
    snprintf(all + used, 1000 - used, "%s%.*s", used ? "|" : "", (int)n, pattern);
    return 0;
}

static void expands(void **state)
{
    static const char *const cases[][2] = {
        {"a", "a"},
        {"{a,b}", "a|b"},
        {"x{a,b}y", "xay|xby"},
        {"{a,b}{c,d}", "ac|ad|bc|bd"},
        {"{a,{b,c}d}", "a|bd|cd"},
        {"{a,}", "a|"},
        {"{a}", "{a}"},
        {"{a", "{a"},
        {"{a,b", "{a,b"},
        {"a}", "a}"},
        {"\\{a,b}", "\\{a,b}"},
        {"[{]a,b}", "[{]a,b}"},
        {"{a\\,b,c}", "a\\,b|c"},
        {"*.{ts,tsx}", "*.ts|*.tsx"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char all[1000] = "";
        assert_int_equal(glob_expand(cases[i][0], strlen(cases[i][0]), join, all), 0);
        assert_string_equal(all, cases[i][1]);
    }
}

static int count_one(void *data, const char *pattern, size_t n)
{
    ++*(int *)data;
    return 0;
}

static void expansion_ends(void **state)
{
    const char *many = "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"
                       "{a,b}{a,b}{a,b}";
    int n = 0;
    assert_int_equal(glob_expand(many, strlen(many), count_one, &n), -E2BIG);
    assert_int_equal(n, GLOB_ALTERNATIVES_MAX);
    n = 0;
    assert_int_equal(glob_expand("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", 40, count_one, &n), 0);
    assert_int_equal(n, 256);
}

static enum rules_verdict say(const char *text, const char *path, bool folder)
{
    struct rules *r;
    const char *slash = strrchr(path, '/');
    assert_int_equal(rules_parse(text, strlen(text), &r), 0);
    enum rules_verdict said =
        rules_match(r, path, strlen(path), strlen(slash ? slash + 1 : path), folder);
    rules_free(r);
    return said;
}

static void rules_say_what_git_says(void **state)
{
    static const struct {
        const char *rules, *path;
        bool folder;
        enum rules_verdict said;
    } cases[] = {
        {"", "a", false, RULES_NOTHING},
        {"# a\n\n", "a", false, RULES_NOTHING},
        {"a", "a", false, RULES_IGNORE},
        {"a", "x/y/a", false, RULES_IGNORE},
        {"/a", "x/a", false, RULES_NOTHING},
        {"/a", "a", false, RULES_IGNORE},
        {"a/", "a", false, RULES_NOTHING},
        {"a/", "a", true, RULES_IGNORE},
        {"x/a", "x/a", false, RULES_IGNORE},
        {"x/a", "y/x/a", false, RULES_NOTHING},
        {"*.o\n!keep.o", "keep.o", false, RULES_KEEP},
        {"!keep.o\n*.o", "keep.o", false, RULES_IGNORE},
        {"*.o\r\n", "x.o", false, RULES_IGNORE},
        {"a \n", "a", false, RULES_IGNORE},
        {"a\\ \n", "a ", false, RULES_IGNORE},
        {"a\\ \n", "a", false, RULES_NOTHING},
        {"\\#a", "#a", false, RULES_IGNORE},
        {"\\!a", "!a", false, RULES_IGNORE},
        {"!", "!", false, RULES_NOTHING},
        {"/", "a", true, RULES_NOTHING},
        {"**/a", "x/y/a", false, RULES_IGNORE},
        {"a/**", "a/x/y", false, RULES_IGNORE},
        {"a/**", "a", true, RULES_NOTHING},
        {"\xef\xbb\xbf"
         "a",
         "a", false, RULES_IGNORE},
        {"*", "x/y", false, RULES_IGNORE},
        {"/*\n!/src", "src", true, RULES_KEEP},
        {"a*/b", "ax/b", false, RULES_IGNORE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (say(cases[i].rules, cases[i].path, cases[i].folder) != cases[i].said)
            fail_msg("'%s' of %s", cases[i].rules, cases[i].path);
}

static enum filter_verdict ask(const char *const *globs, const char *path, size_t skip, bool folder)
{
    struct filter f = {0};
    struct error err = {0};
    const char *slash = strrchr(path, '/');
    for (; *globs; globs++)
        assert_int_equal(filter_add(&f, *globs, strlen(*globs), &err), 0);
    enum filter_verdict said =
        filter_match(&f, path, strlen(path), skip, strlen(slash ? slash + 1 : path), folder);
    filter_free(&f);
    return said;
}

#define GLOBS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void filter_wants(void **state)
{
    assert_int_equal(ask(GLOBS("*.c"), "x/a.c", 0, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("*.c"), "x/a.h", 0, false), FILTER_LACKS);
    assert_int_equal(ask(GLOBS("!*.c"), "x/a.c", 0, false), FILTER_REFUSES);
    assert_int_equal(ask(GLOBS("!*.c"), "x/a.h", 0, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("*.c", "!x.*"), "x.c", 0, false), FILTER_REFUSES);
    assert_int_equal(ask(GLOBS("!x.*", "*.c"), "x.c", 0, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("*.{c,h}"), "a.h", 0, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("src/*.c"), "src/a.c", 0, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("./src/*.c"), "src/a.c", 0, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("*.c"), "src", 0, true), FILTER_LACKS);
    assert_int_equal(ask(GLOBS("!src/"), "src", 0, true), FILTER_REFUSES);
    assert_int_equal(ask(GLOBS("src/"), "src/deep/a.c", 0, false), FILTER_WANTS);
    /* Tied to the folder of the request as well as to the root. */
    assert_int_equal(ask(GLOBS("lib/*.c"), "src/lib/a.c", 4, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("src/lib/*.c"), "src/lib/a.c", 4, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("#x*"), "#xy", 0, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("x "), "x ", 0, false), FILTER_WANTS);
    assert_int_equal(ask(GLOBS("!{a,b}"), "b", 0, false), FILTER_REFUSES);
}

static void filter_has_limits(void **state)
{
    char *glob = malloc(5000);
    struct filter f = {0};
    struct error err = {0};
    assert_non_null(glob);
    memset(glob, 'a', 5000);
    assert_int_equal(filter_add(&f, glob, 5000, &err), -EINVAL);
    assert_int_equal(filter_add(&f, "", 0, &err), -EINVAL);
    assert_int_equal(filter_add(&f, "!", 1, &err), -EINVAL);
    filter_free(&f);
    free(glob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches),        cmocka_unit_test(expands),
        cmocka_unit_test(expansion_ends), cmocka_unit_test(rules_say_what_git_says),
        cmocka_unit_test(filter_wants),   cmocka_unit_test(filter_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
