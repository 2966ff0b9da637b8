/*
 * warm_run against a guest and a warm process that are played here, by one process: it gets the
 * ADOPT request and the run as the real ones do, and answers what it likes.
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
#include "module.h"
#include "thread.h"
#include "warm_process.h"

struct stage {
    int conn;    /* to the host, from the guest */
    int control; /* the warm process's end */
    struct wire_reader in;
};

typedef void (*act)(struct stage *s);

static bool related = true;

static void say(struct stage *s, enum wire_type type, uint16_t key, uint64_t value)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    size_t begin = wire_begin(&b, type);
    if (key)
        wire_put_u64(&b, key, value);
    wire_end(&b, begin);
    wire_send(s->conn, &b, NULL, 0);
}

_Noreturn static void play(int guest_end, int warm_end, act how)
{
    struct stage s = {.conn = -1, .control = warm_end};
    size_t n = 0;
    char byte;
    struct wire_frame f;
    if (io_recv_fds(guest_end, &byte, 1, &s.conn, 1, &n, 0) != 1 || n != 1)
        _exit(1);
    s.in = WIRE_READER_INIT(s.conn);
    if (wire_read(&s.in, &f) != 1 || f.type != WIRE_ADOPT || s.in.n_fds != 1)
        _exit(1);
    how(&s);
    _exit(0);
}

/* The descriptors of a run, as they come to the warm process. */
static void take_run(struct stage *s, int fds[WARM_RUN_MAX])
{
    size_t n = 0;
    char byte;
    if (io_recv_fds(s->control, &byte, 1, fds, WARM_RUN_MAX, &n, 0) != 1 || n != WARM_RUN_FIXED)
        _exit(1);
}

static bool hear(void *data, const void *bytes, size_t n)
{
    return !data && n > 0;
}

static int run(act how, void *deaf, struct warm_result *ret, struct error *err)
{
    int ends[2], warm_ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, warm_ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        close(warm_ends[0]);
        play(ends[1], warm_ends[1], how);
    }
    close(ends[1]);
    close(warm_ends[1]);
    int family = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    int other = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    struct ns_machine machine = {.base = {.backend = &BACKEND_NS, .refs = 1},
                                 .guest = {.pid = pid, .pidfd = STDIN_FILENO, .control = ends[0]},
                                 .store = -1,
                                 .userns = related ? family : other};
    struct ns_machine template = {.base = {.backend = &BACKEND_NS, .refs = 1}, .userns = family};
    struct box box = {.machine = &machine.base};
    struct warm w = {
        .machine = &template, .program = -1, .setup = -1, .reviving = cancel_lock_open()};
    pthread_mutex_init(&machine.lock, NULL);
    w.process = (struct guest){.pidfd = -1, .control = warm_ends[0]};
    pthread_mutex_init(&w.lock, NULL);
    pthread_rwlock_init(&box.frozen, NULL);
    *err = (struct error){0};
    struct warm_run ask = {.request = "work",
                           .n_request = 4,
                           .said = hear,
                           .data = deaf,
                           .output_max = 5,
                           .cancel = -1};
    int r = warm_run(&w, &box, &ask, ret, err);
    assert_int_equal(pthread_rwlock_trywrlock(&box.frozen),
                     0); /* whatever happened, it was let go */
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ends[0]);
    close(family);
    close(other);
    close(w.reviving);
    cleanup_close(&w.process.control);
    return r;
}

static void act_well(struct stage *s)
{
    int fds[WARM_RUN_MAX];
    char request[8] = "";
    say(s, WIRE_WAITING, 0, 0);
    take_run(s, fds);
    if (read(fds[WARM_RUN_REQUEST], request, sizeof request) != 4 || strcmp(request, "work") != 0)
        _exit(1);
    say(s, WIRE_ARRIVED, 0, 0);
    if (io_write_all(fds[WARM_RUN_OUTPUT], "long output", 11) < 0 ||
        io_write_all(fds[WARM_RUN_SAID], "x", 1) < 0)
        _exit(1);
    say(s, WIRE_RESULT, WIRE_K_EXIT_CODE, 3);
}

static void test_a_run(void **state)
{
    struct warm_result r;
    struct error err;
    assert_int_equal(run(act_well, NULL, &r, &err), 0);
    assert_int_equal(r.exit_code, 3);
    assert_int_equal(r.output.len, 5);
    assert_memory_equal(r.output.data, "utput", 5);
    assert_int_equal(r.output_total, 11);
    warm_result_free(&r);
}

static void act_refuse(struct stage *s)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1000);
    size_t begin = wire_begin(&b, WIRE_ERROR);
    wire_put_u64(&b, WIRE_K_CODE, EAGAIN);
    wire_put_str(&b, WIRE_K_TEXT, "no room");
    wire_end(&b, begin);
    wire_send(s->conn, &b, NULL, 0);
}

static void act_leave(struct stage *s) {}

/* A result without anybody having come is nobody's result, least of all a good one. */
static void act_forge(struct stage *s)
{
    say(s, WIRE_WAITING, 0, 0);
    say(s, WIRE_RESULT, WIRE_K_EXIT_CODE, 0);
    pause();
}

static void act_talk_nonsense(struct stage *s)
{
    if (write(s->conn, "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9) < 0)
        _exit(1);
    pause();
}

static void test_guests_that_do_not_play_along(void **state)
{
    struct warm_result r;
    struct error err;
    assert_int_equal(run(act_refuse, NULL, &r, &err), -EAGAIN);
    assert_string_equal(err.text, "no room");
    assert_int_equal(run(act_leave, NULL, &r, &err), -EPIPE);
    assert_int_equal(run(act_forge, NULL, &r, &err), -EPIPE);
    assert_int_equal(run(act_talk_nonsense, NULL, &r, &err), -EPROTO);
}

static void act_hear_the_end(struct stage *s)
{
    int fds[WARM_RUN_MAX];
    struct wire_frame f;
    say(s, WIRE_WAITING, 0, 0);
    take_run(s, fds);
    say(s, WIRE_ARRIVED, 0, 0);
    if (io_write_all(fds[WARM_RUN_SAID], "x", 1) == 0 && wire_read(&s->in, &f) == 1 &&
        f.type == WIRE_KILL)
        say(s, WIRE_RESULT, WIRE_K_TERM_SIGNAL, SIGKILL);
}

static void test_who_does_not_listen_ends_it(void **state)
{
    struct warm_result r;
    struct error err;
    char deaf;
    assert_int_equal(run(act_hear_the_end, &deaf, &r, &err), 0);
    assert_int_equal(r.signal, SIGKILL);
    assert_int_equal(r.exit_code, 128 + SIGKILL);
    warm_result_free(&r);
}

/* The warm process is gone before the run is sent: another is started, once. */
static void act_be_gone(struct stage *s)
{
    close(s->control);
    say(s, WIRE_WAITING, 0, 0);
    pause();
}

static void test_a_warm_process_that_is_gone(void **state)
{
    struct warm_result r;
    struct error err;
    assert_int_equal(run(act_be_gone, NULL, &r, &err), -EINVAL);
    assert_string_equal(err.text, "these boxes were not opened to be entered by a warm process");
}

static void test_strangers(void **state)
{
    struct warm_result r;
    struct error err;
    related = false;
    assert_int_equal(run(act_well, NULL, &r, &err), -EXDEV);
    related = true;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run),
        cmocka_unit_test(test_guests_that_do_not_play_along),
        cmocka_unit_test(test_who_does_not_listen_ends_it),
        cmocka_unit_test(test_a_warm_process_that_is_gone),
        cmocka_unit_test(test_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
