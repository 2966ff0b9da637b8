/* What learning is made of: dice, the map of states, the table of values, means. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "policy.h"
#include "eval.h"
#include "qtable.h"
#include "train.h"
#include "banned.h"

/* Reference values of xoshiro256** and splitmix64, as their authors publish them. */
static void test_dice_are_the_known_ones(void **state)
{
    static const uint64_t KNOWN[] = {
        11520, 0, 1509978240, 1215971899390074240, 1216172134540287360, 607988272756665600};
    struct dice d = {{1, 2, 3, 4}};
    for (size_t i = 0; i < ARRAY_SIZE(KNOWN); i++)
        assert_int_equal(dice_next(&d), KNOWN[i]);
    dice_seed(&d, 0);
    assert_int_equal(d.state[0], 0xe220a8397b1dcdafu);
    assert_int_equal(d.state[1], 0x6e789e6aa1b965f4u);
    assert_int_equal(dice_next(&d), 0x99ec5f36cb75f2b4u);
    dice_seed(&d, 7);
    assert_int_equal(dice_next(&d), 0xb358faf74ef9765au);
}

static void test_dice_stay_in_range(void **state)
{
    struct dice d;
    unsigned seen[6] = {0};
    dice_seed(&d, 3);
    for (unsigned i = 0; i < 6000; i++) {
        uint64_t n = dice_below(&d, 6);
        double u = dice_unit(&d);
        assert_true(n < 6 && u >= 0 && u < 1);
        seen[n]++;
    }
    for (unsigned i = 0; i < 6; i++)
        assert_in_range(seen[i], 880, 1120);
    assert_int_equal(dice_below(&d, 1), 0);
    assert_true(dice_below(&d, UINT64_MAX) < UINT64_MAX);
}

static void test_vectors_are_numbered_once(void **state)
{
    struct feature_map m = {.width = 2};
    assert_int_equal(feature_map_find(&m, (int64_t[]){1, 2}), -1);
    for (int64_t i = 0; i < 5000; i++)
        assert_int_equal(feature_map_add(&m, (int64_t[]){i / 70, -(i % 70)}), i);
    for (int64_t i = 0; i < 5000; i++) {
        assert_int_equal(feature_map_find(&m, (int64_t[]){i / 70, -(i % 70)}), i);
        assert_int_equal(feature_map_add(&m, (int64_t[]){i / 70, -(i % 70)}), i);
    }
    assert_int_equal(m.count, 5000);
    assert_int_equal(feature_map_key(&m, 71)[0], 1);
    assert_int_equal(feature_map_find(&m, (int64_t[]){99, 99}), -1);
    feature_map_free(&m);
}

/*
 * A small world like a task: PATCHES switches, of which the first GOOD must be on and no other; a
 * look that changes nothing; submit. All or nothing, so that nothing leads the way.
 */
#define PATCHES 9
#define GOOD    3
#define LOOK    PATCHES
#define SUBMIT  (PATCHES + 1)
#define ACTIONS (PATCHES + 2)
#define PRICE   0.01

struct world {
    int64_t on[PATCHES + 1]; /* and whether it was looked */
    unsigned steps;
};

static double act(struct world *w, size_t action, bool *ret_over)
{
    unsigned good = 0, bad = 0;
    w->steps++;
    *ret_over = action == SUBMIT;
    if (action < PATCHES && !w->on[action]) {
        w->on[action] = 1;
        w->on[PATCHES] = 0;
    } else if (action == LOOK)
        w->on[PATCHES] = 1;
    for (unsigned i = 0; i < PATCHES; i++)
        *(i < GOOD ? &good : &bad) += w->on[i] != 0;
    return -PRICE + (*ret_over ? good == GOOD && bad == 0 ? 1 : 0.25 : 0);
}

/* One episode; its return. */
static double play(struct qtable *q, bool explore, bool learn)
{
    struct world w = {0};
    size_t path[64][2];
    double total = 0;
    bool over = false;
    while (!over && w.steps < ARRAY_SIZE(path)) {
        ssize_t s = qtable_state(q, w.on), best = qtable_best(q, (size_t)s);
        size_t a = explore || best < 0 ? (size_t)qtable_explore(q, (size_t)s) : (size_t)best;
        path[w.steps][0] = (size_t)s;
        path[w.steps][1] = a;
        double reward = act(&w, a, &over);
        total += reward;
        ssize_t next = over ? QTABLE_END : qtable_state(q, w.on);
        if (learn)
            assert_int_equal(qtable_note(q, (size_t)s, a, reward, PRICE, (int32_t)next), 0);
    }
    for (size_t i = w.steps; learn && i-- > 0;)
        qtable_update(q, path[i][0], path[i][1]);
    if (learn)
        qtable_replay(q);
    return total;
}

