/* What the user enters: commands, shell commands, messages; and completion of all of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "chat_command.h"

static void expect(const char *said, const struct chat_command *command, unsigned n,
                   const char *text)
{
    struct chat_entry l = {0};
    struct error err = {0};
    assert_int_equal(chat_entry_parse(said, &l, &err), 0);
    assert_ptr_equal(l.command, command);
    assert_int_equal(l.n, n);
    if (text)
        assert_string_equal(l.text, text);
    else
        assert_null(l.text);
    chat_entry_free(&l);
}

static void test_parse_accepts_commands_shell_and_messages(void **state)
{
    expect("", NULL, 0, NULL);
    expect(" \n\t", NULL, 0, NULL);
    expect("  fix it \n", &CHAT_MESSAGE, 0, "fix it");
    expect("/undo", &CHAT_UNDO, 0, NULL);
    expect(" /undo  2 ", &CHAT_UNDO, 2, NULL);
    expect("/fork 3", &CHAT_FORK, 3, NULL);
    expect("/LOAD 20260101-000000", &CHAT_LOAD, 0, "20260101-000000");
    expect("/resume last", &CHAT_LOAD, 0, "last");
    expect("/exit", &CHAT_QUIT, 0, NULL);
    expect("/model", &CHAT_MODEL, 0, NULL);
    expect("/model a/b c", &CHAT_MODEL, 0, "a/b c");
    expect("/attempts", &CHAT_ATTEMPTS, 0, NULL);
    expect("/attempts off", &CHAT_ATTEMPTS, 1, NULL);
    expect("/attempts 3 make  test", &CHAT_ATTEMPTS, 3, "make  test");
    expect("/apply", &CHAT_APPLY, 0, NULL);
    expect("/apply theirs", &CHAT_APPLY, 2, NULL);
    expect("/apply  mine  a.c b/c", &CHAT_APPLY, 1, "a.c b/c");
    expect("/apply minefield", &CHAT_APPLY, 0, "minefield");
    expect("/sync markers", &CHAT_SYNC, 3, NULL);
    expect("/sync a b", &CHAT_SYNC, 0, "a b");
    expect("!ls -l | wc", &CHAT_SHELL, 0, "ls -l | wc");
    expect("!", &CHAT_MESSAGE, 0, "!");
    expect("/etc/passwd is odd", &CHAT_MESSAGE, 0, "/etc/passwd is odd");
    expect("/ is the root", &CHAT_MESSAGE, 0, "/ is the root");
    expect("/* a comment", &CHAT_MESSAGE, 0, "/* a comment");
}

static void refuse(const char *said, const char *why)
{
    struct chat_entry l = {.command = &CHAT_QUIT};
    struct error err = {0};
    assert_int_equal(chat_entry_parse(said, &l, &err), -EINVAL);
    assert_ptr_equal(l.command, &CHAT_QUIT);
    assert_non_null(strstr(err.text, why));
}

static void test_parse_refuses_wrong_commands(void **state)
{
    refuse("/unod", "did you mean /undo?");
    refuse("/xyzzyx", "see /help");
    refuse("/undo x", "not a number");
    refuse("/undo 0", "not a number");
    refuse("/undo -1", "not a number");
    refuse("/load", "needs ID");
    refuse("/diff now", "takes no arguments");
    refuse("/attempts 3", "is missing");
    refuse("/attempts 1 true", "from 2 to 16");
    refuse("/attempts 17 true", "from 2 to 16");
    refuse("/attempts many true", "not a number");
}

static void test_help_lists_every_command(void **state)
{
    struct buf out = BUF_INIT(16384);
    assert_int_equal(chat_command_help(&out), 0);
    const char *text = buf_cstr(&out);
    for (const struct chat_command *const *c = CHAT_COMMANDS; *c; c++) {
        assert_ptr_equal(chat_command_find((*c)->name, strlen((*c)->name)), *c);
        assert_non_null(strstr(text, (*c)->name));
        assert_non_null(strstr(text, (*c)->help));
    }
    buf_free(&out);
}

static void test_completion_ranks_names(void **state)
{
    assert_int_equal(completion_score("xyz", 3, "src/main.c"), -1);
    assert_true(completion_score("1118-07", 7, "1118-07") >
                completion_score("1118-07", 7, "1118-07-2"));
    assert_true(completion_score("main", 4, "src/main.c") >
                completion_score("main", 4, "src/my_alpha_inner.c"));
    assert_true(completion_score("main", 4, "src/main.c") >
                completion_score("main", 4, "main_stuff/other.c"));
    assert_true(completion_score("sm", 2, "src/main.c") != -1);
    assert_int_equal(completion_score("Main", 4, "main.c"), -1); /* a capital means it */
    assert_true(completion_score("readme", 6, "README.md") != -1);
    assert_true(completion_score("", 0, "a") > completion_score("", 0, "a/long/name"));
}

static struct completion complete(const char *text, const struct completion_names *from)
{
    struct completion c;
    completion_find(text, strlen(text), strlen(text), from, &c);
    return c;
}

static void test_completion_of_commands(void **state)
{
    struct completion_names none = {0};
    struct completion c = complete("/", &none);
    for (size_t i = 0; CHAT_COMMANDS[i]; i++) /* all, in the order of the table */
        assert_string_equal(c.names[i], CHAT_COMMANDS[i]->name);
    c = complete("/un", &none);
    assert_string_equal(c.names[0], "undo");
    assert_int_equal(c.from, 1);
    assert_int_equal(c.to, 3);
    assert_true(c.automatic && strlen(c.details[0]) > 0);
    c = complete("/un 3", &none);
    assert_int_equal(c.n, 0);
    c = complete("do /un", &none);
    assert_false(c.automatic);
}

static void test_completion_of_files(void **state)
{
    struct completion_names from = {0};
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
    assert_false(c.automatic); /* only when Tab asks for it */
    c = complete("look at main", &from);
    assert_int_equal(c.n, 0);
    json_decref(from.files);
}

static void test_completion_of_arguments(void **state)
{
    struct completion_names from = {.models = json_pack("[s, s]", "anthropic/one", "openai/two")};
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
static void test_completion_offers_the_best_of_many(void **state)
{
    struct completion_names from = {.files = json_array()};
    for (int i = 0; i < 20000; i++)
        json_array_append_new(from.files, json_sprintf("folder%d/file%d.c", i % 100, i));
    json_array_append_new(from.files, json_string("target.c"));
    struct completion c = complete("@target", &from);
    assert_string_equal(c.names[0], "target.c");
    c = complete("@file", &from);
    assert_int_equal(c.n, COMPLETION_MAX);
    json_decref(from.files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_accepts_commands_shell_and_messages),
        cmocka_unit_test(test_parse_refuses_wrong_commands),
        cmocka_unit_test(test_help_lists_every_command),
        cmocka_unit_test(test_completion_ranks_names),
        cmocka_unit_test(test_completion_of_commands),
        cmocka_unit_test(test_completion_of_files),
        cmocka_unit_test(test_completion_of_arguments),
        cmocka_unit_test(test_completion_offers_the_best_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
