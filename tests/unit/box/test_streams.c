/* Bytes between a command and the host: whole, in order, never blocking, and an end on one side
 * reaches the other. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "io.h"
#include "exec.h"

#define LARGE (3u << 20)

static uint8_t *bytes;

static int make_bytes(void **state)
{
    bytes = malloc(LARGE);
    for (size_t i = 0; bytes && i < LARGE; i++)
        bytes[i] = (uint8_t)(i * 13 + i / 257);
    signal(SIGPIPE, SIG_IGN);
    return bytes ? 0 : -1;
}

static int free_bytes(void **state)
{
    free(bytes);
    return 0;
}

static void make_pipe(int ends[2])
{
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
}

/* Writes what fits and closes once all of it is written. */
static void write_some(int *fd, size_t *sent)
{
    if (*fd < 0)
        return;
    ssize_t n = *sent < LARGE ? write(*fd, bytes + *sent, LARGE - *sent) : 0;
    if (n > 0)
        *sent += (size_t)n;
    if (*sent == LARGE)
        close(TAKE_FD(*fd));
}

static void read_some(int fd, size_t *got)
{
    static uint8_t data[100000];
    ssize_t n = read(fd, data, sizeof data);
    if (n > 0) {
        assert_true(*got + (size_t)n <= LARGE);
        assert_memory_equal(data, bytes + *got, (size_t)n);
        *got += (size_t)n;
    }
}

/* A command's pipe into some other descriptor, of which little is read at a time. */
static void carry_all(int to, int reader)
{
    int ends[2];
    uint64_t total = 0;
    size_t sent = 0, got = 0;
    make_pipe(ends);
    struct pump p = {.from = ends[0], .to = to, .total = &total};
    for (int i = 0; i < 100000 && p.from >= 0; i++) {
        write_some(&ends[1], &sent);
        struct pollfd poll_for = pump_poll(&p);
        if (poll(&poll_for, 1, 0) == 1)
            pump_out(&p);
        if (i % 3 == 0)
            read_some(reader, &got);
    }
    assert_int_equal(p.from, -1);
    for (size_t before = SIZE_MAX; got != before;) {
        before = got;
        read_some(reader, &got);
    }
    assert_int_equal(got, LARGE);
    assert_int_equal(total, LARGE);
}

static void test_into_a_pipe(void **state)
{
    int ends[2];
    make_pipe(ends);
    carry_all(ends[1], ends[0]);
    close(ends[0]);
    close(ends[1]);
}

static void test_into_a_socket(void **state)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    carry_all(ends[1], ends[0]);
    close(ends[0]);
    close(ends[1]);
}

/* What is opened for appending cannot be spliced to. */
static void test_into_an_appended_file(void **state)
{
    char path[] = "/tmp/hutch-pump-XXXXXX";
    int reader = mkostemp(path, O_CLOEXEC);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    unlink(path);
    carry_all(fd, reader);
    close(fd);
    close(reader);
}

static void test_into_a_capture(void **state)
{
    int ends[2];
    uint64_t total = 0;
    struct box_capture c;
    make_pipe(ends);
    capture_init(&c, 10);
    struct pump p = {.from = ends[0], .to = -1, .capture = &c, .total = &total};
    assert_false(pump_out(&p));
    assert_int_equal(p.from, ends[0]);
    assert_int_equal(io_write_all(ends[1], "abcdefghijklmnop", 16), 0);
    assert_true(pump_out(&p));
    assert_false(pump_out(&p));
    close(ends[1]);
    assert_false(pump_out(&p));
    assert_int_equal(p.from, -1);
    capture_finish(&c);
    assert_int_equal(total, 16);
    assert_memory_equal(c.head.data, "abcde", 5);
    assert_memory_equal(c.tail.data, "lmnop", 5);
    buf_free(&c.head);
    buf_free(&c.tail);
}

