/* SEARCH and TREE with all their threads in one process, for the sanitizers to see. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "file.h"
#include "io.h"
#include "search/search.h"

#define FOLDERS 40
#define FILES   100 /* in each: more than one job takes */

/* Like a worker, these tests do not give back what the process holds. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "detect_leaks=0";
}

static char top[] = "/tmp/hutch-walk-XXXXXX";

static int make_tree(void **state)
{
    assert_non_null(mkdtemp(top));
    assert_int_equal(chdir(top), 0);
    for (int i = 0; i < FOLDERS; i++) {
        char path[64];
        snprintf(path, sizeof path, "d%02d", i);
        assert_int_equal(mkdir(path, 0755), 0);
        for (int j = 0; j < FILES; j++) {
            snprintf(path, sizeof path, "d%02d/f%02d", i, j);
            int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
            assert_int_equal(io_write_all(fd, "one\nneedle\n", 11), 0);
            close(fd);
        }
    }
    int fd = open(".gitignore", O_WRONLY | O_CREAT | O_EXCL, 0644);
    assert_int_equal(io_write_all(fd, "/d00/\nf99\n", 10), 0);
    close(fd);
    return 0;
}

static int remove_tree(void **state)
{
    char path[64];
    for (int i = 0; i < FOLDERS; i++) {
        for (int j = 0; j < FILES; j++) {
            snprintf(path, sizeof path, "d%02d/f%02d", i, j);
            unlink(path);
        }
        snprintf(path, sizeof path, "d%02d", i);
        rmdir(path);
    }
    unlink(".gitignore");
    return rmdir(top);
}

/* Serves one request; its RESULT is in *ret, and what was sent before goes to a peer that does not
 * look. The connection stays open, as in a worker: its end would be the end of the process. */
static void serve(file_serve how, struct buf *request, struct buf *out, struct wire_frame *ret)
{
    int ends[2];
    struct error err = {0};
    struct wire_reader *in = calloc(1, sizeof *in);
    assert_non_null(in);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *in = WIRE_READER_INIT(ends[0]);
    struct file_call c = {
        .in = in, .out = BUF_INIT(4u << 20), .path = strdup("."), .root_path = top};
    c.root = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(wire_parse(request->data, request->len, &c.request) > 0);
    if (how(&c, &err) < 0)
        fail_msg("%s", err.text);
    *out = c.out;
    size_t at = 0;
    while (at < out->len) {
        ssize_t n = wire_parse(out->data + at, out->len - at, ret);
        assert_true(n > 0);
        at += (size_t)n;
    }
    assert_int_equal(ret->type, WIRE_RESULT);
    close(c.root);
    free(c.path);
}

static void searches(void **state)
{
    for (int round = 0; round < 10; round++) {
        _cleanup_buf_ struct buf request = BUF_INIT(4096), out = {0};
        struct wire_frame result;
        size_t at = wire_begin(&request, WIRE_SEARCH);
        wire_put_str(&request, WIRE_K_PATTERN, "n..dle");
        wire_put_u64(&request, WIRE_K_MAX_FILES, 20);
        wire_put_u64(&request, WIRE_K_MAX_MATCHES, 10);
        wire_end(&request, at);
        serve(search_files, &request, &out, &result);
        assert_int_equal(wire_find_u64(&result, WIRE_K_COUNT, 0), (FOLDERS - 1) * (FILES - 1));
        assert_int_equal(wire_find_u64(&result, WIRE_K_SEARCHED, 0),
                         (FOLDERS - 1) * (FILES - 1) + 1);
    }
}

static void lists(void **state)
{
    for (int round = 0; round < 10; round++) {
        _cleanup_buf_ struct buf request = BUF_INIT(4096), out = {0};
        struct wire_frame result;
        size_t at = wire_begin(&request, WIRE_TREE);
        wire_put_u64(&request, WIRE_K_SIZES, 1);
        wire_put_u64(&request, WIRE_K_LIMIT_ENTRIES, 100);
        wire_end(&request, at);
        serve(search_tree, &request, &out, &result);
        assert_int_equal(wire_find_u64(&result, WIRE_K_COUNT, 0), (FOLDERS - 1) * FILES + 1);
        assert_int_equal(wire_find_u64(&result, WIRE_K_REST, 0), (FOLDERS - 1) * FILES + 1 - 100);
    }
}

static void paths_become_clean(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {".", ""},
        {"a", "a"},
        {"./a//b/", "a/b"},
        {"a/../b", "b"},
        {"a/b/..", "a"},
        {"..", ".."},
        {"../a", "../a"},
        {"a/../../b", "../b"},
        {"../..", "../.."},
        {"a/./../..b/...", "..b/..."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s", cases[i][0]);
        tree_walk_clean_path(path);
        assert_string_equal(path, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searches),
        cmocka_unit_test(lists),
        cmocka_unit_test(paths_become_clean),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
