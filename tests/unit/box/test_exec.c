/*
 * box_exec against a guest that is played here: it gets a connection as a real one does, and
 * answers what it likes.
 */
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
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "io.h"
#include "box_internal.h"

/* What the guest does with the request and the descriptors that came with it. */
typedef void (*act)(int conn, struct wire_reader *in);

static struct guest guest;
static struct usage usage;
static bool ended;

static int is_up(struct machine *m, struct error *e)
{
    return 0;
}

static int connect_guest(struct machine *m, struct buf *request, const int *fds, size_t n_fds,
                         int *ret_fd)
{
    return guest_connect(&guest, request, fds, n_fds, ret_fd);
}

static void get_status(struct machine *m, int wait_ms, struct machine_status *ret)
{
    guest_status(&guest, wait_ms, ret);
}

static void get_usage(struct machine *m, unsigned detail, struct usage *ret)
{
    *ret = usage;
}

static void kill_all(struct machine *m)
{
    ended = true;
    kill(guest.pid, SIGKILL);
}

_Noreturn static void play(int control, act how)
{
    int conn = -1;
    size_t n = 0;
    char byte;
    struct wire_frame f;
    if (io_recv_fds(control, &byte, 1, &conn, 1, &n, 0) != 1 || n != 1)
        _exit(1);
    struct wire_reader in = WIRE_READER_INIT(conn);
    if (wire_read(&in, &f) != 1 || f.type != WIRE_EXEC)
        _exit(1);
    how(conn, &in);
    _exit(0);
}

static void start_guest(act how)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        play(ends[1], how);
    }
    close(ends[1]);
    guest = (struct guest){.pid = pid, .pidfd = -1, .control = ends[0]};
    usage = (struct usage){0};
    ended = false;
}

static int run(act how, struct box_limits limits, bool tty, struct box_result *ret,
               struct error *err)
{
    static const struct backend backend = {.wait = is_up,
                                           .connect = connect_guest,
                                           .status = get_status,
                                           .usage = get_usage,
                                           .kill = kill_all};
    static struct machine machine = {.backend = &backend, .refs = 1};
    static char word[] = "true", *argv[] = {word, NULL};
    struct box box = {.ops = &LOCAL_BOX, .machine = &machine, .limits = limits};
    struct box_command c = {
        .argv = argv, .in = -1, .out = -1, .err = -1, .cancel = -1, .capture = true, .tty = tty};
    *err = (struct error){0};
    *ret = (struct box_result){0};
    start_guest(how);
    int r = box_exec(&box, &c, ret, err);
    kill(guest.pid, SIGKILL);
    assert_int_equal(waitpid(guest.pid, NULL, 0), guest.pid);
    close(guest.control);
    return r;
}

static const struct box_limits PLAIN = {.output = 100};

static void send_result(int conn, const uint64_t (*fields)[2], size_t n)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    size_t begin = wire_begin(&b, WIRE_RESULT);
    for (size_t i = 0; i < n; i++)
        wire_put_u64(&b, (uint16_t)fields[i][0], fields[i][1]);
    wire_end(&b, begin);
    wire_send(conn, &b, NULL, 0);
}
#define SEND_RESULT(conn, ...)                                                                     \
    send_result(conn, (const uint64_t[][2]){__VA_ARGS__},                                          \
                ARRAY_SIZE(((const uint64_t[][2]){__VA_ARGS__})))

static void act_well(int conn, struct wire_reader *in)
{
    if (in->n_fds == 3 && io_write_all(in->fds[1], "out", 3) == 0 &&
        io_write_all(in->fds[2], "error", 5) == 0)
        SEND_RESULT(conn, {WIRE_K_EXIT_CODE, 3}, {WIRE_K_DURATION_NS, 5000000}, {WIRE_K_CPU_US, 7},
                    {WIRE_K_MAX_RSS, 4096});
}

static void test_result(void **state)
{
    struct box_result r;
    struct error err;
    assert_int_equal(run(act_well, PLAIN, false, &r, &err), 0);
    assert_int_equal(r.exit_code, 3);
    assert_int_equal(r.signal, 0);
    assert_int_equal(r.limit, WIRE_LIMIT_NONE);
    assert_int_equal(r.duration_ns, 5000000);
    assert_int_equal(r.cpu_ns, 7000);
    assert_int_equal(r.max_rss, 4096);
    assert_int_equal(r.out.total, 3);
    assert_memory_equal(r.out.head.data, "out", 3);
    assert_memory_equal(r.err.head.data, "error", 5);
    box_result_free(&r);
}

static void act_signalled(int conn, struct wire_reader *in)
{
    SEND_RESULT(conn, {WIRE_K_TERM_SIGNAL, SIGSEGV});
}

static void act_late(int conn, struct wire_reader *in)
{
    SEND_RESULT(conn, {WIRE_K_TERM_SIGNAL, SIGKILL}, {WIRE_K_LIMIT, WIRE_LIMIT_TIMEOUT});
}

