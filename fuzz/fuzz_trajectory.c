/*
 * Trajectories of anybody: what is read is whole, and written again it is read as the same. Each
 * recorded step is the same as itself. The same bytes as a test runner's output: what is made of
 * them does not change any more when it is done again.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compose.h"
#include "observation.h"
#include "trajectory.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void put_line(struct buf *b, const json_t *o)
{
    char *line = trajectory_line(o);
    require(line != NULL);
    buf_append_str(b, line);
    buf_append(b, "\n", 1);
    free(line);
}

static void check_again(const struct trajectory *t)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64u << 20);
    struct trajectory same = {0};
    size_t i;
    json_t *step;
    put_line(&b, t->head);
    json_array_foreach(t->steps, i, step) put_line(&b, step);
    if (t->end)
        put_line(&b, t->end);
    require(!b.failed && trajectory_parse((char *)b.data, b.len, "again", &same, NULL) == 0);
    require(json_equal(t->head, same.head) && json_equal(t->steps, same.steps));
    require(!t->end == !same.end && (!t->end || json_equal(t->end, same.end)));
    trajectory_free(&same);
}

static void check_steps(const struct trajectory *t)
{
    size_t i;
    json_t *o;
    char why[256];
    json_array_foreach(t->steps, i, o)
    {
        json_t *action = json_object_get(o, "action");
        struct gym_step s = {.number = (unsigned)i,
                             .action = json_is_null(action) ? NULL : action,
                             .observation = json_object_get(o, "observation")};
        require(json_is_object(s.observation));
        require(trajectory_same(t, &s, CLOCK_WALL, why, sizeof why));
        trajectory_same(t, &s, CLOCK_VIRTUAL, why, sizeof why);
    }
}

static void check_scrub(const char *text, size_t n)
{
    _cleanup_buf_ struct buf once = BUF_INIT(n + 1), twice = BUF_INIT(n + 1);
    require(observe_scrub(text, n, &once) == 0 && once.len <= n);
    require(observe_scrub((const char *)once.data, once.len, &twice) == 0);
    require(once.len == twice.len &&
            (once.len == 0 || memcmp(once.data, twice.data, once.len) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct trajectory t = {0};
    struct error err = {0};
    char *copy = malloc(n + 1); /* so that reading past the end is found */
    require(copy != NULL);
    if (n)
        memcpy(copy, data, n);
    if (trajectory_parse(copy, n, "fuzz", &t, &err) == 0) {
        check_again(&t);
        check_steps(&t);
        trajectory_free(&t);
    } else {
        require(err.code > 0 && err.text[0]);
    }
    check_scrub(copy, n);
    free(copy);
    return 0;
}
