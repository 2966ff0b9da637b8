/* Exchanging files beside somebody who gives the same name to files of theirs: the last one stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "io.h"
#include "swap.h"

struct folder {
    char path[64];
    int dir;
};

static int setup(void **state)
{
    struct folder *f = calloc(1, sizeof *f);
    snprintf(f->path, sizeof f->path, "/tmp/hutch-unit-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct folder *f = *state;
    const char *names[] = {"f", "waiting", "next", "n0", "o0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlinkat(f->dir, names[i], 0);
    close(f->dir);
    assert_int_equal(rmdir(f->path), 0);
    free(f);
    return 0;
}

static void put(const struct folder *f, const char *name, const char *text)
{
    int fd = openat(f->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void replace(const struct folder *f, const char *name, const char *text)
{
    put(f, "next", text);
    assert_int_equal(renameat(f->dir, "next", f->dir, name), 0);
}

static void file_is(const struct folder *f, const char *name, const char *expected)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    int r = io_read_file(f->dir, name, &b);
    if (!expected) {
        assert_int_equal(r, -ENOENT);
        return;
    }
    assert_int_equal(r, 0);
    assert_string_equal(buf_cstr(&b), expected);
}

static struct swap swap_in(const struct folder *f)
{
    return (struct swap){f->dir, "f", f->dir, "waiting"};
}

static struct held hold(const struct folder *f, const char *name)
{
    struct held h;
    assert_int_equal(held_begin(&h, f->dir, name), 0);
    return h;
}

/* Ours has been put in the place of theirs, which waits to be put back. */
static struct held put_ours(const struct folder *f)
{
    struct swap s = swap_in(f);
    put(f, "f", "theirs");
    put(f, "waiting", "ours");
    struct held ours = hold(f, "waiting");
    assert_int_equal(swap_do(&s), 0);
    file_is(f, "f", "ours");
    return ours;
}

static void what_waits_goes_back(void **state)
{
    struct folder *f = *state;
    struct swap s = swap_in(f);
    _cleanup_held_ struct held ours = put_ours(f);
    assert_int_equal(swap_back(&s, &ours), 0);
    file_is(f, "f", "theirs");
    file_is(f, "waiting", "ours");
}

/* Between the exchange and the way back somebody has put a newer file in the place of ours. */
static void what_came_later_stays(void **state)
{
    struct folder *f = *state;
    struct swap s = swap_in(f);
    _cleanup_held_ struct held ours = put_ours(f);
    replace(f, "f", "newer");
    assert_int_equal(swap_back(&s, &ours), 0);
    file_is(f, "f", "newer");
    file_is(f, "waiting", "theirs");
}

static void a_place_that_was_emptied_is_filled(void **state)
{
    struct folder *f = *state;
    struct swap s = swap_in(f);
    _cleanup_held_ struct held ours = put_ours(f);
    assert_int_equal(unlinkat(f->dir, "f", 0), 0);
    assert_int_equal(swap_back(&s, &ours), 0);
    file_is(f, "f", "theirs");
    file_is(f, "waiting", NULL);
}

static void says_what_is_missing(void **state)
{
    struct folder *f = *state;
    struct swap s = swap_in(f);
    put(f, "f", "theirs");
    assert_int_equal(swap_do(&s), -ENOENT);
    _cleanup_held_ struct held there = hold(f, "f");
    assert_int_equal(swap_back(&s, &there), -ENOENT);
    file_is(f, "f", "theirs");
}

/* Counts up in the file, each time by a new file in its place; never may an older one stay there.
 */
struct counter {
    const struct folder *folder;
    atomic_bool stop;
    unsigned count;
};

static void *count_up(void *data)
{
    struct counter *c = data;
    while (!c->stop && c->count < 100000) {
        char text[32];
        snprintf(text, sizeof text, "%u", ++c->count);
        replace(c->folder, "f", text);
    }
    return NULL;
}

static void nothing_is_lost_beside_a_writer(void **state)
{
    struct folder *f = *state;
    struct swap s = swap_in(f);
    struct counter c = {.folder = f};
    pthread_t thread;
    char last[32];
    put(f, "f", "0");
    assert_int_equal(pthread_create(&thread, NULL, count_up, &c), 0);
    for (int i = 0; i < 5000; i++) {
        put(f, "waiting", "ours");
        _cleanup_held_ struct held ours = hold(f, "waiting");
        assert_int_equal(swap_do(&s), 0);
        assert_int_equal(swap_back(&s, &ours), 0);
        assert_int_equal(unlinkat(f->dir, "waiting", 0), 0);
    }
    c.stop = true;
    pthread_join(thread, NULL);
    snprintf(last, sizeof last, "%u", c.count);
    file_is(f, "f", last);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_waits_goes_back),
        TEST(what_came_later_stays),
        TEST(a_place_that_was_emptied_is_filled),
        TEST(says_what_is_missing),
        TEST(nothing_is_lost_beside_a_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
