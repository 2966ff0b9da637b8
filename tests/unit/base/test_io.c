/* Whole reads and writes, and descriptors over a socket: all of them or closed, never leaked. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "io.h"
#include "text.h"

#define LARGE (1u << 20)

static int count_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void make_pair(int type, int ends[2])
{
    assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
}

/* More than a pipe holds, so that both sides take many turns. */
static void test_write_all_and_read_all(void **state)
{
    int ends[2];
    char *data = malloc(LARGE);
    assert_non_null(data);
    for (size_t i = 0; i < LARGE; i++)
        data[i] = (char)(i * 7 + i / 251);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(io_write_all(ends[1], data, LARGE) < 0);
    close(ends[1]);
    _cleanup_buf_ struct buf b = BUF_INIT(LARGE + 1);
    assert_int_equal(io_read_all(ends[0], &b), 0);
    assert_int_equal(b.len, LARGE);
    assert_memory_equal(b.data, data, LARGE);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    free(data);
}

static void test_read_all_keeps_to_the_maximum(void **state)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(io_write_all(ends[1], "abcdef", 6), 0);
    close(ends[1]);
    _cleanup_buf_ struct buf b = BUF_INIT(4);
    assert_int_equal(io_read_all(ends[0], &b), -ENOBUFS);
    assert_int_equal(b.len, 4);
    close(ends[0]);
}

static void test_files(void **state)
{
    char path[] = "/tmp/hutch-io-XXXXXX";
    int fd = mkstemp(path);
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(io_write_file(AT_FDCWD, path, "text"), 0);
    assert_int_equal(io_read_file(AT_FDCWD, path, &b), 0);
    assert_string_equal(buf_cstr(&b), "text");
    unlink(path);
    assert_int_equal(io_read_file(AT_FDCWD, path, &b), -ENOENT);
    assert_int_equal(io_write_file(AT_FDCWD, path, "x"), -ENOENT);
}

static void test_read_and_write_at_an_offset(void **state)
{
    char got[8] = "";
    int fd = io_unnamed_file();
    assert_true(fd >= 0);
    assert_int_equal(io_write_at(fd, "world", 5, 6), 0);
    assert_int_equal(io_write_at(fd, "hello ", 6, 0), 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    assert_int_equal(io_read_at(fd, got, 5, 6), 5);
    assert_memory_equal(got, "world", 5);
    assert_int_equal(io_read_at(fd, got, sizeof got, 8), 3); /* the file ends */
    assert_int_equal(io_read_at(fd, got, sizeof got, 11), 0);
    close(fd);
    assert_int_equal(io_read_at(-1, got, 1, 0), -EBADF);
    assert_int_equal(io_write_at(-1, got, 1, 0), -EBADF);
}

static void test_nonblock(void **state)
{
    int ends[2];
    char byte;
    make_pair(SOCK_STREAM, ends);
    assert_int_equal(io_set_nonblock(ends[0], true), 0);
    assert_int_equal(read(ends[0], &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(io_set_nonblock(ends[0], false), 0);
    assert_false(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(io_set_nonblock(-1, true), -EBADF);
    close(ends[0]);
    close(ends[1]);
}

static void test_descriptors_arrive(void **state)
{
    int ends[2], sent[2], got[4];
    size_t n = 9;
    char data[8];
    struct stat a, b;
    make_pair(SOCK_STREAM, ends);
    assert_int_equal(pipe2(sent, O_CLOEXEC), 0);
    assert_int_equal(io_send_fds(ends[0], "hello", 5, sent, 2), 5);
    assert_int_equal(io_recv_fds(ends[1], data, sizeof data, got, 4, &n, 0), 5);
    assert_memory_equal(data, "hello", 5);
    assert_int_equal(n, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fstat(sent[i], &a) | fstat(got[i], &b), 0);
        assert_int_equal(a.st_ino, b.st_ino);
        assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
        close(sent[i]);
        close(got[i]);
    }
    close(ends[0]);
    close(ends[1]);
}

static void test_descriptors_without_room_are_closed(void **state)
{
    int ends[2], many[8], got[1];
    size_t n;
    char byte;
    make_pair(SOCK_STREAM, ends);
    for (int i = 0; i < 8; i++)
        many[i] = ends[0];
    int before = count_open();
    assert_int_equal(io_send_fds(ends[0], "x", 1, many, 8), 1);
    assert_int_equal(io_recv_fds(ends[1], &byte, 1, got, 1, &n, 0), 1);
    assert_int_equal(n, 1);
    assert_int_equal(count_open(), before + 1);
    close(got[0]);
    assert_int_equal(io_send_fds(ends[0], "x", 1, many, 8), 1);
    assert_int_equal(io_recv_fds(ends[1], &byte, 1, NULL, 0, &n, 0), 1);
    assert_int_equal(n, 0);
    assert_int_equal(count_open(), before);
    assert_int_equal(io_send_fds(ends[0], "x", 1, many, 9), -EINVAL);
    close(ends[0]);
    close(ends[1]);
}

static void test_socket_without_a_peer(void **state)
{
    int ends[2];
    char byte;
    size_t n = 0;
    make_pair(SOCK_SEQPACKET, ends);
    assert_int_equal(io_recv_fds(ends[1], &byte, 1, NULL, 0, &n, MSG_DONTWAIT), -EAGAIN);
    close(ends[0]);
    assert_int_equal(io_recv_fds(ends[1], &byte, 1, NULL, 0, &n, 0), 0);
    assert_int_equal(io_send_fds(ends[1], "x", 1, NULL, 0), -EPIPE);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_all_and_read_all),
        cmocka_unit_test(test_read_all_keeps_to_the_maximum),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_read_and_write_at_an_offset),
        cmocka_unit_test(test_nonblock),
        cmocka_unit_test(test_descriptors_arrive),
        cmocka_unit_test(test_descriptors_without_room_are_closed),
        cmocka_unit_test(test_socket_without_a_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