static void make(struct qtable *q, uint64_t seed, double alpha)
{
    struct dice d;
    dice_seed(&d, seed);
    struct qtable_options o = {.features = PATCHES + 1,
                               .actions = ACTIONS,
                               .alpha = alpha,
                               .gamma = 1,
                               .price = PRICE,
                               .dice = &d};
    assert_int_equal(qtable_init(q, &o), 0);
}

static void test_the_table_finds_what_is_best(void **state)
{
    for (uint64_t seed = 1; seed <= 8; seed++)
        for (unsigned i = 0; i < 2; i++) {
            struct qtable q;
            unsigned episodes = 0;
            make(&q, seed, i ? 0.5 : 1);
            while (fabs(play(&q, false, false) - (1 - PRICE * (GOOD + 1))) > 1e-9) {
                assert_true(++episodes < 800);
                play(&q, true, true);
            }
            qtable_free(&q);
        }
}

/* Once nothing is left to be found out, an explorer does what is best, and nothing new is tried. */
static void test_exploring_comes_to_an_end(void **state)
{
    struct qtable q;
    make(&q, 1, 1);
    for (unsigned i = 0; i < 1200; i++)
        play(&q, true, true);
    size_t tried = q.n_tried, states = q.states.count;
    for (unsigned i = 0; i < 20; i++)
        assert_true(fabs(play(&q, true, true) - (1 - PRICE * (GOOD + 1))) < 1e-9);
    assert_int_equal(q.n_tried, tried);
    assert_int_equal(q.states.count, states);
    qtable_free(&q);
}

static void test_what_leads_nowhere_is_not_taken(void **state)
{
    struct qtable q;
    make(&q, 1, 1);
    ssize_t s = qtable_state(&q, (int64_t[PATCHES + 1]){0});
    for (size_t a = 0; a < ACTIONS - 1; a++) {
        assert_int_equal(qtable_note(&q, (size_t)s, a, -PRICE, PRICE, (int32_t)s), 0);
        qtable_update(&q, (size_t)s, a);
    }
    assert_int_equal(qtable_best(&q, (size_t)s), -1);
    assert_int_equal(qtable_explore(&q, (size_t)s), SUBMIT);
    qtable_note(&q, (size_t)s, SUBMIT, 0.24, PRICE, QTABLE_END);
    qtable_update(&q, (size_t)s, SUBMIT);
    assert_int_equal(qtable_best(&q, (size_t)s), SUBMIT);
    assert_true(fabs(qtable_entry(&q, (size_t)s, SUBMIT)->value - 0.24) < 1e-12);
    qtable_free(&q);
}

/* The first steps of an episode, with prices and rewards of another day, and all of it taken
 * back. */
static void play_and_take_back(struct qtable *q, unsigned steps)
{
    struct world w = {0};
    struct {
        size_t state, action;
        struct qtable_entry was;
        double price;
    } path[16];
    size_t states = q->states.count, n = 0;
    bool over = false;
    while (n < steps && !over) {
        size_t s = (size_t)qtable_state(q, w.on), a = (size_t)qtable_explore(q, s);
        double reward = act(&w, a, &over);
        ssize_t next = over ? QTABLE_END : qtable_state(q, w.on);
        path[n].state = s;
        path[n].action = a;
        path[n].was = *qtable_entry(q, s, a);
        path[n++].price = q->prices[a];
        assert_int_equal(qtable_note(q, s, a, 2 * reward, PRICE / 4, (int32_t)next), 0);
    }
    while (n-- > 0)
        qtable_take_back(q, path[n].state, path[n].action, &path[n].was, path[n].price);
    qtable_drop_states(q, states);
}

