/*
 * The tests that count. A task may list them; else they are those that pass once its solution is
 * there, which is found out here, in a box of its own and by the same grading as any other.
 */
#include <errno.h>
#include <string.h>

#include "arena_private.h"
#include "grade.h"
#include "session.h"
#include "banned.h"

static int apply_patch(struct tool_session *s, const struct task_patch *p, int cancel,
                       struct error *err)
{
    struct tool_result result;
    json_t *input = json_pack("{s:s}", "diff", p->diff);
    if (!input)
        return error_errno(err, ENOMEM, "cannot apply the solution");
    struct tool_request q = {.tool = &TOOL_APPLY_DIFF, .input = input, .cancel = cancel};
    int r = tool_call(s, &q, &result);
    if (r < 0 || result.failed)
        r = error_set(err, EINVAL, "the patch '%s' of the solution does not apply: %.300s", p->name,
                      buf_cstr(&result.text) ? (char *)result.text.data : "");
    tool_result_free(&result);
    json_decref(input);
    return r;
}

static int apply_patches(const struct task *t, struct tool_session *s, int cancel,
                         struct error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < t->solution.count; i++) {
        const struct task_patch *p = task_patch_find(t, t->solution.items[i]);
        r = p ? apply_patch(s, p, cancel, err)
              : error_set(err, EINVAL, "the solution names a patch that is not there: %s",
                          t->solution.items[i]);
    }
    return r;
}

static int run_script(const char *script, struct box *b, int cancel, struct error *err)
{
    char shell[] = "/bin/sh", option[] = "-c";
    char *const argv[] = {shell, option, (char *)script, NULL};
    struct box_command c = {
        .argv = argv, .in = -1, .out = -1, .err = -1, .capture = true, .cancel = cancel};
    struct box_result result = {0};
    int r = box_exec(b, &c, &result, err);
    if (r == 0 && result.exit_code != 0)
        r = error_set(err, EINVAL, "the solution's script failed with exit code %d",
                      result.exit_code);
    box_result_free(&result);
    return r;
}

static int solve(const struct task *t, struct box *b, int cancel, struct error *err)
{
    struct tool_session *s = NULL;
    int r = tool_session_new(b, NULL, &s, err);
    if (r == 0)
        r = apply_patches(t, s, cancel, err);
    if (r == 0 && t->solution_script)
        r = run_script(t->solution_script, b, cancel, err);
    tool_session_free(s);
    return r;
}

/* What a script may have left running is not in the fork. */
static int fork_solved(struct gym_arena *a, int cancel, struct box **ret, struct error *err)
{
    struct box *b = NULL;
    struct snapshot *s = NULL;
    int r = arena_take(a, &b, err);
    if (r == 0)
        r = solve(a->task, b, cancel, err);
    if (r == 0)
        r = box_snapshot_until(b, cancel, &s, err);
    if (r == 0)
        r = box_fork(s, ret, err);
    snapshot_free(s);
    arena_give(a, b);
    return r;
}

static int take_passed(struct gym_arena *a, const struct grade *g, struct error *err)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->tests[i].outcome == GRADE_PASSED &&
            task_list_add(&a->expected, g->tests[i].name) < 0)
            return error_errno(err, ENOMEM, "cannot list the tests that count");
    if (a->expected.count)
        return 0;
    return error_set(err, EINVAL, "no test passes with the task's solution: %s",
                     g->trouble ? g->trouble : "none was heard of");
}

static int learn(struct gym_arena *a, int cancel, struct error *err)
{
    _cleanup_grade_ struct grade g = {0};
    struct box *b = NULL;
    if (a->task->solution.count == 0 && !a->task->solution_script)
        return error_set(
            err, EINVAL,
            "it neither lists the tests that count nor has a solution to learn them from");
    int r = fork_solved(a, cancel, &b, err);
    if (r == 0)
        r = grade_box(a, b, cancel, &g, err);
    arena_give(a, b);
    return r < 0 ? r : take_passed(a, &g, err);
}

int arena_find_expected(struct gym_arena *a, int cancel, struct error *err)
{
    const struct task_list *given = &a->task->tests.expected;
    for (size_t i = 0; i < given->count; i++)
        if (task_list_add(&a->expected, given->items[i]) < 0)
            return error_errno(err, ENOMEM, "cannot list the tests that count");
    if (given->count || a->task->tests.verdict == VERDICT_REWARD)
        return 0;
    if (a->task->tests.verdict == VERDICT_EXIT)
        return task_list_add(&a->expected, "command") < 0
                   ? error_errno(err, ENOMEM, "cannot list the tests that count")
                   : 0;
    return learn(a, cancel, err);
}
