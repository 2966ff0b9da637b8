/* Waiting that can be ended, and a lock that is waited for like that. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <cmocka.h>

#include "thread.h"
#include "banned.h"

#define THREADS 8
#define ROUNDS  200

static void test_a_wish(void **state)
{
    struct error err = {0};
    int wish = eventfd(0, EFD_CLOEXEC);
    assert_false(cancel_asked(wish) || cancel_asked(-1));
    assert_int_equal(cancel_check(wish, &err), 0);
    assert_int_equal(err.code, 0);
    eventfd_write(wish, 1);
    assert_true(cancel_asked(wish) && cancel_asked(wish)); /* looking does not take it back */
    assert_int_equal(cancel_check(wish, &err), -ECANCELED);
    assert_string_equal(err.text, "interrupted");
    close(wish);
}

static void test_waiting(void **state)
{
    int wish = eventfd(0, EFD_CLOEXEC), thing = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(cancel_wait(thing, POLLIN, 0, wish), 0);
    assert_int_equal(cancel_wait(thing, POLLIN, 0, -1), 0);
    assert_int_equal(cancel_wait(thing, POLLIN | POLLOUT, -1, wish), 1);
    eventfd_write(wish, 1);
    assert_int_equal(cancel_wait(thing, POLLIN, -1, wish), -ECANCELED);
    assert_int_equal(cancel_wait(thing, POLLOUT, -1, wish), -ECANCELED); /* the wish goes first */
    close(wish);
    close(thing);
}

struct shared {
    int turn;
    unsigned sum; /* with the turn */
};

static void *add(void *data)
{
    struct shared *s = data;
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(cancel_lock_take(s->turn, -1), 0);
        unsigned was = s->sum;
        sched_yield();
        s->sum = was + 1;
        cancel_lock_give(s->turn);
    }
    return NULL;
}

static void test_one_at_a_time(void **state)
{
    struct shared s = {.turn = cancel_lock_open()};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add, &s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(s.sum, THREADS * ROUNDS);
    close(s.turn);
}

static void *give_up(void *data)
{
    int *fds = data;
    assert_int_equal(cancel_lock_take(fds[0], fds[1]), -ECANCELED);
    return NULL;
}

static void test_nobody_has_to_wait(void **state)
{
    int fds[2] = {cancel_lock_open(), eventfd(0, EFD_CLOEXEC)};
    pthread_t other;
    assert_int_equal(cancel_lock_take(fds[0], fds[1]), 0);
    assert_int_equal(pthread_create(&other, NULL, give_up, fds), 0);
    eventfd_write(fds[1], 1);
    pthread_join(other, NULL);
    cancel_lock_give(fds[0]);
    assert_int_equal(cancel_lock_take(fds[0], -1), 0); /* who gave up does not have it */
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wish),
        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_nobody_has_to_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
