/* What was typed before: kept once, in order, by several programs at once, bounded, and for nobody
 * else. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "input.h"

static size_t count_entries(struct input_history *h)
{
    size_t n = 0;
    while (input_history_get(h, n))
        n++;
    return n;
}

static char folder[64];

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hutch-history-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *file(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/input_history", folder);
    return path;
}

static int remove_folder(void **state)
{
    unlink(file());
    return rmdir(folder);
}

static struct input_history *open_history(void)
{
    struct input_history *p;
    assert_int_equal(input_history_new(folder, &p), 0);
    return p;
}

static void test_entries_are_kept_once_in_order(void **state)
{
    struct input_history *p = open_history();
    struct stat st;
    input_history_add(p, "one");
    input_history_add(p, "two\nlines \"quoted\" \xc3\xa4");
    input_history_add(p, "one");
    input_history_add(p, "");
    assert_int_equal(count_entries(p), 2);
    assert_string_equal(input_history_get(p, 0), "one");
    assert_null(input_history_get(p, 2));
    input_history_free(p);
    p = open_history();
    assert_int_equal(count_entries(p), 2);
    assert_string_equal(input_history_get(p, 0), "one");
    assert_string_equal(input_history_get(p, 1), "two\nlines \"quoted\" \xc3\xa4");
    input_history_free(p);
    assert_int_equal(stat(file(), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_search_ignores_case_without_capitals(void **state)
{
    struct input_history *p = open_history();
    input_history_add(p, "fix the Parser");
    input_history_add(p, "run the tests");
    input_history_add(p, "fix the lexer");
    assert_int_equal(input_history_search(p, "fix", 0), 0);
    assert_int_equal(input_history_search(p, "fix", 1), 2);
    assert_int_equal(input_history_search(p, "parser", 0), 2);
    assert_int_equal(input_history_search(p, "Lexer", 0), -1);
    assert_int_equal(input_history_search(p, "fix", 3), -1);
    input_history_free(p);
}

static void test_long_entries_are_not_kept(void **state)
{
    static char much[INPUT_HISTORY_ENTRY_MAX + 2];
    struct input_history *p = open_history();
    memset(much, 'x', INPUT_HISTORY_ENTRY_MAX + 1);
    input_history_add(p, much);
    assert_int_equal(count_entries(p), 0);
    much[INPUT_HISTORY_ENTRY_MAX] = 0;
    input_history_add(p, much);
    assert_int_equal(count_entries(p), 1);
    input_history_free(p);
}

/* Lines that are not JSON strings are skipped, and so is an incomplete last line. */
static void test_damaged_lines_are_skipped(void **state)
{
    FILE *f = fopen(file(), "w");
    fputs("\"good\"\nnot json\n{\"a\": 1}\n\"\"\n\"also good\"\n\"torn", f);
    fclose(f);
    struct input_history *p = open_history();
    assert_int_equal(count_entries(p), 2);
    assert_string_equal(input_history_get(p, 0), "also good");
    input_history_free(p);
}

static void test_file_is_shortened(void **state)
{
    FILE *f = fopen(file(), "w");
    for (int i = 0; i < 13000; i++)
        fprintf(f, "\"entry %d\"\n", i);
    fclose(f);
    struct stat before, after;
    stat(file(), &before);
    struct input_history *p = open_history();
    assert_int_equal(count_entries(p), INPUT_HISTORY_ENTRIES);
    assert_string_equal(input_history_get(p, 0), "entry 12999");
    input_history_add(p, "newest");
    assert_int_equal(count_entries(p), INPUT_HISTORY_ENTRIES);
    input_history_free(p);
    stat(file(), &after);
    assert_true(after.st_size < before.st_size); /* it was made shorter */
    p = open_history();
    assert_string_equal(input_history_get(p, 0), "newest");
    assert_string_equal(input_history_get(p, 1), "entry 12999");
    input_history_free(p);
}

/* Several programs add at once while others make the file shorter: nothing that was added is
 * lost. */
static void test_several_programs_lose_nothing(void **state)
{
    FILE *f = fopen(file(), "w");
    for (int i = 0; i < 13000; i++)
        fprintf(f, "\"old %d\"\n", i);
    fclose(f);
    for (int k = 0; k < 4; k++)
        if (fork() == 0) {
            struct input_history *p;
            char words[32];
            input_history_new(folder, &p);
            for (int i = 0; i < 50; i++) {
                snprintf(words, sizeof words, "%d-%d", k, i);
                input_history_add(p, words);
                if (i == 10)
                    count_entries(p); /* reads, and makes it shorter */
            }
            input_history_free(p);
            _exit(0);
        }
    for (int k = 0; k < 4; k++)
        wait(NULL);
    struct input_history *p = open_history();
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 50; i++) {
            char words[32];
            snprintf(words, sizeof words, "%d-%d", k, i);
            assert_true(input_history_search(p, words, 0) >= 0);
        }
    input_history_free(p);
}

/* Without a writable folder, entries are kept for this run. */
static void test_entries_stay_without_a_folder(void **state)
{
    struct input_history *p;
    input_history_new("/dev/null/nowhere", &p);
    assert_int_equal(count_entries(p), 0);
    input_history_add(p, "x");
    assert_string_equal(input_history_get(p, 0), "x");
    input_history_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_entries_are_kept_once_in_order, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_search_ignores_case_without_capitals, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_long_entries_are_not_kept, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_damaged_lines_are_skipped, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_file_is_shortened, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_several_programs_lose_nothing, make_folder,
                                        remove_folder),
        cmocka_unit_test(test_entries_stay_without_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