static void test_into_nothing(void **state)
{
    int ends[2];
    uint64_t total = 0;
    make_pipe(ends);
    struct pump p = {.from = ends[0], .to = -1, .total = &total};
    assert_int_equal(io_write_all(ends[1], "abc", 3), 0);
    assert_true(pump_out(&p));
    assert_int_equal(total, 3);
    pump_close(&p);
    close(ends[1]);
}

/* The command then gets the broken pipe that it would get without a box. */
static void test_a_reader_that_has_gone(void **state)
{
    int ends[2], out[2];
    uint64_t total = 0;
    make_pipe(ends);
    make_pipe(out);
    struct pump p = {.from = ends[0], .to = out[1], .total = &total};
    close(out[0]);
    assert_int_equal(write(ends[1], "abc", 3), 3);
    pump_out(&p);
    assert_int_equal(p.from, -1);
    assert_int_equal(write(ends[1], "abc", 3), -1);
    assert_int_equal(errno, EPIPE);
    close(ends[1]);
    close(out[1]);
}

static void test_full_waits_for_room(void **state)
{
    int ends[2], out[2];
    uint64_t total = 0;
    static char filler[1 << 16];
    make_pipe(ends);
    make_pipe(out);
    while (write(out[1], filler, sizeof filler) > 0)
        ;
    struct pump p = {.from = ends[0], .to = out[1], .total = &total};
    assert_int_equal(pump_poll(&p).fd, ends[0]);
    assert_int_equal(write(ends[1], "abc", 3), 3);
    assert_false(pump_out(&p));
    assert_true(p.full);
    assert_int_equal(pump_poll(&p).fd, out[1]);
    assert_int_equal(pump_poll(&p).events, POLLOUT);
    while (read(out[0], filler, sizeof filler) > 0)
        ;
    assert_true(pump_out(&p));
    assert_int_equal(read(out[0], filler, sizeof filler), 3);
    pump_close(&p);
    close(ends[1]);
    close(out[0]);
    close(out[1]);
}

static void test_feed(void **state)
{
    int in[2], command[2];
    size_t sent = 0, got = 0;
    make_pipe(in);
    make_pipe(command);
    struct feed f = {.from = in[0], .to = command[1], .pending = BUF_INIT(WIRE_DATA_MAX)};
    for (int i = 0; i < 100000 && f.to >= 0; i++) {
        write_some(&in[1], &sent);
        feed_step(&f, true);
        if (i % 3 == 0)
            read_some(command[0], &got);
    }
    assert_int_equal(f.to, -1);
    while (got < LARGE)
        read_some(command[0], &got);
    assert_int_equal(read(command[0], &(char){0}, 1), 0); /* the command sees the end */
    assert_true(fcntl(in[0], F_GETFD) >= 0);              /* the caller's own is left open */
    buf_free(&f.pending);
    close(in[0]);
    close(command[0]);
}

static void test_feed_of_a_command_that_reads_no_more(void **state)
{
    int in[2], command[2];
    make_pipe(in);
    make_pipe(command);
    struct feed f = {.from = in[0], .to = command[1], .pending = BUF_INIT(WIRE_DATA_MAX)};
    close(command[0]);
    assert_int_equal(write(in[1], "abc", 3), 3);
    feed_step(&f, true);
    assert_int_equal(f.to, -1);
    buf_free(&f.pending);
    close(in[0]);
    close(in[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_into_a_pipe),
        cmocka_unit_test(test_into_a_socket),
        cmocka_unit_test(test_into_an_appended_file),
        cmocka_unit_test(test_into_a_capture),
        cmocka_unit_test(test_into_nothing),
        cmocka_unit_test(test_a_reader_that_has_gone),
        cmocka_unit_test(test_full_waits_for_room),
        cmocka_unit_test(test_feed),
        cmocka_unit_test(test_feed_of_a_command_that_reads_no_more),
    };
    return cmocka_run_group_tests(tests, make_bytes, free_bytes);
}
