/* Frames: built and read back, split at every byte, malformed in every place, and with
 * descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "io.h"
#include "wire.h"

static void make_frame(struct buf *b)
{
    size_t begin = wire_begin(b, WIRE_EXEC);
    wire_put_str(b, WIRE_K_ARG, "sh");
    wire_put_u64(b, WIRE_K_TIMEOUT_MS, 0x0102030405060708);
    wire_put_str(b, WIRE_K_ARG, "");
    wire_put(b, WIRE_K_DATA, "a\0b", 3);
    wire_end(b, begin);
}

static void test_bytes_on_the_wire(void **state)
{
    static const uint8_t expected[] = {18, 0, 0, 0,   1,   0, 0, 0, 3, 0, 0, 0, 2,
                                       0,  0, 0, 'a', 'b', 4, 0, 0, 0, 0, 0, 0, 0};
    _cleanup_buf_ struct buf b = BUF_INIT(100);
    size_t begin = wire_begin(&b, WIRE_PING);
    wire_put(&b, 3, "ab", 2);
    wire_put(&b, 4, "", 0);
    wire_end(&b, begin);
    assert_false(b.failed);
    assert_int_equal(b.len, sizeof expected);
    assert_memory_equal(b.data, expected, sizeof expected);
}

static void test_fields(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    struct wire_frame f;
    struct wire_field field;
    make_frame(&b);
    assert_int_equal(wire_parse(b.data, b.len, &f), b.len);
    assert_int_equal(f.type, WIRE_EXEC);
    static const uint16_t keys[] = {WIRE_K_ARG, WIRE_K_TIMEOUT_MS, WIRE_K_ARG, WIRE_K_DATA};
    size_t at = 0, n = 0;
    while (wire_next(&f, &at, &field))
        assert_int_equal(field.key, keys[n++]);
    assert_int_equal(n, 4);
    assert_true(wire_find(&f, WIRE_K_DATA, &field));
    assert_int_equal(field.size, 3);
    assert_false(wire_find(&f, WIRE_K_ENV, &field));
    assert_int_equal(wire_find_u64(&f, WIRE_K_TIMEOUT_MS, 1), 0x0102030405060708);
    assert_int_equal(wire_find_u64(&f, WIRE_K_ARG, 7), 7); /* not 8 bytes */
    assert_int_equal(wire_find_u64(&f, WIRE_K_ENV, 7), 7);
    char *s = wire_find_str(&f, WIRE_K_ARG);
    assert_string_equal(s, "sh"); /* the first */
    free(s);
    assert_null(wire_find_str(&f, WIRE_K_DATA)); /* holds a NUL */
    assert_null(wire_find_str(&f, WIRE_K_ENV));
}

static void test_every_part_of_a_frame_is_incomplete(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    struct wire_frame f;
    make_frame(&b);
    size_t one = b.len;
    make_frame(&b);
    for (size_t n = 0; n < one; n++) {
        uint8_t *copy = malloc(n ? n : 1); /* so that a sanitizer sees each byte read too many */
        memcpy(copy, b.data, n);
        assert_int_equal(wire_parse(copy, n, &f), 0);
        free(copy);
    }
    for (size_t n = one; n <= b.len; n++)
        assert_int_equal(wire_parse(b.data, n, &f), one);
}

