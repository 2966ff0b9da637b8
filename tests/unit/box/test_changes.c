/* What a diff worker answers is checked before anything of it is used. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "apply.h"
#include "io.h"

static struct buf answer;
static int peer = -1;

static int begin(void **state)
{
    answer = BUF_INIT(WIRE_BODY_MAX);
    return 0;
}

static int end(void **state)
{
    buf_free(&answer);
    cleanup_close(&peer);
    peer = -1;
    return 0;
}

static void add_entry(const void *path, size_t n, uint64_t kind, uint64_t mode)
{
    size_t at = wire_begin(&answer, WIRE_ENTRY);
    wire_put(&answer, WIRE_K_PATH, path, n);
    wire_put_u64(&answer, WIRE_K_KIND, kind);
    wire_put_u64(&answer, WIRE_K_MODE, mode);
    wire_put_u64(&answer, WIRE_K_SIZE, 9);
    wire_end(&answer, at);
}

static void add_data(const char *data, uint64_t offset)
{
    size_t at = wire_begin(&answer, WIRE_DATA);
    if (offset)
        wire_put_u64(&answer, WIRE_K_OFFSET, offset);
    wire_put_str(&answer, WIRE_K_DATA, data);
    wire_end(&answer, at);
}

static void add_result(uint16_t key, uint64_t value)
{
    size_t at = wire_begin(&answer, WIRE_RESULT);
    wire_put_u64(&answer, key, value);
    wire_end(&answer, at);
}

/* A connection to somebody who says all that and no more. */
static int connect_to_answer(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(wire_send(ends[1], &answer, NULL, 0), 0);
    shutdown(ends[1], SHUT_WR);
    cleanup_close(&peer);
    peer = ends[1];
    return ends[0];
}

static int read_changes(struct box_changes *ret, struct error *err)
{
    _cleanup_fd_ int conn = connect_to_answer();
    return changes_read(conn, ret, err);
}

static void test_list(void **state)
{
    struct box_changes list = {0};
    struct error err = {0};
    add_entry("a/\n\xff", 4, WIRE_ADDED, 0100644);
    add_entry("b", 1, WIRE_DELETED, 0);
    add_result(WIRE_K_TOO_MANY, 0);
    assert_int_equal(read_changes(&list, &err), 0);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].path, "a/\n\xff");
    assert_int_equal(list.items[0].size, 9);
    assert_int_equal(list.items[1].kind, WIRE_DELETED);
    box_changes_free(&list);
}

static void assert_refused(const void *path, size_t n, uint64_t kind, uint64_t mode)
{
    struct box_changes list = {0};
    struct error err = {0};
    add_entry("good", 4, WIRE_ADDED, 0100644);
    add_entry(path, n, kind, mode);
    add_result(WIRE_K_TOO_MANY, 0);
    assert_int_equal(read_changes(&list, &err), -EPROTO);
    assert_string_equal(err.text, "the diff worker's answer is malformed");
    assert_null(list.items);
}

static void test_bad_records(void **state)
{
    assert_refused("../a", 4, WIRE_ADDED, 0);
    assert_refused("/a", 2, WIRE_ADDED, 0);
    assert_refused("a/../b", 6, WIRE_ADDED, 0);
    assert_refused("", 0, WIRE_ADDED, 0);
    assert_refused("a\0b", 3, WIRE_ADDED, 0);
    assert_refused("a", 1, 0, 0);
    assert_refused("a", 1, 4, 0);
    assert_refused("a", 1, WIRE_ADDED, 0200000);
}

static void test_an_end_in_the_middle(void **state)
{
    struct box_changes list = {0};
    struct error err = {0};
    add_entry("a", 1, WIRE_ADDED, 0);
    assert_int_equal(read_changes(&list, &err), -EPIPE);
    assert_null(list.items);
}

static void test_errors(void **state)
{
    struct box_changes list = {0};
    struct error err = {0};
    size_t at = wire_begin(&answer, WIRE_ERROR);
    wire_put_u64(&answer, WIRE_K_CODE, UINT64_MAX);
    wire_put_str(&answer, WIRE_K_TEXT, "");
    wire_end(&answer, at);
    assert_int_equal(read_changes(&list, &err), -EIO);
    assert_string_equal(err.text, "the diff worker failed");
}

static void test_diff(void **state)
{
    int ends[2];
    char text[16] = {0};
    struct error err = {0};
    add_data("dif", 0);
    add_data("f", 0);
    add_result(WIRE_K_COUNT, 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int conn = connect_to_answer();
    assert_int_equal(changes_diff(conn, false, ends[1], &err), 0);
    assert_int_equal(read(ends[0], text, sizeof text), 4);
    assert_string_equal(text, "diff");
    close(conn);
    close(ends[0]);
    close(ends[1]);
}

struct file {
    char bytes[16];
    int refuse;
};

static int put(void *data, uint64_t offset, const void *bytes, size_t n)
{
    struct file *f = data;
    assert_true(offset + n <= sizeof f->bytes);
    memcpy(f->bytes + offset, bytes, n);
    return f->refuse;
}

static int fetch(struct file *f, uint64_t size, struct error *err)
{
    _cleanup_fd_ int conn = connect_to_answer();
    return changes_fetch(conn, "a", size, &(struct fetch_sink){put, f}, err);
}

static void test_fetch(void **state)
{
    struct file f = {{0}, 0};
    struct error err = {0};
    add_data("ab", 0);
    add_data("cd", 6);
    add_result(WIRE_K_SIZE, 8);
    assert_int_equal(fetch(&f, 8, &err), 0);
    assert_memory_equal(f.bytes, "ab\0\0\0\0cd", 9);
}

static void assert_bad_fetch(uint64_t second_offset, uint64_t said)
{
    struct file f = {{0}, 0};
    struct error err = {0};
    add_data("abcd", 0);
    add_data("ef", second_offset);
    add_result(WIRE_K_SIZE, said);
    assert_int_equal(fetch(&f, 8, &err), -EPROTO);
}

static void test_bad_fetches(void **state)
{
    assert_bad_fetch(6, 7);          /* another size than the list said */
    assert_bad_fetch(4, 8);          /* less than that size */
    assert_bad_fetch(7, 8);          /* past it */
    assert_bad_fetch(2, 8);          /* back over what was there */
    assert_bad_fetch(UINT64_MAX, 8); /* so far that it would wrap */
}

static void test_a_sink_that_refuses(void **state)
{
    struct file f = {{0}, -1};
    struct error err = {0};
    add_data("ab", 0);
    add_result(WIRE_K_SIZE, 2);
    assert_int_equal(fetch(&f, 2, &err), -ECANCELED);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_list),
        TEST(test_bad_records),
        TEST(test_an_end_in_the_middle),
        TEST(test_errors),
        TEST(test_diff),
        TEST(test_fetch),
        TEST(test_bad_fetches),
        TEST(test_a_sink_that_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
