/* What was heard, compared with the list of tests that count. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grade_private.h"
#include "banned.h"

#define REWARD "reward"

static int add(struct grade *g, const char *name, enum grade_outcome outcome, const char *message)
{
    struct grade_test *t = &g->tests[g->count];
    *t = (struct grade_test){.outcome = outcome, .name = strdup(name)};
    if (!t->name)
        return -ENOMEM;
    if (message && !(t->message = strdup(message))) {
        free(t->name);
        return -ENOMEM;
    }
    if (t->message)
        grade_settle(t->message);
    g->count++;
    g->passed += outcome == GRADE_PASSED;
    return 0;
}

/* A file that could not be collected takes its tests with it; its message is theirs. */
static const char *why_missing(const struct outcomes *o, const char *name)
{
    const char *colons = strstr(name, "::"), *message;
    _cleanup_free_ char *file = colons ? strndup(name, (size_t)(colons - name)) : NULL;
    const struct outcome *t = file ? outcomes_find(o, file) : NULL;
    if (!t)
        return NULL;
    outcomes_judge(o, t, &message);
    return message;
}

/* What was run: a test that was skipped was not. */
static size_t count_run(const struct outcomes *o)
{
    size_t n = 0;
    for (size_t i = 0; i < o->count; i++)
        n += o->items[i].outcome != GRADE_SKIPPED;
    return n;
}

static int count_expected(struct grade_run *r, const struct task_list *expected)
{
    const struct outcomes *o = &r->outcomes;
    size_t known = 0;
    int code = 0;
    for (size_t i = 0; code == 0 && i < expected->count; i++) {
        const char *name = expected->items[i], *message = NULL;
        const struct outcome *t = outcomes_find(o, name);
        enum grade_outcome outcome = GRADE_MISSING;
        if (t)
            outcome = outcomes_judge(o, t, &message);
        else
            message = why_missing(o, name);
        known += t && t->outcome != GRADE_SKIPPED;
        code = add(r->grade, name, outcome, message);
    }
    r->grade->unexpected = count_run(o) - known;
    return code;
}

static int count_all(struct grade_run *r)
{
    const struct outcomes *o = &r->outcomes;
    int code = 0;
    for (size_t i = 0; code == 0 && i < o->count; i++) {
        const char *message = NULL;
        enum grade_outcome outcome = outcomes_judge(o, &o->items[i], &message);
        code = add(r->grade, o->items[i].id, outcome, message);
    }
    return code;
}

static int count_reward(struct grade_run *r)
{
    double reward = isnan(r->reward) ? 0 : r->reward;
    int code = add(r->grade, REWARD, reward >= 1 ? GRADE_PASSED : GRADE_FAILED, NULL);
    r->grade->pass_rate = reward;
    return code;
}

int grade_count(struct grade_run *r, const struct task_list *expected)
{
    struct grade *g = r->grade;
    bool reward = r->task->tests.runner == TASK_COMMAND && r->task->tests.verdict == VERDICT_REWARD;
    g->tests =
        calloc((expected->count ? expected->count : r->outcomes.count) + 1, sizeof *g->tests);
    if (!g->tests)
        return -ENOMEM;
    if (reward)
        return count_reward(r);
    int code = expected->count ? count_expected(r, expected) : count_all(r);
    g->pass_rate = g->count ? (double)g->passed / (double)g->count : 0;
    return code;
}