static void test_signals_and_limits(void **state)
{
    struct box_result r;
    struct error err;
    assert_int_equal(run(act_signalled, PLAIN, false, &r, &err), 0);
    assert_int_equal(r.exit_code, 128 + SIGSEGV);
    assert_int_equal(r.signal, SIGSEGV);
    box_result_free(&r);
    assert_int_equal(run(act_late, PLAIN, false, &r, &err), 0);
    assert_int_equal(r.exit_code, 124);
    assert_int_equal(r.limit, WIRE_LIMIT_TIMEOUT);
    box_result_free(&r);
}

static void act_lie(int conn, struct wire_reader *in)
{
    SEND_RESULT(conn, {WIRE_K_EXIT_CODE, 1000}, {WIRE_K_TERM_SIGNAL, INT32_MAX},
                {WIRE_K_CPU_US, UINT64_MAX / 2}, {WIRE_K_DURATION_NS, UINT64_MAX},
                {WIRE_K_LIMIT, 99});
}

static void test_lies_are_bounded(void **state)
{
    struct box_result r;
    struct error err;
    assert_int_equal(run(act_lie, PLAIN, false, &r, &err), 0);
    assert_in_range(r.exit_code, 0, 255);
    assert_in_range(r.signal, 0, NSIG - 1);
    assert_true(r.cpu_ns >= 0 && r.duration_ns >= 0);
    assert_int_equal(r.limit, WIRE_LIMIT_NONE);
    box_result_free(&r);
}

static void act_dead(int conn, struct wire_reader *in) {}

static void test_a_guest_that_ends(void **state)
{
    struct box_result r;
    struct error err;
    assert_true(run(act_dead, PLAIN, false, &r, &err) < 0);
    assert_non_null(strstr(err.text, "process 1"));
}

static void act_garbage(int conn, struct wire_reader *in)
{
    io_write_all(conn, "\xff\xff\xff\xff garbage", 12);
    pause();
}

static void act_misplaced(int conn, struct wire_reader *in)
{
    io_write_all(conn, "\0\0\0\0\x82\0\0\0", 8);
    pause();
}

static void act_error(int conn, struct wire_reader *in)
{
    io_write_all(conn, "\x08\0\0\0\x84\0\0\0\x21\0\0\0\0\0\0\0",
                 16); /* an ERROR with an empty text */
    pause();
}

static void test_bad_answers(void **state)
{
    struct box_result r;
    struct error err;
    assert_int_equal(run(act_garbage, PLAIN, false, &r, &err), -EPROTO);
    assert_int_equal(run(act_misplaced, PLAIN, false, &r, &err), -EPROTO);
    assert_int_equal(run(act_error, PLAIN, false, &r, &err), -EIO);
    assert_true(err.text[0] != 0);
}

/* Waits to be told to end the command, as a real guest does for one that says too much. */
static void act_chatter(int conn, struct wire_reader *in)
{
    struct wire_frame f;
    io_write_all(in->fds[1], "0123456789", 10);
    if (wire_read(in, &f) == 1 && f.type == WIRE_KILL)
        SEND_RESULT(conn, {WIRE_K_TERM_SIGNAL, SIGKILL});
}

static void test_output_limit(void **state)
{
    struct box_result r;
    struct error err;
    assert_int_equal(
        run(act_chatter, (struct box_limits){.output = 4, .output_total = 9}, false, &r, &err), 0);
    assert_int_equal(r.limit, WIRE_LIMIT_OUTPUT);
    assert_int_equal(r.out.total, 10);
    assert_memory_equal(r.out.head.data, "01", 2);
    assert_memory_equal(r.out.tail.data, "89", 2);
    box_result_free(&r);
}

static void act_deaf(int conn, struct wire_reader *in)
{
    io_write_all(in->fds[1], "0123456789", 10);
    for (;;)
        pause();
}

/* A guest that does not do what it is asked is not waited for: the whole box ends. */
static void test_a_deaf_guest_is_ended(void **state)
{
    struct box_result r;
    struct error err;
    assert_int_equal(
        run(act_deaf, (struct box_limits){.output = 4, .output_total = 9}, false, &r, &err), 0);
    assert_true(ended);
    assert_int_equal(r.limit, WIRE_LIMIT_OUTPUT);
    box_result_free(&r);
}

static void act_tty(int conn, struct wire_reader *in)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    size_t begin = wire_begin(&b, WIRE_OUTPUT);
    wire_put_str(&b, WIRE_K_DATA, "screen");
    wire_end(&b, begin);
    if (in->n_fds == 0 && wire_send(conn, &b, NULL, 0) == 0)
        SEND_RESULT(conn, {WIRE_K_EXIT_CODE, 0});
}

static void test_terminal(void **state)
{
    struct box_result r;
    struct error err;
    assert_int_equal(run(act_tty, PLAIN, true, &r, &err), 0);
    assert_int_equal(r.exit_code, 0);
    assert_int_equal(r.out.head.len, 6);
    assert_memory_equal(r.out.head.data, "screen", 6);
    box_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_signals_and_limits),
        cmocka_unit_test(test_lies_are_bounded),
        cmocka_unit_test(test_a_guest_that_ends),
        cmocka_unit_test(test_bad_answers),
        cmocka_unit_test(test_output_limit),
        cmocka_unit_test(test_a_deaf_guest_is_ended),
        cmocka_unit_test(test_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
