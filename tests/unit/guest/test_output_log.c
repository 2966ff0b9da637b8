/* The log of a background command: its head and its tail within the limit, and counts that always
 * add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "command.h"

#define KEEP (64u << 10)
#define ROOM 5000u

struct fixture {
    struct loop loop;
    struct output_log log;
    int writer;
    uint64_t written;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(io_set_nonblock(ends[0], true), 0);
    f->log = OUTPUT_LOG_INIT;
    f->log.pipe.fd = ends[0];
    f->log.file = memfd_create("log", MFD_CLOEXEC);
    f->log.keep = KEEP;
    f->writer = ends[1];
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    output_log_free(&f->log, &f->loop);
    close(f->writer);
    free(f->loop.polls);
    free(f->loop.sources);
    free(f);
    return 0;
}

/* Byte number i of what is written: a pattern that does not repeat within a page. */
static char byte_at(uint64_t i)
{
    return (char)('a' + (i * 2654435761u >> 7) % 26);
}

static void print(struct fixture *f, size_t n)
{
    static char scratch[WIRE_DATA_MAX];
    char piece[4096];
    for (size_t at = 0; at < n;) {
        size_t take = n - at < sizeof piece ? n - at : sizeof piece;
        for (size_t i = 0; i < take; i++)
            piece[i] = byte_at(f->written + i);
        assert_int_equal(io_write_all(f->writer, piece, take), 0);
        f->written += take;
        at += take;
        while (output_log_step(&f->log, &f->loop, scratch, sizeof scratch))
            ;
    }
}

static off_t file_size(const struct fixture *f)
{
    struct stat st;
    assert_int_equal(fstat(f->log.file, &st), 0);
    return st.st_size;
}

/* What a reader at `from` gets: right bytes, nothing that overlaps, and all that is not there is
 * counted. */
static void check_read(const struct fixture *f, uint64_t from)
{
    char first[ROOM], last[ROOM];
    struct output_log_news n;
    output_log_read(&f->log, from, first, last, ROOM, &n);
    uint64_t new = f->written - from;
    assert_true(n.first <= ROOM && n.last <= ROOM && n.first + n.last + n.dropped <= new);
    for (size_t i = 0; i < n.first; i++)
        assert_int_equal(first[i], byte_at(from + i));
    for (size_t i = 0; i < n.last; i++)
        assert_int_equal(last[i], byte_at(f->written - n.last + i));
    if (n.dropped == 0)
        assert_int_equal(n.first + n.last, new < 2 * (uint64_t)ROOM ? new : 2 * (uint64_t)ROOM);
    if (new > 0)
        assert_true(n.first + n.last > 0);
}

static void test_short_output_is_kept_whole(void **state)
{
    struct fixture *f = *state;
    for (size_t n = 1; f->written + n < KEEP; n = n * 2 + 1) {
        print(f, n);
        assert_int_equal(file_size(f), f->written);
        assert_int_equal(f->log.dropped, 0);
        for (uint64_t from = 0; from <= f->written; from += 997)
            check_read(f, from);
    }
}

static void test_long_output_stays_within_the_limit(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < 200; i++) {
        print(f, 1 + i * 37);
        assert_int_equal(f->log.total, f->written);
        assert_int_equal(f->log.head + f->log.dropped + f->log.tail, f->written);
        assert_true(file_size(f) <= KEEP + 100);
        check_read(f, 0);
        check_read(f, f->written / 2);
        check_read(f, f->written > 3000 ? f->written - 3000 : 0);
        check_read(f, f->written);
    }
    assert_true(f->log.dropped > KEEP);
}

/* The first time that something is left out there is no gap yet, and the tail has to move past
 * it. */
static void test_every_length_at_the_first_gap(void **state)
{
    struct fixture *f = *state;
    for (size_t extra = 0; extra < 200; extra++) {
        f->log.total = f->log.head = f->log.tail = f->log.dropped = f->written = 0;
        f->log.head_ended = false;
        assert_int_equal(ftruncate(f->log.file, 0), 0);
        print(f, KEEP - 4096 + extra);
        print(f, 4096);
        for (uint64_t from = 0; from < f->written; from += 1511)
            check_read(f, from);
    }
}

static void test_file_that_was_emptied_is_read_as_far_as_it_goes(void **state)
{
    struct fixture *f = *state;
    char first[ROOM], last[ROOM];
    struct output_log_news n;
    print(f, 3 * KEEP);
    assert_int_equal(ftruncate(f->log.file, 10), 0);
    output_log_read(&f->log, 0, first, last, ROOM, &n);
    assert_int_equal(n.first, 10);
    assert_int_equal(n.last, 0);
    print(f, 3 * KEEP);
    assert_int_equal(f->log.head + f->log.dropped + f->log.tail, f->written);
}

static void test_writes_that_fail_are_counted_as_dropped(void **state)
{
    struct fixture *f = *state;
    print(f, 100);
    int writable = f->log.file;
    f->log.file = open("/dev/full", O_RDWR | O_CLOEXEC);
    print(f, 1000);
    assert_int_equal(f->log.head, 100);
    assert_int_equal(f->log.dropped, 1000);
    close(f->log.file);
    f->log.file = writable;
    print(f, 500);
    assert_int_equal(f->log.tail, 500);
    check_read(f, 0);
}

static void test_end_of_the_pipe_closes_it(void **state)
{
    struct fixture *f = *state;
    char scratch[64];
    print(f, 10);
    close(f->writer);
    f->writer = -1;
    assert_false(output_log_step(&f->log, &f->loop, scratch, sizeof scratch));
    assert_int_equal(f->log.pipe.fd, -1);
    check_read(f, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_short_output_is_kept_whole),
        TEST(test_long_output_stays_within_the_limit),
        TEST(test_every_length_at_the_first_gap),
        TEST(test_file_that_was_emptied_is_read_as_far_as_it_goes),
        TEST(test_writes_that_fail_are_counted_as_dropped),
        TEST(test_end_of_the_pipe_closes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
