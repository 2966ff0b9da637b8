/* Checkpoints: what was saved is read again to the bit; what is wrong is refused with a word about
 * it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "env.h"
#include "banned.h"

static struct task_patch PATCHES[2];
static struct task TASK = {.name = "small", .patches = PATCHES, .n_patches = 2, .call_price = 0.01};

static void fill(struct checkpoint *c)
{
    struct dice order;
    *c = (struct checkpoint){.seed = 5,
                             .episodes = 17,
                             .options = {.epsilon_start = 1,
                                         .epsilon_end = 0.05,
                                         .epsilon_decay = 1500,
                                         .alpha = 0.3,
                                         .gamma = 1}};
    memcpy(c->task, TASK.name, sizeof c->task);
    memset(c->digest, 'a', 64);
    memcpy(TASK.digest, c->digest, sizeof TASK.digest);
    dice_seed(&c->dice, 99);
    dice_seed(&order, c->seed);
    struct qtable_options o = {.features = task_features(&TASK),
                               .actions = task_actions(&TASK),
                               .alpha = 0.3,
                               .gamma = 1,
                               .price = 0.01,
                               .dice = &order};
    assert_int_equal(qtable_init(&c->table, &o), 0);
    qtable_state(&c->table, (int64_t[]){0, 0, 0});
    qtable_state(&c->table, (int64_t[]){1, 0, 0});
    qtable_note(&c->table, 0, 0, -0.011, 0.011, 1);
    qtable_note(&c->table, 1, 0, -0.011, 0.011, 1); /* leads nowhere */
    qtable_note(&c->table, 1, 3, 1.0 / 3, 0.0172, QTABLE_END);
    qtable_note(&c->table, 0, 1, -0.011, 0.011, 1);
    qtable_replay(&c->table);
}

static char *text_of(const struct checkpoint *c)
{
    json_t *o = checkpoint_json(c);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(o);
    assert_non_null(text);
    return text;
}

static void test_what_was_saved_is_read(void **state)
{
    struct checkpoint c, read;
    fill(&c);
    char *text = text_of(&c);
    assert_int_equal(checkpoint_parse(&TASK, text, strlen(text), "c", &read, NULL), 0);
    char *again = text_of(&read);
    assert_string_equal(text, again);
    assert_memory_equal(&c.dice, &read.dice, sizeof c.dice);
    assert_memory_equal(c.table.rank, read.table.rank, c.table.actions * sizeof *c.table.rank);
    for (size_t s = 0; s < 2; s++) {
        assert_int_equal(qtable_best(&c.table, s), qtable_best(&read.table, s));
        assert_int_equal(qtable_explore(&c.table, s), qtable_explore(&read.table, s));
    }
    checkpoint_free(&c);
    checkpoint_free(&read);
    free(text);
    free(again);
}

/* Sets a member of the checkpoint (or of what is in it) and expects a refusal that has these
 * words. */
static void expect(const char *const *path, const char *value, const char *words)
{
    struct checkpoint c, read = {0};
    struct error err = {0};
    fill(&c);
    json_t *o = checkpoint_json(&c), *at = o;
    for (; path[1]; path++)
        at = json_is_array(at) ? json_array_get(at, strtoul(*path, NULL, 10))
                               : json_object_get(at, *path);
    json_t *v = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    if (json_is_array(at))
        json_array_set_new(at, strtoul(*path, NULL, 10), v);
    else
        json_object_set_new(at, *path, v);
    char *text = json_dumps(o, JSON_COMPACT);
    assert_int_equal(checkpoint_parse(&TASK, text, strlen(text), "c", &read, &err), -EINVAL);
    if (!strstr(err.text, words))
        fail_msg("%s: not about '%s'", err.text, words);
    free(text);
    json_decref(o);
    checkpoint_free(&c);
}

#define EXPECT(value, words, ...) expect((const char *const[]){__VA_ARGS__, NULL}, value, words)

static void test_what_is_wrong_is_refused(void **state)
{
    EXPECT("2", "another version", "version");
    EXPECT("\"random\"", "not a checkpoint of qlearn", "agent");
    EXPECT("\"other\"", "trained on the task other", "task");
    EXPECT("\"bbbb\"", "has changed since", "digest");
    EXPECT("4", "not those of the task", "features");
    EXPECT("-1", "seed, episodes", "episodes");
    EXPECT("1.5", "options", "options", "alpha");
    EXPECT("[\"0\",\"0\",\"0\",\"0\"]", "dice", "dice");
    EXPECT("\"000000000000000g\"", "dice", "dice", "0");
    EXPECT("[1]", "prices", "prices");
    EXPECT("-2", "prices", "prices", "0");
    EXPECT("[1, 0]", "all features", "states", "0");
    EXPECT("[1, 0, 0.5]", "whole numbers", "states", "0");
    EXPECT("[1, 0, 0]", "duplicate", "states", "0");
    EXPECT("{}", "states", "states");
    EXPECT("[]", "tried", "states");
    EXPECT("2", "tried", "tried", "0", "0");
    EXPECT("4", "tried", "tried", "0", "1");
    EXPECT("2", "tried", "tried", "0", "3");
    EXPECT("-1", "tried", "tried", "0", "3");
    EXPECT("1e12", "out of range", "tried", "0", "2");
    EXPECT("\"x\"", "out of range", "tried", "0", "4");
    EXPECT("[0, 1, 0, null, 0, 0]", "duplicate", "tried", "0");
    EXPECT("null", "tried", "tried");
}

static void test_other_bytes_are_refused(void **state)
{
    static const char *const TEXTS[] = {
        "", "{", "[]", "null", "{\"version\": 1}", "{\"version\":1,\"version\":1}"};
    struct checkpoint read;
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
        assert_int_equal(checkpoint_parse(&TASK, TEXTS[i], strlen(TEXTS[i]), "c", &read, NULL),
                         -EINVAL);
    assert_int_equal(checkpoint_load(&TASK, "/dev/null", &read, NULL), -EINVAL);
    assert_int_equal(checkpoint_load(&TASK, "/nowhere/c", &read, NULL), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_saved_is_read),
        cmocka_unit_test(test_what_is_wrong_is_refused),
        cmocka_unit_test(test_other_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
