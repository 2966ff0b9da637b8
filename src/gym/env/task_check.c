/*
 * Checks a task by playing it, in boxes like any other: the original fails, the solution passes
 * every time, no part of it and no other patch passes on its own.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "arena.h"
#include "grade.h"
#include "session.h"
#include "task_build.h"
#include "task_check.h"
#include "thread.h"
#include "tool.h"
#include "banned.h"

#define SCRIPT_TIMEOUT_NS (600 * NS_PER_S)

struct check {
    const struct task *task;
    int cancel;
    struct gym_arena *arena;
    struct check_result result;
    struct error *err;
};

/* The outcome of some patches, or of the solution's script, in a fresh box. */
struct check_run {
    char trouble[512]; /* why it was not graded; or empty */
    struct grade grade;
};

static void check_run_free(struct check_run *p)
{
    grade_free(&p->grade);
}

static bool check_run_passes(const struct check_run *p)
{
    return p->grade.count > 0 && p->grade.pass_rate >= 1.0;
}

void check_result_free(struct check_result *r)
{
    task_list_free(&r->findings);
    task_list_free(&r->notes);
}

/* Adds a line to the findings or the notes. */
static int check_add(struct check *c, struct task_list *l, const char *fmt, ...) PRINTF(3, 4);
static int check_add(struct check *c, struct task_list *l, const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return task_list_add(l, text) < 0 ? task_no_memory(c->err) : 0;
}

/* Calls a tool with one member as its input; `trouble` is the first line of a failure, or empty. */
static int check_call(struct check *c, struct tool_session *s, const struct tool *tool,
                      const char *name, const char *value, char *trouble, size_t size)
{
    struct tool_result result = {0};
    json_t *input = json_pack("{s:s}", name, value);
    trouble[0] = 0;
    if (!input)
        return task_no_memory(c->err);
    struct tool_request q = {.tool = tool, .input = input, .cancel = c->cancel};
    int r = tool_call(s, &q, &result);
    const char *text = buf_cstr(&result.text);
    text = text ? text : "";
    if (r < 0)
        error_errno(c->err, -r, "%s", *text ? text : tool->name);
    else if (result.failed)
        snprintf(trouble, size, "%.*s", (int)strcspn(text, "\n"), text);
    if (r == 0 && result.failed && !trouble[0])
        snprintf(trouble, size, "%s failed", tool->name);
    tool_result_free(&result);
    json_decref(input);
    return r;
}

static int check_run_patches(struct check *c, struct box *b, const size_t *patches, size_t n,
                             struct check_run *p)
{
    struct tool_session *s = NULL;
    int r = n > 0 ? tool_session_new(b, &s, c->err) : 0;
    for (size_t i = 0; i < n && r == 0 && !p->trouble[0]; i++) {
        char why[400];
        const struct task_patch *patch = &c->task->patches[patches[i]];
        r = check_call(c, s, &TOOL_APPLY_DIFF, "diff", patch->diff, why, sizeof why);
        if (r == 0 && why[0])
            snprintf(p->trouble, sizeof p->trouble, "the patch '%s' does not apply: %s",
                     patch->name, why);
    }
    tool_session_free(s);
    return r;
}

static int check_run_script(struct check *c, struct box *b, struct check_run *p)
{
    char shell[] = "/bin/bash", option[] = "-c";
    char *const argv[] = {shell, option, c->task->solution_script, NULL};
    struct box_command command = {.argv = argv,
                                  .timeout_ns = SCRIPT_TIMEOUT_NS,
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .capture = true,
                                  .cancel = c->cancel};
    struct box_result result = {0};
    int r = grade_stage(b, c->cancel, &c->task->solution_files, NULL, NULL, NULL, c->err);
    if (r == 0)
        r = box_exec(b, &command, &result, c->err);
    if (r == 0 && result.limit)
        snprintf(p->trouble, sizeof p->trouble, "its script was stopped: %s",
                 box_limit_name(result.limit));
    else if (r == 0 && result.exit_code != 0)
        r = check_add(c, &c->result.notes, "the solution's script ends with exit code %d",
                      result.exit_code);
    box_result_free(&result);
    return r;
}

