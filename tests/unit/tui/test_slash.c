/* What a person enters: commands, shell commands, words; and completion of all of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "complete.h"
#include "fuzzy.h"
#include "slash.h"

static void expect(const char *said, enum job_kind kind, unsigned n, const char *text)
{
    struct job j = {0};
    struct error err = {0};
    assert_int_equal(slash_parse(said, &j, &err), 0);
    assert_int_equal(j.kind, kind);
    assert_int_equal(j.n, n);
    if (text)
        assert_string_equal(j.text, text);
    else
        assert_null(j.text);
    job_free(&j);
}

static void test_parse(void **state)
{
    expect("", JOB_NONE, 0, NULL);
    expect(" \n\t", JOB_NONE, 0, NULL);
    expect("  fix it \n", JOB_SAY, 0, "fix it");
    expect("/undo", JOB_UNDO, 0, NULL);
    expect(" /undo  2 ", JOB_UNDO, 2, NULL);
    expect("/fork 3", JOB_FORK, 3, NULL);
    expect("/LOAD 20260101-000000", JOB_LOAD, 0, "20260101-000000");
    expect("/resume last", JOB_LOAD, 0, "last");
    expect("/exit", JOB_QUIT, 0, NULL);
    expect("/model", JOB_MODEL, 0, NULL);
    expect("/model a/b c", JOB_MODEL, 0, "a/b c");
    expect("/attempts", JOB_ATTEMPTS, 0, NULL);
    expect("/attempts off", JOB_ATTEMPTS, 1, NULL);
    expect("/attempts 3 make  test", JOB_ATTEMPTS, 3, "make  test");
    expect("/apply", JOB_APPLY, 0, NULL);
    expect("/apply theirs", JOB_APPLY, 2, NULL);
    expect("/apply  mine  a.c b/c", JOB_APPLY, 1, "a.c b/c");
    expect("/apply minefield", JOB_APPLY, 0, "minefield");
    expect("/sync markers", JOB_SYNC, 3, NULL);
    expect("/sync a b", JOB_SYNC, 0, "a b");
    expect("!ls -l | wc", JOB_SHELL, 0, "ls -l | wc");
    expect("!", JOB_SAY, 0, "!");
    expect("/etc/passwd is odd", JOB_SAY, 0, "/etc/passwd is odd");
    expect("/ is the root", JOB_SAY, 0, "/ is the root");
    expect("/* a comment", JOB_SAY, 0, "/* a comment");
}

static void refuse(const char *said, const char *why)
{
    struct job j = {.kind = JOB_QUIT};
    struct error err = {0};
    assert_int_equal(slash_parse(said, &j, &err), -EINVAL);
    assert_int_equal(j.kind, JOB_QUIT);
    assert_non_null(strstr(err.text, why));
}

static void test_refuse(void **state)
{
    refuse("/unod", "did you mean /undo?");
    refuse("/xyzzyx", "/help lists them");
    refuse("/undo x", "not a number");
    refuse("/undo 0", "not a number");
    refuse("/undo -1", "not a number");
    refuse("/load", "needs ID");
    refuse("/diff now", "takes nothing");
    refuse("/attempts 3", "is missing");
    refuse("/attempts 1 true", "from 2 to 16");
    refuse("/attempts 17 true", "from 2 to 16");
    refuse("/attempts many true", "not a number");
}

static void test_help(void **state)
{
    struct buf out = BUF_INIT(16384);
    assert_int_equal(slash_help(&out), 0);
    const char *text = buf_cstr(&out);
    for (const struct slash *s = SLASHES; s->name; s++) {
        assert_ptr_equal(slash_find(s->name, strlen(s->name)), s);
        assert_non_null(strstr(text, s->name));
        assert_non_null(strstr(text, s->help));
    }
    buf_free(&out);
}

static void test_fuzzy(void **state)
{
    assert_int_equal(fuzzy_score("xyz", 3, "src/main.c"), FUZZY_NONE);
    assert_true(fuzzy_score("1118-07", 7, "1118-07") > fuzzy_score("1118-07", 7, "1118-07-2"));
    assert_true(fuzzy_score("main", 4, "src/main.c") >
                fuzzy_score("main", 4, "src/my_alpha_inner.c"));
    assert_true(fuzzy_score("main", 4, "src/main.c") >
                fuzzy_score("main", 4, "main_stuff/other.c"));
    assert_true(fuzzy_score("sm", 2, "src/main.c") != FUZZY_NONE);
    assert_int_equal(fuzzy_score("Main", 4, "main.c"), FUZZY_NONE); /* a capital means it */
    assert_true(fuzzy_score("readme", 6, "README.md") != FUZZY_NONE);
    assert_true(fuzzy_score("", 0, "a") > fuzzy_score("", 0, "a/long/name"));
}