static void test_an_episode_that_was_given_up_leaves_nothing(void **state)
{
    struct qtable q, other;
    make(&q, 1, 0.5);
    make(&other, 1, 0.5);
    for (unsigned i = 0; i < 200; i++) {
        play_and_take_back(&other, i % 7);
        assert_true(play(&q, true, true) == play(&other, true, true));
    }
    assert_int_equal(q.n_tried, other.n_tried);
    assert_int_equal(q.states.count, other.states.count);
    assert_memory_equal(q.prices, other.prices, ACTIONS * sizeof *q.prices);
    for (size_t s = 0; s < q.states.count; s++) {
        assert_memory_equal(feature_map_key(&q.states, s), feature_map_key(&other.states, s),
                            q.states.width * sizeof(int64_t));
        assert_int_equal(feature_map_find(&other.states, feature_map_key(&q.states, s)), s);
        assert_int_equal(qtable_best(&q, s), qtable_best(&other, s));
        assert_int_equal(qtable_explore(&q, s), qtable_explore(&other, s));
    }
    qtable_free(&q);
    qtable_free(&other);
}

static void test_alpha_and_gamma_are_used(void **state)
{
    struct qtable q;
    make(&q, 1, 0.25);
    q.gamma = 0.5;
    ssize_t a = qtable_state(&q, (int64_t[PATCHES + 1]){0}),
            b = qtable_state(&q, (int64_t[PATCHES + 1]){1});
    qtable_note(&q, (size_t)b, SUBMIT, 0.8, PRICE, QTABLE_END);
    qtable_update(&q, (size_t)b, SUBMIT);
    qtable_note(&q, (size_t)a, 0, -0.1, PRICE, (int32_t)b);
    qtable_update(&q, (size_t)a, 0);
    assert_true(fabs(qtable_entry(&q, (size_t)a, 0)->value - 0.3) < 1e-12);
    qtable_note(&q, (size_t)b, SUBMIT, 0.4, PRICE, QTABLE_END);
    qtable_update(&q, (size_t)b, SUBMIT);
    assert_true(fabs(qtable_entry(&q, (size_t)b, SUBMIT)->value - 0.7) < 1e-12);
    qtable_free(&q);
}

static void test_means_and_intervals(void **state)
{
    static const double SAME[] = {0.5, 0.5, 0.5}, MIXED[] = {0, 1, 0, 1, 0, 1, 0, 1, 1, 1};
    struct eval_stat none = eval_stat_of(NULL, 0, 1), same = eval_stat_of(SAME, 3, 1);
    struct eval_stat mixed = eval_stat_of(MIXED, 10, 1), again = eval_stat_of(MIXED, 10, 1);
    assert_true(isnan(none.mean) && none.n == 0);
    assert_true(same.mean == 0.5 && same.low == 0.5 && same.high == 0.5);
    assert_true(fabs(mixed.mean - 0.6) < 1e-12);
    /* Ten throws of a coin: 0.6 ± 1.96 · √(0.24 / 10) is about 0.3 to 0.9. */
    assert_true(mixed.low >= 0.2 && mixed.low <= 0.4 && mixed.high >= 0.8 && mixed.high <= 1);
    assert_memory_equal(&mixed, &again, sizeof mixed);
}

static void test_lines_of_the_table(void **state)
{
    struct train_point p = {0};
    assert_true(train_table_parse("12,0.9728,1,2,0.72,0.05\n", &p));
    assert_true(p.episode == 12 && p.ret == 0.9728 && p.calls == 2 && p.epsilon == 0.05);
    assert_true(train_table_parse("1,-0.12,0,12,1.5,1", &p));
    static const char *const BAD[] = {"",
                                      "\n",
                                      "episode,return,pass_rate,calls,seconds,epsilon\n",
                                      "1,2,3\n",
                                      "0,1,1,1,1,1\n",
                                      "1,nan,1,1,1,1\n",
                                      "1,1,1,-1,1,1\n",
                                      "1,1,1,1,1,1,1\n",
                                      "1e300,1,1,1,1,1\n",
                                      "1;1;1;1;1;1\n"};
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
        assert_false(train_table_parse(BAD[i], &p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dice_are_the_known_ones),
        cmocka_unit_test(test_dice_stay_in_range),
        cmocka_unit_test(test_vectors_are_numbered_once),
        cmocka_unit_test(test_the_table_finds_what_is_best),
        cmocka_unit_test(test_exploring_comes_to_an_end),
        cmocka_unit_test(test_what_leads_nowhere_is_not_taken),
        cmocka_unit_test(test_an_episode_that_was_given_up_leaves_nothing),
        cmocka_unit_test(test_alpha_and_gamma_are_used),
        cmocka_unit_test(test_means_and_intervals),
        cmocka_unit_test(test_lines_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
