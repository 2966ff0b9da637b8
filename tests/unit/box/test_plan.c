/* Plans: what does not fit spoils them for good, and every operation can be told to a person. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan.h"

static int make_plan(void **state)
{
    *state = malloc(sizeof(struct plan));
    return *state ? plan_init(*state) : -1;
}

static int free_plan(void **state)
{
    plan_free(*state);
    free(*state);
    return 0;
}

static void test_fresh(void **state)
{
    const struct plan *p = *state;
    assert_int_equal(p->n_stage1 + p->n_stage2 + p->n_rules, 0);
    assert_false(p->overflow);
    for (int i = 0; i < SLOT_MAX; i++)
        assert_int_equal(p->fds[i], -1);
}

static void test_stages_are_apart(void **state)
{
    struct plan *p = *state;
    plan_add(p, 1, (struct op){.kind = OP_CLONE});
    plan_add(p, 2, (struct op){.kind = OP_PROC});
    plan_add(p, 2, (struct op){.kind = OP_EXEC});
    assert_int_equal(p->n_stage1, 1);
    assert_int_equal(p->n_stage2, 2);
    assert_int_equal(p->stage1[0].kind, OP_CLONE);
    assert_int_equal(p->stage2[1].kind, OP_EXEC);
}

static void test_too_many_operations(void **state)
{
    struct plan *p = *state;
    for (int i = 0; i < PLAN_OPS_MAX; i++)
        plan_add(p, 2, (struct op){.kind = OP_MKDIR});
    assert_false(p->overflow);
    plan_add(p, 2, (struct op){.kind = OP_SECCOMP});
    assert_true(p->overflow);
    assert_int_equal(p->n_stage2, PLAN_OPS_MAX);
}

static void test_too_many_in_the_first_stage(void **state)
{
    struct plan *p = *state;
    while (!p->overflow)
        plan_add(p, 1, (struct op){.kind = OP_CLONE});
    assert_int_equal(p->n_stage1, sizeof p->stage1 / sizeof p->stage1[0]);
}

static void test_too_many_slots(void **state)
{
    struct plan *p = *state;
    for (int i = SLOT_FREE; i < SLOT_MAX; i++)
        assert_int_equal(plan_slot(p), i);
    assert_false(p->overflow);
    assert_in_range(plan_slot(p), 0, SLOT_MAX - 1);
    assert_true(p->overflow);
}

static void test_too_many_rules(void **state)
{
    struct plan *p = *state;
    for (int i = 0; i < PLAN_RULES_MAX; i++)
        plan_rule(p, "/x", LANDLOCK_READ);
    assert_false(p->overflow);
    plan_rule(p, "/x", LANDLOCK_READ);
    assert_true(p->overflow);
    assert_int_equal(p->n_rules, PLAN_RULES_MAX);
}

static void test_texts(void **state)
{
    struct plan *p = *state;
    char *large = calloc(1, PLAN_STRINGS_MAX);
    const char *a = plan_text(p, "%s-%d", "a", 1), *b = plan_text(p, "b");
    assert_string_equal(a, "a-1");
    assert_string_equal(b, "b");
    memset(large, 'x', PLAN_STRINGS_MAX - 1);
    assert_string_equal(plan_text(p, "%s", large), "");
    assert_true(p->overflow);
    assert_string_equal(a, "a-1");
    free(large);
}

/* The last byte of the arena can be used, and none behind it. */
static void test_texts_fill_the_arena(void **state)
{
    struct plan *p = *state;
    for (unsigned i = 0; i < PLAN_STRINGS_MAX / 16; i++)
        assert_int_equal(strlen(plan_text(p, "%015d", 1)), 15);
    assert_false(p->overflow);
    assert_string_equal(plan_text(p, "%s", ""), "");
    assert_true(p->overflow);
}

static void test_every_operation_has_words(void **state)
{
    for (int kind = 0; kind < OP_KINDS; kind++) {
        char text[128];
        plan_describe(&(struct op){.kind = (enum op_kind)kind}, text, sizeof text);
        assert_true(strlen(text) > 3);
        assert_null(strstr(text, "(null)"));
    }
    char text[128];
    plan_describe(&(struct op){.kind = OP_MKDIR, .path = "a/b"}, text, sizeof text);
    assert_string_equal(text, "make the folder a/b");
    plan_describe(&(struct op){.kind = OP_MKDIR, .path = "a/b"}, text, 9);
    assert_string_equal(text, "make the");
}

#define WITH_PLAN(f) cmocka_unit_test_setup_teardown(f, make_plan, free_plan)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PLAN(test_fresh),
        WITH_PLAN(test_stages_are_apart),
        WITH_PLAN(test_too_many_operations),
        WITH_PLAN(test_too_many_in_the_first_stage),
        WITH_PLAN(test_too_many_slots),
        WITH_PLAN(test_too_many_rules),
        WITH_PLAN(test_texts),
        WITH_PLAN(test_texts_fill_the_arena),
        cmocka_unit_test(test_every_operation_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
