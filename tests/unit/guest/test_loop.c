/* The guest's event loop: sources take turns, and a handler may forget any of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "thread.h"
#include "guest.h"

#define MANY 100

struct ear {
    struct loop_source source;
    struct loop *loop;
    struct ear *forgets; /* one that it stops watching, if any */
    int feed;
    unsigned calls;
};

static void ear_ready(struct loop_source *s, short events)
{
    struct ear *e = CONTAINER_OF(s, struct ear, source);
    e->calls++;
    if (e->forgets)
        loop_watch(e->loop, &e->forgets->source, 0);
}

/* One that always has something to read. */
static void ear_open(struct ear *e, struct loop *l)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    *e = (struct ear){.source = {.fd = ends[0], .ready = ear_ready}, .loop = l, .feed = ends[1]};
    assert_int_equal(loop_watch(l, &e->source, POLLIN), 0);
}

static void ear_close(struct ear *e)
{
    loop_close(e->loop, &e->source);
    close(e->feed);
}

static void loop_end(struct loop *l)
{
    free(l->polls);
    free(l->sources);
}

static void busy_sources_take_turns(void **state)
{
    struct loop l = {0};
    struct ear ears[MANY];
    for (int i = 0; i < MANY; i++)
        ear_open(&ears[i], &l);
    for (int i = 0; i < 3 * MANY; i++)
        loop_step(&l);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(ears[i].calls, 3);
        ear_close(&ears[i]);
    }
    assert_int_equal(l.count, 0);
    loop_end(&l);
}

static void a_forgotten_source_is_not_called(void **state)
{
    struct loop l = {0};
    struct ear first, second, third;
    ear_open(&first, &l);
    ear_open(&second, &l);
    ear_open(&third, &l);
    first.forgets = &second;
    for (int i = 0; i < 6; i++)
        loop_step(&l);
    assert_int_equal(second.calls, 0);
    assert_true(first.calls == 3 && third.calls == 3);
    ear_close(&first);
    ear_close(&second);
    ear_close(&third);
    loop_end(&l);
}

static void a_handler_may_forget_itself(void **state)
{
    struct loop l = {0};
    struct ear only;
    ear_open(&only, &l);
    only.forgets = &only;
    loop_step(&l);
    assert_int_equal(only.calls, 1);
    assert_int_equal(l.count, 0);
    assert_int_equal(loop_watch(&l, &only.source, POLLIN), 0); /* and be watched again */
    loop_step(&l);
    assert_int_equal(only.calls, 2);
    ear_close(&only);
    loop_end(&l);
}

static bool fired;

static void timer_fired(struct loop_timer *t)
{
    fired = true;
}

static void a_timer_fires_beside_a_busy_source(void **state)
{
    struct loop l = {0};
    struct ear busy;
    struct loop_timer timer = {.fire = timer_fired};
    ear_open(&busy, &l);
    loop_timer_set(&l, &timer, clock_now());
    loop_step(&l);
    assert_true(fired && busy.calls == 1);
    ear_close(&busy);
    loop_end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_sources_take_turns),
        cmocka_unit_test(a_forgotten_source_is_not_called),
        cmocka_unit_test(a_handler_may_forget_itself),
        cmocka_unit_test(a_timer_fires_beside_a_busy_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
