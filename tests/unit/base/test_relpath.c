/* Paths out of a box: which are valid, which touch a git folder, how they are quoted, what is
 * opened beneath a folder. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "relpath.h"
#include "text.h"
#include "encoding.h"

static void test_valid(void **state)
{
    static const char *const GOOD[] = {"a",       "a/b", "...", ".a",        "a/..b",
                                       "a/.../b", " ",   "\n",  "\xff/\xfe", "a\\b"};
    static const char *const BAD[] = {"",    "/",    "/a",  "a/",   "a//b",   ".",    "..",
                                      "./a", "../a", "a/.", "a/..", "a/../b", "a/./b"};
    for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++)
        assert_true(relpath_is_valid(GOOD[i], strlen(GOOD[i])));
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
        assert_false(relpath_is_valid(BAD[i], strlen(BAD[i])));
    assert_false(relpath_is_valid("a\0b", 3));
}

static void test_length(void **state)
{
    char *path = malloc(RELPATH_MAX + 1);
    memset(path, 'x', RELPATH_MAX + 1);
    assert_true(relpath_is_valid(path, RELPATH_MAX));
    assert_false(relpath_is_valid(path, RELPATH_MAX + 1));
    free(path);
}

static void test_git(void **state)
{
    static const char *const GIT[] = {
        ".git",       ".git/config",        "a/.git/x",
        "a/.GIT",     ".Git/hooks/x",       ".git./x",
        ".git /x",    ".git . ./x",         "git~1/x",
        "GIT~2",      ".git:x/y",           ".git::$INDEX_ALLOCATION/x",
        "a\\.git\\x", ".g\xe2\x80\x8cit/x", ".git\xef\xbb\xbf",
    };
    static const char *const FREE[] = {
        "git",   ".gitignore", ".github/x", "a.git", "a.git/config", "x/.gitmodules",
        "git~x", "git~",       "..git",     ".gi",   ".gitt",
    };
    for (size_t i = 0; i < ARRAY_SIZE(GIT); i++)
        assert_true(relpath_touches_git(GIT[i]));
    for (size_t i = 0; i < ARRAY_SIZE(FREE); i++)
        assert_false(relpath_touches_git(FREE[i]));
}

static void test_name(void **state)
{
    assert_string_equal(relpath_name("a"), "a");
    assert_string_equal(relpath_name("a/b/c"), "c");
}

static void expect_quote(const char *name, const char *quoted)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1024);
    cquote_append(&b, "a/", name);
    assert_string_equal(buf_cstr(&b), quoted);
}

static void test_quote(void **state)
{
    expect_quote("plain name.c", "a/plain name.c");
    expect_quote("tab\t", "\"a/tab\\t\"");
    expect_quote("q\"b\\", "\"a/q\\\"b\\\\\"");
    expect_quote("\a\b\n\v\f\r", "\"a/\\a\\b\\n\\v\\f\\r\"");
    expect_quote("\x1b[0m\x7f", "\"a/\\033[0m\\177\"");
    expect_quote("\xc3\xa9", "\"a/\\303\\251\"");
}

static void test_beneath(void **state)
{
    char top[] = "/tmp/hutch-test-XXXXXX";
    int fd, root;
    assert_non_null(mkdtemp(top));
    root = open(top, O_RDONLY | O_DIRECTORY);
    assert_int_equal(mkdirat(root, "d", 0700), 0);
    assert_int_equal(mkdirat(root, "d/e", 0700), 0);
    assert_int_equal(symlinkat("/", root, "l"), 0);
    assert_int_equal(symlinkat("d", root, "m"), 0);
    assert_int_equal(beneath_open_dir(root, "d/e", &fd), 0);
    close(fd);
    assert_int_equal(beneath_open_dir(root, "", &fd), 0);
    close(fd);
    assert_int_equal(beneath_open_parent(root, "d/e", &fd), 0);
    assert_int_equal(faccessat(fd, "e", F_OK, 0), 0);
    close(fd);
    assert_int_equal(beneath_open_dir(root, "l/etc", &fd), -ELOOP);
    assert_int_equal(beneath_open_dir(root, "m", &fd), -ENOTDIR);
    assert_int_equal(beneath_open_dir(root, "m/e", &fd), -ELOOP);
    assert_int_equal(beneath_open_dir(root, "no", &fd), -ENOENT);
    assert_int_equal(beneath_open_dir(root, "..", &fd), -EXDEV);
    assert_int_equal(unlinkat(root, "l", 0) | unlinkat(root, "m", 0), 0);
    assert_int_equal(unlinkat(root, "d/e", AT_REMOVEDIR) | unlinkat(root, "d", AT_REMOVEDIR), 0);
    close(root);
    rmdir(top);
}

/* Longer than the kernel takes at once. */
static void test_beneath_long(void **state)
{
    enum { DEPTH = 100, NAME = 101 };
    char top[] = "/tmp/hutch-test-XXXXXX", name[NAME + 1];
    char *path = calloc(DEPTH * (NAME + 1) + 1, 1);
    int root, at, fd;
    assert_non_null(mkdtemp(top));
    root = open(top, O_RDONLY | O_DIRECTORY);
    memset(name, 'n', NAME);
    name[NAME] = 0;
    at = dup(root);
    for (int i = 0; i < DEPTH; i++) {
        assert_int_equal(mkdirat(at, name, 0700), 0);
        int next = openat(at, name, O_RDONLY | O_DIRECTORY);
        close(at);
        at = next;
        memcpy(path + strlen(path), name, NAME);
        path[strlen(path)] = '/';
    }
    path[strlen(path) - 1] = 0;
    assert_int_equal(beneath_open_dir(root, path, &fd), 0);
    struct stat a, b;
    assert_int_equal(fstat(at, &a) | fstat(fd, &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
    close(fd);
    for (int i = 0; i < DEPTH; i++) {
        int up = openat(at, "..", O_RDONLY | O_DIRECTORY);
        close(at);
        at = up;
        assert_int_equal(unlinkat(at, name, AT_REMOVEDIR), 0);
    }
    close(at);
    close(root);
    rmdir(top);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),        cmocka_unit_test(test_length),
        cmocka_unit_test(test_git),          cmocka_unit_test(test_name),
        cmocka_unit_test(test_quote),        cmocka_unit_test(test_beneath),
        cmocka_unit_test(test_beneath_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
