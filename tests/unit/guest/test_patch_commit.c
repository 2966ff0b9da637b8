/* Writing what a diff changes: if another process changes something between reading and writing,
 * nothing is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "patch/patch.h"

/* A folder with files in it. */
struct folder {
    char path[64];
    int root;
};

static void put(struct folder *p, const char *name, const char *text)
{
    int fd = openat(p->root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void file_is(struct folder *p, const char *name, const char *expected)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    int r = io_read_file(p->root, name, &b);
    if (!expected) {
        assert_true(r == -ENOENT || r == -ENOTDIR);
        return;
    }
    assert_int_equal(r, 0);
    assert_string_equal(b.len ? buf_cstr(&b) : "", expected);
}

static size_t count_names(struct folder *p)
{
    size_t n = 0;
    DIR *d = opendir(p->path);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static int setup(void **state)
{
    struct folder *p = calloc(1, sizeof *p);
    snprintf(p->path, sizeof p->path, "/tmp/hutch-unit-XXXXXX");
    assert_non_null(mkdtemp(p->path));
    p->root = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(p, "a", "one\ntwo\n");
    put(p, "b", "three\n");
    mkdirat(p->root, "d", 0755);
    put(p, "d/c", "four\n");
    *state = p;
    return 0;
}

static void remove_all(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            unlinkat(fd, e->d_name, 0) < 0)
            remove_all(fd, e->d_name);
    if (d)
        closedir(d);
    unlinkat(dir, name, AT_REMOVEDIR);
}

static int teardown(void **state)
{
    struct folder *p = *state;
    close(p->root);
    remove_all(AT_FDCWD, p->path);
    free(p);
    return 0;
}

static void unexpected(void *data, const struct patch_reject *r)
{
    fail_msg("%s: %s", r->path, r->reason);
}

#define DIFF                                                                                       \
    "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"                                        \
    "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-three\n"                                              \
    "diff --git a/d/c b/e/f/c\nsimilarity index 100%\nrename from d/c\nrename to e/f/c\n"          \
    "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+new\n"

static struct plan plan_of(struct folder *p, const char *diff)
{
    struct patch_options o = {.strip = -1, .root = "/workspace", .fuzz = 2};
    struct plan plan;
    struct error err = {0};
    if (plan_make(p->root, diff, strlen(diff), &o, unexpected, NULL, &plan, &err) < 0)
        fail_msg("%s", err.text);
    return plan;
}

static void test_writes_all_changes(void **state)
{
    struct folder *p = *state;
    _cleanup_plan_ struct plan plan = plan_of(p, DIFF);
    assert_int_equal(commit_run(&plan.tree, NULL), 0);
    file_is(p, "a", "one\nTWO\n");
    file_is(p, "b", NULL);
    file_is(p, "d/c", NULL);
    file_is(p, "e/f/c", "four\n");
    file_is(p, "n", "new\n");
    assert_int_equal(count_names(p), 3);
}

static void unchanged(struct folder *p, size_t names)
{
    file_is(p, "b", "three\n");
    file_is(p, "d/c", "four\n");
    file_is(p, "e/f/c", NULL);
    assert_int_equal(count_names(p), names);
}

static void test_refuses_a_file_that_changed(void **state)
{
    struct folder *p = *state;
    struct error err = {0};
    _cleanup_plan_ struct plan plan = plan_of(p, DIFF);
    put(p, "a", "one\ntwo!\n");
    assert_int_equal(commit_run(&plan.tree, &err), -ESTALE);
    assert_non_null(strstr(err.text, "nothing was changed: a: another process changed it"));
    file_is(p, "a", "one\ntwo!\n");
    unchanged(p, 3);
}

static void test_refuses_to_overwrite_a_new_file(void **state)
{
    struct folder *p = *state;
    _cleanup_plan_ struct plan plan = plan_of(p, DIFF);
    put(p, "n", "somebody's\n");
    assert_int_equal(commit_run(&plan.tree, NULL), -ESTALE);
    file_is(p, "a", "one\ntwo\n");
    file_is(p, "n", "somebody's\n");
    unchanged(p, 4);
}

static void test_refuses_a_file_where_a_folder_must_be_made(void **state)
{
    struct folder *p = *state;
    struct stat before, after;
    struct error err = {0};
    assert_int_equal(fstatat(p->root, "a", &before, 0), 0);
    _cleanup_plan_ struct plan plan = plan_of(p, DIFF);
    put(p, "e", "in the way\n");
    assert_int_equal(commit_run(&plan.tree, &err), -ESTALE);
    assert_non_null(strstr(err.text, "nothing was changed: e: another process changed it"));
    assert_int_equal(fstatat(p->root, "a", &after, 0), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    file_is(p, "a", "one\ntwo\n");
    file_is(p, "n", NULL);
    unchanged(p, 4);
}

static void test_folders_and_files_change_places(void **state)
{
    struct folder *p = *state;
    _cleanup_plan_ struct plan plan =
        plan_of(p, "--- a/d/c\n+++ /dev/null\n@@ -1 +0,0 @@\n-four\n--- /dev/null\n+++ b/d\n@@ "
                   "-0,0 +1 @@\n+file\n"
                   "--- a/a\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n--- /dev/null\n+++ "
                   "b/a/x\n@@ -0,0 +1 @@\n+x\n");
    assert_int_equal(commit_run(&plan.tree, NULL), 0);
    file_is(p, "d", "file\n");
    file_is(p, "a/x", "x\n");
}

static void test_a_folder_with_more_in_it_stays(void **state)
{
    struct folder *p = *state;
    struct error err = {0};
    put(p, "d/other", "mine\n");
    _cleanup_plan_ struct plan plan =
        plan_of(p, "--- a/d/c\n+++ /dev/null\n@@ -1 +0,0 @@\n-four\n--- /dev/null\n+++ b/d\n@@ "
                   "-0,0 +1 @@\n+file\n");
    assert_int_equal(commit_run(&plan.tree, &err), -EISDIR);
    file_is(p, "d/other", "mine\n");
    unchanged(p, 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_writes_all_changes),
        TEST(test_refuses_a_file_that_changed),
        TEST(test_refuses_a_file_where_a_folder_must_be_made),
        TEST(test_refuses_to_overwrite_a_new_file),
        TEST(test_folders_and_files_change_places),
        TEST(test_a_folder_with_more_in_it_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
