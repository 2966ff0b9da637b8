#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "thread.h"
#include "check_private.h"
#include "clock.h"
#include "grade.h"
#include "banned.h"

void check_result_free(struct check_result *r)
{
    task_list_free(&r->findings);
    task_list_free(&r->notes);
}

static int add_line(struct task_list *l, const char *fmt, va_list args)
{
    char text[ERROR_TEXT_MAX];
    vsnprintf(text, sizeof text, fmt, args);
    return task_list_add(l, text);
}

int check_find(struct check *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int r = add_line(&c->result.findings, fmt, args);
    va_end(args);
    return r < 0 ? task_no_memory(c->err) : 0;
}

int check_note(struct check *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int r = add_line(&c->result.notes, fmt, args);
    va_end(args);
    return r < 0 ? task_no_memory(c->err) : 0;
}

int check_play(struct check *c, const size_t *patches, size_t n, struct check_played *ret)
{
    struct box *b = NULL;
    struct check_played p = {.stopped = n};
    if (cancel_check(c->options->cancel, c->err) < 0)
        return -ECANCELED;
    int r = arena_take(c->arena, &b, c->err);
    if (r == 0)
        r = check_apply(c, b, patches, n, &p);
    if (r == 0 && p.stopped == n) {
        c->result.runs++;
        r = grade_box(c->arena, b, c->options->cancel, &p.grade, c->err);
    }
    arena_give(c->arena, b);
    if (r == 0)
        *ret = p;
    else
        check_played_free(&p);
    return r;
}

void check_played_free(struct check_played *p)
{
    grade_free(&p->grade);
}

bool check_passes(const struct check_played *p)
{
    return p->grade.count > 0 && p->grade.pass_rate >= 1.0;
}

/* What went wrong, in a few words: the trouble, or the first test that did not pass. */
static const char *why_not(const struct grade *g, char *text, size_t size)
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

static int check_original(struct check *c)
{
    _cleanup_(check_played_free) struct check_played p = {0};
    int r = check_play(c, NULL, 0, &p);
    if (r < 0)
        return r;
    return check_passes(&p)
               ? check_find(c, "the original passes already: there is nothing to solve")
               : 0;
}

static bool same_grade(const struct grade *a, const struct grade *b)
{
    if (a->count != b->count || a->pass_rate != b->pass_rate)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->tests[i].name, b->tests[i].name) != 0 ||
            a->tests[i].outcome != b->tests[i].outcome)
            return false;
    return true;
}

/* Plays the solution, as patches or by its script. */
static int play_solution(struct check *c, struct check_played *ret)
{
    size_t order[TASK_PATCHES_MAX];
    for (size_t i = 0; i < c->task->solution.count; i++)
        order[i] =
            (size_t)(task_patch_find(c->task, c->task->solution.items[i]) - c->task->patches);
    return c->task->solution.count ? check_play(c, order, c->task->solution.count, ret)
                                   : check_play_script(c, ret);
}

static int judge_solution(struct check *c, const struct check_played *p)
{
    char why[600];
    const struct grade *g = &p->grade;
    if (p->trouble[0])
        return check_find(c, "the solution cannot be carried out: %s", p->trouble);
    if (g->count == 0)
        return check_find(c, "with the solution no test is run%s", why_not(g, why, sizeof why));
    if (!check_passes(p) && c->task->tests.verdict == VERDICT_REWARD)
        return check_find(c, "with the solution the reward is %g%s", g->pass_rate,
                          why_not(g, why, sizeof why));
    if (!check_passes(p))
        return check_find(c, "the solution passes %zu of %zu tests%s", g->passed, g->count,
                          why_not(g, why, sizeof why));
    if (g->unexpected && !c->task->root)
        return check_find(c, "tests.expected: %zu tests are run that are not in the list",
                          g->unexpected);
    return 0;
}

static int check_solution(struct check *c)
{
    _cleanup_(check_played_free) struct check_played first = {0}, second = {0};
    if (c->task->solution.count == 0 && !c->task->solution_script)
        return check_note(c, "no solution is known: whether it can be solved was not checked");
    int r = play_solution(c, &first);
    if (r == 0)
        r = judge_solution(c, &first);
    if (r == 0 && !first.trouble[0])
        r = play_solution(c, &second);
    if (r == 0 && !first.trouble[0] && !same_grade(&first.grade, &second.grade))
        r = check_find(
            c, "the solution graded twice gives different results (%zu and %zu tests passed)",
            first.grade.passed, second.grade.passed);
    return r;
}

static int check_reads(struct check *c)
{
    struct box *b = NULL;
    int r = c->task->reads.count ? arena_take(c->arena, &b, c->err) : 0;
    for (size_t i = 0; i < c->task->reads.count && r == 0; i++)
        r = check_read(c, b, i);
    arena_give(c->arena, b);
    return r;
}

static int check_all(struct check *c)
{
    int r = check_original(c);
    if (r == 0)
        r = check_solution(c);
    if (r == 0)
        r = check_reads(c);
    if (r == 0)
        r = check_patches(c);
    return r == 0 ? check_subsets(c) : r;
}

int task_check(const struct task *t, const struct check_options *o, struct check_result *ret,
               struct error *err)
{
    struct error why = {0};
    struct check c = {.task = t, .options = o, .err = err};
    const struct arena_options options = {.no_cache = true, .clock = CLOCK_VIRTUAL, .pool = 1};
    int64_t began = clock_now();
    int r = arena_open(t, &options, o->cancel, &c.arena, &why);
    if (r == -ENOMEM || r == -ECANCELED)
        return error_set(err, -r, "%s", why.text);
    if (r < 0) {
        r = check_find(&c, "%s", why.text);
    } else {
        c.result.expected = arena_expected(c.arena)->count;
        r = check_all(&c);
    }
    if (cancel_check(o->cancel, err) < 0) /* what was found on the way may be of that making */
        r = -ECANCELED;
    arena_close(c.arena);
    c.result.duration_ns = clock_now() - began;
    if (r < 0) {
        check_result_free(&c.result);
        return r;
    }
    *ret = c.result;
    return 0;
}
