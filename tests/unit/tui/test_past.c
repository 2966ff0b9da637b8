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

#include "past.h"

static char folder[64];

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hutch-past-XXXXXX");
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

static struct past *open_past(void)
{
    struct past *p;
    assert_int_equal(past_new(folder, &p), 0);
    return p;
}

static void test_kept(void **state)
{
    struct past *p = open_past();
    struct stat st;
    past_add(p, "one");
    past_add(p, "two\nlines \"quoted\" \xc3\xa4");
    past_add(p, "one");
    past_add(p, "");
    assert_int_equal(past_count(p), 2);
    assert_string_equal(past_get(p, 0), "one");
    assert_null(past_get(p, 2));
    past_free(p);
    p = open_past();
    assert_int_equal(past_count(p), 2);
    assert_string_equal(past_get(p, 0), "one");
    assert_string_equal(past_get(p, 1), "two\nlines \"quoted\" \xc3\xa4");
    past_free(p);
    assert_int_equal(stat(file(), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_search(void **state)
{
    struct past *p = open_past();
    past_add(p, "fix the Parser");
    past_add(p, "run the tests");
    past_add(p, "fix the lexer");
    assert_int_equal(past_search(p, "fix", 0), 0);
    assert_int_equal(past_search(p, "fix", 1), 2);
    assert_int_equal(past_search(p, "parser", 0), 2);
    assert_int_equal(past_search(p, "Lexer", 0), -1);
    assert_int_equal(past_search(p, "fix", 3), -1);
    past_free(p);
}

static void test_long_ones_are_not_kept(void **state)
{
    static char much[PAST_ENTRY_MAX + 2];
    struct past *p = open_past();
    memset(much, 'x', PAST_ENTRY_MAX + 1);
    past_add(p, much);
    assert_int_equal(past_count(p), 0);
    much[PAST_ENTRY_MAX] = 0;
    past_add(p, much);
    assert_int_equal(past_count(p), 1);
    past_free(p);
}

/* Lines that are not ours are passed over; a torn last one, too. */
static void test_damaged(void **state)
{
    FILE *f = fopen(file(), "w");
    fputs("\"good\"\nnot json\n{\"a\": 1}\n\"\"\n\"also good\"\n\"torn", f);
    fclose(f);
    struct past *p = open_past();
    assert_int_equal(past_count(p), 2);
    assert_string_equal(past_get(p, 0), "also good");
    past_free(p);
}

static void test_bounded(void **state)
{
    FILE *f = fopen(file(), "w");
    for (int i = 0; i < 13000; i++)
        fprintf(f, "\"entry %d\"\n", i);
    fclose(f);
    struct stat before, after;
    stat(file(), &before);
    struct past *p = open_past();
    assert_int_equal(past_count(p), PAST_ENTRIES);
    assert_string_equal(past_get(p, 0), "entry 12999");
    past_add(p, "newest");
    assert_int_equal(past_count(p), PAST_ENTRIES);
    past_free(p);
    stat(file(), &after);
    assert_true(after.st_size < before.st_size); /* it was made shorter */
    p = open_past();
    assert_string_equal(past_get(p, 0), "newest");
    assert_string_equal(past_get(p, 1), "entry 12999");
    past_free(p);
}

/* Several programs add at once while others make the file shorter: nothing that was added is lost.
 */
static void test_several_programs(void **state)
{
    FILE *f = fopen(file(), "w");
    for (int i = 0; i < 13000; i++)
        fprintf(f, "\"old %d\"\n", i);
    fclose(f);
    for (int k = 0; k < 4; k++)
        if (fork() == 0) {
            struct past *p;
            char words[32];
            past_new(folder, &p);
            for (int i = 0; i < 50; i++) {
                snprintf(words, sizeof words, "%d-%d", k, i);
                past_add(p, words);
                if (i == 10)
                    past_count(p); /* reads, and makes it shorter */
            }
            past_free(p);
            _exit(0);
        }
    for (int k = 0; k < 4; k++)
        wait(NULL);
    struct past *p = open_past();
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 50; i++) {
            char words[32];
            snprintf(words, sizeof words, "%d-%d", k, i);
            assert_true(past_search(p, words, 0) >= 0);
        }
    past_free(p);
}

/* Where nothing can be written, it still remembers. */
static void test_no_folder(void **state)
{
    struct past *p;
    past_new("/dev/null/nowhere", &p);
    assert_int_equal(past_count(p), 0);
    past_add(p, "x");
    assert_string_equal(past_get(p, 0), "x");
    past_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_search, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_long_ones_are_not_kept, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_damaged, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_bounded, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_several_programs, make_folder, remove_folder),
        cmocka_unit_test(test_no_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