static struct completion complete(const char *text, const struct complete_from *from)
{
    struct completion c;
    complete_find(text, strlen(text), strlen(text), from, &c);
    return c;
}

static void test_complete_commands(void **state)
{
    struct complete_from none = {0};
    struct completion c = complete("/", &none);
    for (size_t i = 0; SLASHES[i].name; i++) /* all, in the order of the table */
        assert_string_equal(c.names[i], SLASHES[i].name);
    c = complete("/un", &none);
    assert_string_equal(c.names[0], "undo");
    assert_int_equal(c.from, 1);
    assert_int_equal(c.to, 3);
    assert_true(c.by_itself && strlen(c.details[0]) > 0);
    c = complete("/un 3", &none);
    assert_int_equal(c.n, 0);
    c = complete("do /un", &none);
    assert_false(c.by_itself);
}

static void test_complete_files(void **state)
{
    struct complete_from from = {0};
    struct completion c = complete("look at @", &from);
    assert_int_equal(c.n, 0);
    assert_int_equal(c.wants, WANTS_FILES);
    from.files = json_pack("[s, s, s]", "README.md", "src/", "src/main.c");
    c = complete("look at @main", &from);
    assert_int_equal(c.n, 1);
    assert_string_equal(c.names[0], "src/main.c");
    assert_int_equal(c.from, 9);
    c = complete("look at src/m", &from);
    assert_string_equal(c.names[0], "src/main.c");
    assert_int_equal(c.from, 8);
    assert_false(c.by_itself); /* only when Tab asks for it */
    c = complete("look at main", &from);
    assert_int_equal(c.n, 0);
    json_decref(from.files);
}

static void test_complete_arguments(void **state)
{
    struct complete_from from = {.models = json_pack("[s, s]", "anthropic/one", "openai/two")};
    struct completion c = complete("/load 2", &from);
    assert_int_equal(c.wants, WANTS_SESSIONS);
    from.sessions = json_pack("[[s, s], [s, s]]", "20260101-1", "first", "20260202-2", "second");
    c = complete("/load 202602", &from);
    assert_string_equal(c.names[0], "20260202-2");
    assert_string_equal(c.details[0], "second");
    c = complete("/model two", &from);
    assert_int_equal(c.n, 1);
    assert_string_equal(c.names[0], "openai/two");
    json_decref(from.models);
    json_decref(from.sessions);
}

/* Many files: the best are offered, and no more than fit. */
static void test_complete_many(void **state)
{
    struct complete_from from = {.files = json_array()};
    for (int i = 0; i < 20000; i++)
        json_array_append_new(from.files, json_sprintf("folder%d/file%d.c", i % 100, i));
    json_array_append_new(from.files, json_string("target.c"));
    struct completion c = complete("@target", &from);
    assert_string_equal(c.names[0], "target.c");
    c = complete("@file", &from);
    assert_int_equal(c.n, COMPLETE_MAX);
    json_decref(from.files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_refuse),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_fuzzy),
        cmocka_unit_test(test_complete_commands),
        cmocka_unit_test(test_complete_files),
        cmocka_unit_test(test_complete_arguments),
        cmocka_unit_test(test_complete_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