/* Applies the patches, or runs the solution's script (patches NULL), in a fresh box and grades
 * it. */
static int check_play(struct check *c, const size_t *patches, size_t n, struct check_run *ret)
{
    struct box *b = NULL;
    struct check_run p = {0};
    if (cancel_check(c->cancel, c->err) < 0)
        return -ECANCELED;
    int r = arena_take(c->arena, &b, c->err);
    if (r == 0)
        r = patches ? check_run_patches(c, b, patches, n, &p) : check_run_script(c, b, &p);
    if (r == 0 && !p.trouble[0]) {
        c->result.runs++;
        r = arena_grade(c->arena, b, false, c->cancel, &p.grade, c->err);
    }
    arena_give(c->arena, b);
    if (r == 0)
        *ret = p;
    else
        check_run_free(&p);
    return r;
}

/* Plays those patches of the solution whose bits are set, in its order. */
static int check_play_solution(struct check *c, unsigned long part, struct check_run *ret)
{
    const struct task *t = c->task;
    size_t patches[TASK_PATCHES_MAX], n = 0;
    for (size_t i = 0; i < t->solution.count; i++)
        if (part == ~0ul || (i < 20 && part >> i & 1))
            patches[n++] = (size_t)(task_patch_find(t, t->solution.items[i]) - t->patches);
    return check_play(c, t->solution.count ? patches : NULL, n, ret);
}

/* What went wrong, in a few words: the trouble, or the first test that did not pass. */
static const char *grade_why_not(const struct grade *g, char *text, size_t size)
{
    static const char *const WORDS[] = {"is missing", "passed", "failed", "is an error",
                                        "was skipped"};
    text[0] = 0;
    if (g->trouble)
        snprintf(text, size, ": %s", g->trouble);
    for (size_t i = 0; i < g->count && !g->trouble; i++) {
        const struct grade_test *t = &g->tests[i];
        if (t->outcome == GRADE_PASSED)
            continue;
        int n = t->message ? (int)strcspn(t->message, "\n") : 0;
        snprintf(text, size, ": %.200s %s%s%.*s", t->name, WORDS[t->outcome], n ? ": " : "",
                 n < 200 ? n : 200, n ? t->message : "");
        break;
    }
    return text;
}

static bool grade_same(const struct grade *a, const struct grade *b)
{
    if (a->count != b->count || a->pass_rate != b->pass_rate)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->tests[i].name, b->tests[i].name) != 0 ||
            a->tests[i].outcome != b->tests[i].outcome)
            return false;
    return true;
}

static int check_judge_solution(struct check *c, const struct check_run *p)
{
    char why[600];
    const struct grade *g = &p->grade;
    struct task_list *findings = &c->result.findings;
    if (p->trouble[0])
        return check_add(c, findings, "cannot apply the solution: %s", p->trouble);
    if (g->count == 0)
        return check_add(c, findings, "with the solution no test is run%s",
                         grade_why_not(g, why, sizeof why));
    if (!check_run_passes(p) && c->task->tests.verdict == VERDICT_REWARD)
        return check_add(c, findings, "with the solution the reward is %g%s", g->pass_rate,
                         grade_why_not(g, why, sizeof why));
    if (!check_run_passes(p))
        return check_add(c, findings, "the solution passes %zu of %zu tests%s", g->passed, g->count,
                         grade_why_not(g, why, sizeof why));
    if (g->unexpected && !c->task->root)
        return check_add(c, findings, "tests.expected: %zu tests are run that are not in the list",
                         g->unexpected);
    return 0;
}

static int check_solution(struct check *c)
{
    _cleanup_(check_run_free) struct check_run first = {0}, second = {0};
    if (c->task->solution.count == 0 && !c->task->solution_script)
        return check_add(c, &c->result.notes,
                         "no known solution; not checked whether the task can be solved");
    int r = check_play_solution(c, ~0ul, &first);
    if (r == 0)
        r = check_judge_solution(c, &first);
    if (r < 0 || first.trouble[0])
        return r;
    r = check_play_solution(c, ~0ul, &second);
    if (r == 0 && !grade_same(&first.grade, &second.grade))
        r = check_add(
            c, &c->result.findings,
            "the solution graded twice gives different results (%zu and %zu tests passed)",
            first.grade.passed, second.grade.passed);
    return r;
}