static void assert_malformed(const void *bytes, size_t n)
{
    struct wire_frame f = {.type = WIRE_DATA};
    assert_int_equal(wire_parse(bytes, n, &f), -EPROTO);
    assert_int_equal(f.type, WIRE_DATA);
}
#define MALFORMED(...)                                                                             \
    assert_malformed((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void test_malformed(void **state)
{
    MALFORMED(0, 0, 0, 0, 1, 1, 0, 0); /* padding of the frame */
    MALFORMED(0, 0, 0, 0, 1, 0, 1, 0);
    MALFORMED(0, 0, 0, 0, 1, 0, 0, 1);
    MALFORMED(1, 0, 16, 0, 1, 0, 0,
              0); /* one byte more than a body may have: known from the header alone */
    MALFORMED(255, 255, 255, 255, 1, 0, 0, 0);
    MALFORMED(1, 0, 0, 0, 1, 0, 0, 0, 9); /* no room for a field's header */
    MALFORMED(7, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0);
    MALFORMED(8, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0); /* padding of the field */
    MALFORMED(8, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0); /* a field longer than the body */
    MALFORMED(8, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255);
    MALFORMED(9, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1); /* a byte behind the last field */
}

static void test_limits_of_a_frame(void **state)
{
    _cleanup_buf_ struct buf b = BUF_INIT(2 * WIRE_BODY_MAX);
    struct wire_frame f;
    char *data = calloc(1, WIRE_BODY_MAX + 1);
    assert_non_null(data);
    size_t begin = wire_begin(&b, WIRE_DATA);
    wire_put(&b, WIRE_K_DATA, data, WIRE_BODY_MAX - 8);
    wire_end(&b, begin);
    assert_false(b.failed);
    assert_int_equal(wire_parse(b.data, b.len, &f), b.len);
    begin = wire_begin(&b, WIRE_DATA);
    wire_put(&b, WIRE_K_DATA, data, WIRE_BODY_MAX - 7);
    wire_end(&b, begin);
    assert_true(b.failed);
    assert_int_equal(wire_send(-1, &b, NULL, 0), -ENOBUFS);
    struct buf c = BUF_INIT(2 * WIRE_BODY_MAX);
    wire_put(&c, WIRE_K_DATA, data, WIRE_BODY_MAX + 1);
    assert_true(c.failed);
    buf_free(&c);
    free(data);
}

struct link {
    int ends[2];
    struct wire_reader reader;
};

static int connect_link(void **state)
{
    struct link *l = calloc(1, sizeof *l);
    *state = l;
    if (!l || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, l->ends) < 0)
        return -1;
    l->reader = WIRE_READER_INIT(l->ends[1]);
    return 0;
}

static int close_link(void **state)
{
    struct link *l = *state;
    wire_reader_free(&l->reader);
    cleanup_close(&l->ends[0]);
    cleanup_close(&l->ends[1]);
    free(l);
    return 0;
}

static void test_reader_takes_bytes_as_they_come(void **state)
{
    struct link *l = *state;
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    struct wire_frame f;
    for (int i = 0; i < 3; i++)
        make_frame(&b);
    size_t one = b.len / 3, frames = 0;
    for (size_t i = 0; i < b.len; i++) {
        assert_int_equal(io_write_all(l->ends[0], b.data + i, 1), 0);
        assert_int_equal(wire_fill(&l->reader), 1);
        int r = wire_take(&l->reader, &f);
        assert_int_equal(r, (i + 1) % one == 0);
        frames += (size_t)r;
        if (r)
            assert_int_equal(wire_find_u64(&f, WIRE_K_TIMEOUT_MS, 0), 0x0102030405060708);
    }
    assert_int_equal(frames, 3);
    assert_int_equal(wire_take(&l->reader, &f), 0);
}

static void test_reader_splits_what_came_together(void **state)
{
    struct link *l = *state;
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    struct wire_frame f;
    for (int i = 0; i < 3; i++)
        make_frame(&b);
    assert_int_equal(wire_send(l->ends[0], &b, NULL, 0), 0);
    assert_int_equal(b.len, 0);
    cleanup_close(&l->ends[0]);
    l->ends[0] = -1;
    for (int i = 0; i < 3; i++)
        assert_int_equal(wire_read(&l->reader, &f), 1);
    assert_int_equal(wire_read(&l->reader, &f), 0);
    assert_int_equal(wire_read(&l->reader, &f), 0);
}

static void test_end_within_a_frame(void **state)
{
    struct link *l = *state;
    struct wire_frame f;
    assert_int_equal(io_write_all(l->ends[0], "\5\0\0", 3), 0);
    shutdown(l->ends[0], SHUT_WR);
    assert_int_equal(wire_read(&l->reader, &f), -EPROTO);
}

/* A header that promises too much is refused before anything is kept for it. */
static void test_oversize_costs_nothing(void **state)
{
    struct link *l = *state;
    struct wire_frame f;
    assert_int_equal(io_write_all(l->ends[0], "\xff\xff\xff\x7f\1\0\0\0", 8), 0);
    assert_int_equal(wire_read(&l->reader, &f), -EPROTO);
    assert_true(l->reader.in.cap <= 2 * WIRE_DATA_MAX);
}

static void test_largest_frame_passes(void **state)
{
    struct link *l = *state;
    _cleanup_buf_ struct buf b = BUF_INIT(2 * WIRE_BODY_MAX);
    struct wire_frame f;
    char *data = calloc(1, WIRE_BODY_MAX);
    size_t begin = wire_begin(&b, WIRE_DATA);
    wire_put(&b, WIRE_K_DATA, data, WIRE_BODY_MAX - 8);
    wire_end(&b, begin);
    make_frame(&b);
    pid_t child = fork();
    if (child == 0)
        _exit(wire_send(l->ends[0], &b, NULL, 0) < 0);
    assert_int_equal(wire_read(&l->reader, &f), 1);
    assert_int_equal(f.size, WIRE_BODY_MAX);
    assert_int_equal(wire_read(&l->reader, &f), 1);
    assert_int_equal(f.type, WIRE_EXEC);
    assert_int_equal(waitpid(child, NULL, 0), child);
    free(data);
}

static int count_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_reader_keeps_descriptors(void **state)
{
    struct link *l = *state;
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    struct wire_frame f;
    int before = count_open(), fds[] = {0, 1, 2};
    make_frame(&b);
    assert_int_equal(wire_send(l->ends[0], &b, fds, 3), 0);
    assert_int_equal(wire_read(&l->reader, &f), 1);
    assert_int_equal(l->reader.n_fds, 3);
    assert_int_equal(count_open(), before + 3);
    close(TAKE_FD(l->reader.fds[1]));
    wire_reader_free(&l->reader);
    assert_int_equal(count_open(), before);
}

/* A peer that sends descriptors with every byte fills nothing but the four places. */
static void test_reader_holds_few_descriptors(void **state)
{
    struct link *l = *state;
    struct wire_frame f;
    int before = count_open(), fds[] = {0, 1, 2};
    for (int i = 0; i < 7; i++)
        assert_int_equal(io_send_fds(l->ends[0], "\0", 1, fds, 3), 1);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(wire_fill(&l->reader), 1);
        assert_int_equal(wire_take(&l->reader, &f), 0);
    }
    assert_int_equal(l->reader.n_fds, WIRE_FDS_MAX);
    assert_int_equal(count_open(), before + (int)WIRE_FDS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_on_the_wire),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_every_part_of_a_frame_is_incomplete),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_limits_of_a_frame),
        cmocka_unit_test_setup_teardown(test_reader_takes_bytes_as_they_come, connect_link,
                                        close_link),
        cmocka_unit_test_setup_teardown(test_reader_splits_what_came_together, connect_link,
                                        close_link),
        cmocka_unit_test_setup_teardown(test_end_within_a_frame, connect_link, close_link),
        cmocka_unit_test_setup_teardown(test_oversize_costs_nothing, connect_link, close_link),
        cmocka_unit_test_setup_teardown(test_largest_frame_passes, connect_link, close_link),
        cmocka_unit_test_setup_teardown(test_reader_keeps_descriptors, connect_link, close_link),
        cmocka_unit_test_setup_teardown(test_reader_holds_few_descriptors, connect_link,
                                        close_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
