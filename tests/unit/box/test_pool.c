/*
 * The pool, with real boxes: fresh ones for whoever takes one, ended when they are given back,
 * whatever fails meanwhile. The parts of hutch are looked for beside this program, then in the
 * build folder.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "box.h"
#include "box_host.h"

#define THREADS 8
#define TURNS   12

int libexec_folders(char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX], size_t *ret_count,
                    struct error *err)
{
    ssize_t n = readlink("/proc/self/exe", folders[0], LIBEXEC_PATH_MAX - 1);
    if (n <= 0)
        return error_errno(err, errno, "cannot find the test");
    folders[0][n] = 0;
    *strrchr(folders[0], '/') = 0;
    snprintf(folders[1], LIBEXEC_PATH_MAX, "%s", BUILD_FOLDER);
    *ret_count = 2;
    return 0;
}

/* What a script prints in a box. */
static void say(struct box *b, const char *script, char *text, size_t size)
{
    struct error err = {0};
    struct box_result result = {0};
    char shell[] = "/bin/sh", option[] = "-c", words[256];
    char *const argv[] = {shell, option, words, NULL};
    snprintf(words, sizeof words, "%s", script);
    struct box_command c = {
        .argv = argv, .in = -1, .out = -1, .err = -1, .capture = true, .cancel = -1};
    if (box_exec(b, &c, &result, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(text, size, "%.*s", (int)result.out.head.len, (char *)result.out.head.data);
    box_result_free(&result);
}

static void assert_says(struct box *b, const char *script, const char *expected)
{
    char text[256];
    say(b, script, text, sizeof text);
    assert_string_equal(text, expected);
}

static size_t count_descriptors(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static size_t count_children(void)
{
    siginfo_t info = {0};
    return waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | WNOHANG | __WALL) < 0 && errno == ECHILD ? 0
                                                                                                : 1;
}

/* An origin with one file, of boxes that are small. */
static struct snapshot *make_origin(void)
{
    struct box_options o;
    struct error err = {0};
    struct box *b = NULL;
    struct snapshot *s = NULL;
    box_options_default(&o);
    o.limits.pids = 16;
    o.limits.disk = 8u << 20;
    if (box_open(&o, &b, &err) < 0)
        fail_msg("%s", err.text);
    assert_says(b, "echo origin >file", "");
    assert_int_equal(box_snapshot(b, &s, &err), 0);
    box_close(b);
    return s;
}

static struct pool *open_pool(struct snapshot *s, size_t size)
{
    struct pool *p = NULL;
    struct error err = {0};
    if (pool_open_snapshot(s, size, &p, &err) < 0)
        fail_msg("%s", err.text);
    return p;
}

static struct box *take(struct pool *p)
{
    struct box *b = NULL;
    struct error err = {0};
    if (pool_take(p, &b, &err) < 0)
        fail_msg("%s", err.text);
    return b;
}

static void test_boxes_are_fresh_and_apart(void **state)
{
    struct snapshot *s = make_origin();
    struct pool *p = open_pool(s, 2);
    struct box *boxes[5]; /* more than are kept ready */
    for (size_t i = 0; i < ARRAY_SIZE(boxes); i++) {
        boxes[i] = take(p);
        assert_says(boxes[i], "cat file; echo mine >>file; ls", "origin\nfile\n");
    }
    for (size_t i = 0; i < ARRAY_SIZE(boxes); i++) {
        assert_says(boxes[i], "cat file", "origin\nmine\n");
        pool_give(p, boxes[i]);
    }
    struct box *again = take(p);
    assert_says(again, "cat file", "origin\n");
    pool_give(p, again);
    assert_null(pool_close(p));
    assert_null(pool_close(NULL));
    snapshot_free(s);
    assert_int_equal(count_children(), 0);
}

static void test_of_options(void **state)
{
    struct box_options o;
    struct pool *p = NULL;
    box_options_default(&o);
    o.limits.disk = 8u << 20;
    assert_int_equal(pool_open(&o, 0, &p, NULL), 0);
    struct box *b = take(p);
    assert_says(b, "pwd; ls", "/workspace\n");
    pool_give(p, b);
    pool_close(p);
    o.workspace = "/nonexistent";
    struct error err = {0};
    assert_int_equal(pool_open(&o, 1, &p, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent"));
    assert_int_equal(count_children(), 0);
}

static void test_given_boxes_end(void **state)
{
    struct snapshot *s = make_origin();
    struct pool *p = open_pool(s, 1);
    pid_t pids[6];
    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        struct box *b = take(p);
        pids[i] = box_pid(b);
        assert_int_equal(kill(pids[i], 0), 0);
        pool_give(p, b);
    }
    pool_close(p); /* waits for those that are still being ended */
    for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
        assert_int_equal(kill(pids[i], 0), -1);
    snapshot_free(s);
}

static void test_closed_while_boxes_are_out(void **state)
{
    struct snapshot *s = make_origin();
    struct pool *p = open_pool(s, 2);
    struct box *a = take(p), *b = take(p), *c = take(p);
    pool_give(p, c);
    pool_close(p);
    assert_says(a, "cat file", "origin\n");
    snapshot_free(s); /* nor do they need their origin */
    assert_says(b, "cat file", "origin\n");
    box_close(a);
    box_close(b);
    assert_int_equal(count_children(), 0);
}

/* Without descriptors no box can be made: whoever takes one is told, and later it works again. */
static void test_failure_passes(void **state)
{
    struct snapshot *s = make_origin();
    struct pool *p = open_pool(s, 1);
    struct box *boxes[3], *b = NULL;
    struct error err = {0};
    struct rlimit old, low;
    for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
        boxes[i] = take(p);
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    low.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &low);
    int r = 0;
    for (int i = 0; i < 4 && r == 0; i++) { /* one may have stood ready */
        r = pool_take(p, &b, &err);
        if (r == 0)
            pool_give(p, b);
    }
    setrlimit(RLIMIT_NOFILE, &old);
    assert_true(r < 0);
    assert_true(err.code > 0 && err.text[0]);
    for (size_t i = 0; i < ARRAY_SIZE(boxes); i++) {
        assert_says(boxes[i], "cat file", "origin\n");
        pool_give(p, boxes[i]);
    }
    b = take(p);
    assert_says(b, "cat file", "origin\n");
    pool_give(p, b);
    pool_close(p);
    snapshot_free(s);
    assert_int_equal(count_children(), 0);
}

static void *take_turns(void *data)
{
    struct pool *p = data;
    for (int i = 0; i < TURNS; i++) {
        struct box *b = NULL;
        struct error err = {0};
        if (pool_take(p, &b, &err) < 0 || box_check(b, &err) < 0)
            return p;
        pool_give(p, b);
    }
    return NULL;
}

/* THREADS boxes of one origin, each with as many processes as it may have: together more than one
 * may. */
static void test_threads(void **state)
{
    struct snapshot *s = make_origin();
    size_t before = count_descriptors();
    struct pool *p = open_pool(s, 2);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, p), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    pool_close(p);
    assert_int_equal(count_descriptors(), before);
    snapshot_free(s);
    assert_int_equal(count_children(), 0);
}

/* The limit of processes is each box's own, though all forks share a user namespace. */
static void test_forks_do_not_share_their_processes(void **state)
{
    struct snapshot *s = make_origin();
    struct pool *p = open_pool(s, 1);
    struct box *boxes[6];
    for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
        boxes[i] = take(p);
    for (size_t i = 0; i < ARRAY_SIZE(boxes); i++) {
        struct error err = {0};
        struct box_result result = {0};
        char script[] = "for i in 1 2 3 4 5 6 7 8; do sleep 100 & done";
        struct box_command c = {.shell = "main",
                                .script = script,
                                .background = true,
                                .in = -1,
                                .out = -1,
                                .err = -1,
                                .cancel = -1,
                                .timeout_ns = -1};
        if (box_exec(boxes[i], &c, &result, &err) < 0)
            fail_msg("box %zu: %s", i, err.text);
        box_result_free(&result);
    }
    for (size_t i = 0; i < ARRAY_SIZE(boxes); i++) {
        assert_says(boxes[i],
                    "until [ $(grep -c . <<E\n$(grep -l sleep /proc/[0-9]*/comm)\nE\n) = 8 ]; do "
                    ":; done; echo 8",
                    "8\n");
        pool_give(p, boxes[i]);
    }
    pool_close(p);
    snapshot_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes_are_fresh_and_apart),
        cmocka_unit_test(test_of_options),
        cmocka_unit_test(test_given_boxes_end),
        cmocka_unit_test(test_closed_while_boxes_are_out),
        cmocka_unit_test(test_failure_passes),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_forks_do_not_share_their_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