static int check_reads(struct check *c)
{
    struct box *b = NULL;
    struct tool_session *s = NULL;
    int r = c->task->reads.count ? arena_take(c->arena, &b, c->err) : 0;
    if (r == 0 && b)
        r = tool_session_new(b, &s, c->err);
    for (size_t i = 0; i < c->task->reads.count && r == 0; i++) {
        char why[400];
        r = check_call(c, s, &TOOL_READ_FILE, "path", c->task->reads.items[i], why, sizeof why);
        if (r == 0 && why[0])
            r = check_add(c, &c->result.findings, "reads[%zu]: %s", i, why);
    }
    tool_session_free(s);
    arena_give(c->arena, b);
    return r;
}

/* No patch may pass alone, unless it is the whole solution. */
static int check_patches(struct check *c)
{
    const struct task *t = c->task;
    int r = 0;
    for (size_t i = 0; i < t->n_patches && r == 0; i++) {
        _cleanup_(check_run_free) struct check_run p = {0};
        if (t->solution.count == 1 && strcmp(t->solution.items[0], t->patches[i].name) == 0)
            continue;
        r = check_play(c, &i, 1, &p);
        if (r == 0 && p.trouble[0])
            r = check_add(c, &c->result.notes, "%s (to the original)", p.trouble);
        else if (r == 0 && check_run_passes(&p))
            r = check_add(c, &c->result.findings,
                          "the patch '%s' passes alone, and is not the solution",
                          t->patches[i].name);
    }
    return r;
}

/* No part of the solution may pass; check_patches has tried those of one patch. */
static int check_parts(struct check *c)
{
    const struct task_list *solution = &c->task->solution;
    int r = 0;
    if (solution->count < 3)
        return 0;
    unsigned long all = solution->count < 20 ? (1ul << solution->count) - 1 : 1ul << 20;
    for (unsigned long part = 1, count = 0; part < all && count < CHECK_SUBSETS_MAX && r == 0;
         part++) {
        _cleanup_(check_run_free) struct check_run p = {0};
        char names[400] = "";
        if (__builtin_popcountl(part) < 2)
            continue;
        count++;
        r = check_play_solution(c, part, &p);
        for (size_t i = 0, n = 0; i < solution->count && i < 20 && n < sizeof names; i++)
            if (part >> i & 1)
                n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "",
                                      solution->items[i]);
        if (r == 0 && !p.trouble[0] && check_run_passes(&p))
            r = check_add(c, &c->result.findings,
                          "a part of the solution passes without the rest: %s", names);
    }
    return r;
}

static int check_all(struct check *c)
{
    _cleanup_(check_run_free) struct check_run original = {0};
    const size_t none = 0;
    int r = check_play(c, &none, 0, &original);
    if (r == 0 && check_run_passes(&original))
        r = check_add(c, &c->result.findings,
                      "the original already passes; there is nothing to solve");
    if (r == 0)
        r = check_solution(c);
    if (r == 0)
        r = check_reads(c);
    if (r == 0)
        r = check_patches(c);
    return r == 0 ? check_parts(c) : r;
}

int task_check(const struct task *t, const struct check_options *o, struct check_result *ret,
               struct error *err)
{
    struct error why = {0};
    struct check c = {.task = t, .cancel = o->cancel, .err = err};
    const struct arena_options options = {.no_cache = true, .clock = CLOCK_VIRTUAL, .pool = 1};
    int64_t began = clock_now();
    int r = arena_open(t, &options, o->cancel, &c.arena, &why);
    if (r == -ENOMEM || r == -ECANCELED)
        return error_set(err, -r, "%s", why.text);
    if (r < 0) {
        r = check_add(&c, &c.result.findings, "%s", why.text);
    } else {
        c.result.expected = arena_expected(c.arena)->count;
        r = check_all(&c);
    }
    if (cancel_check(o->cancel, err) < 0) /* findings may be a result of the cancelling */
        r = -ECANCELED;
    arena_close(c.arena);
    c.result.duration_ns = clock_now() - began;
    if (r < 0)
        check_result_free(&c.result);
    else
        *ret = c.result;
    return r;
}
