/* Which files of a folder changed between two looks: its limits and what it leaves out. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent_session.h"

static char folder[64];

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0755);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void take_away(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

/* `~path` changed, `+path` added, `-path` deleted, each with a blank behind. */
static void expect(struct folder_watch *w, int64_t since, const char *expected)
{
    struct folder_changes c = {0};
    char text[4096] = "";
    assert_int_equal(folder_watch_look(w, since, &c), 0);
    for (size_t i = 0; i < c.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%c%s ", "~+-"[c.items[i].kind],
                 c.items[i].path);
    folder_changes_free(&c);
    assert_string_equal(text, expected);
}

static int set_up(void **state)
{
    snprintf(folder, sizeof folder, "/dev/shm/hutch-watch-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    *state = folder_watch_new(folder);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];
    folder_watch_free(*state);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void test_changes_between_looks(void **state)
{
    put("a", "1");
    put("d/b", "1");
    put("gone", "1");
    folder_watch_begin(*state);
    expect(*state, 0, "");
    put("a", "22");
    put("d/c", "1");
    take_away("gone");
    expect(*state, 0, "~a +d/c -gone ");
    expect(*state, 0, "");
}

static void test_first_look_goes_by_time(void **state)
{
    struct stat st;
    char path[128];
    put("old", "1");
    snprintf(path, sizeof path, "%s/old", folder);
    assert_int_equal(stat(path, &st), 0);
    int64_t since = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    do
        put("new", "1"); /* the clock of the filesystem ticks now and then */
    while (snprintf(path, sizeof path, "%s/new", folder) && stat(path, &st) == 0 &&
           (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec <= since);
    expect(*state, since, "~new ");
    expect(*state, since, "");
}

static void test_accepted_paths_are_no_changes(void **state)
{
    put("a", "1");
    put("gone", "1");
    expect(*state, INT64_MAX, "");
    put("a", "22");
    put("new", "1");
    take_away("gone");
    folder_watch_accept(*state, "a");
    folder_watch_accept(*state, "new");
    folder_watch_accept(*state, "gone");
    expect(*state, 0, "");
    put("a", "333");
    folder_watch_accept(*state, "a");
    put("a", "4444");
    put("gone", "again");
    expect(*state, 0, "~a +gone ");
}

static void test_folders_of_programs_are_left_out(void **state)
{
    expect(*state, INT64_MAX, "");
    put(".git/config", "1");
    put("node_modules/x/y.js", "1");
    put("a/__pycache__/z.pyc", "1");
    put(".gitignore", "1");
    expect(*state, 0, "+.gitignore ");
}

static void test_links_are_not_followed(void **state)
{
    char link[128];
    put("d/f", "1");
    expect(*state, INT64_MAX, "");
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("d", link), 0);
    expect(*state, 0, "+link ");
}

static void test_after_too_many_entries_only_common_files_count(void **state)
{
    char name[128];
    put("0", "1");
    for (unsigned i = 0; i < FOLDER_ENTRIES_MAX + 10; i++) {
        snprintf(name, sizeof name, "%s/d%03u", folder, i / 1000);
        if (i % 1000 == 0)
            assert_int_equal(mkdir(name, 0755), 0);
        snprintf(name, sizeof name, "%s/d%03u/%03u", folder, i / 1000, i % 1000);
        assert_int_equal(mknod(name, S_IFREG | 0644, 0), 0);
    }
    expect(*state, INT64_MAX, "");
    put("new", "1");
    take_away("d000/000");
    struct folder_changes c = {0};
    assert_int_equal(folder_watch_look(*state, 0, &c), 0);
    for (size_t i = 0; i < c.count; i++)
        assert_int_equal(c.items[i].kind, FOLDER_CHANGED);
    folder_changes_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_changes_between_looks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_first_look_goes_by_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_accepted_paths_are_no_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders_of_programs_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_after_too_many_entries_only_common_files_count, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
