#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "arena.h"
#include "task_check.h"
#include "grade.h"
#include "session.h"
#include "task_build.h"
#include "thread.h"
#include "banned.h"

struct check {
    const struct task *task;
    const struct check_options *options;
    struct gym_arena *arena;
    struct check_result result;
    struct error *err;
};

/* What came of some patches in a fresh box. */
struct check_played {
    size_t stopped;    /* how many of them were applied */
    char trouble[512]; /* why the next was not; or what became of the solution's script */
    struct grade grade;
};
void check_played_free(struct check_played *p);

int check_find(struct check *c, const char *fmt, ...) PRINTF(2, 3);
int check_note(struct check *c, const char *fmt, ...) PRINTF(2, 3);

/* Applies patches in a fresh box and grades it; a patch that does not apply is told in ret. */
int check_play(struct check *c, const size_t *patches, size_t n, struct check_played *ret);
int check_play_script(struct check *c, struct check_played *ret);
bool check_passes(const struct check_played *p);

/* check_box.c: in one box. */
int check_apply(struct check *c, struct box *b, const size_t *patches, size_t n,
                struct check_played *p);
int check_read(struct check *c, struct box *b, size_t i);

/* check_patches.c: patches alone, and parts of the solution. */
int check_patches(struct check *c);
int check_subsets(struct check *c);

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
        r = arena_grade(c->arena, b, false, c->options->cancel, &p.grade, c->err);
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
               ? check_find(c, "the original already passes; there is nothing to solve")
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
        return check_find(c, "cannot apply the solution: %s", p->trouble);
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
        return check_note(c, "no known solution; not checked whether the task can be solved");
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

/* What a check does in a box: with the same tools that an agent has. */

#define SCRIPT_NS (600 * 1000000000ll)

static int call(struct check *c, struct tool_session *s, const struct tool *tool, const char *name,
                const char *value, char *trouble, size_t size)
{
    struct tool_result result = {0};
    json_t *input = json_pack("{s:s}", name, value);
    trouble[0] = 0;
    if (!input)
        return task_no_memory(c->err);
    struct tool_request q = {.tool = tool, .input = input, .cancel = c->options->cancel};
    int r = tool_call(s, &q, &result);
    const char *text = buf_cstr(&result.text);
    if (r < 0)
        error_errno(c->err, -r, "%s", text && *text ? text : tool->name);
    else if (result.failed)
        snprintf(trouble, size, "%.*s", (int)strcspn(text ? text : "", "\n"), text ? text : "");
    if (r == 0 && result.failed && !trouble[0])
        snprintf(trouble, size, "%s failed", tool->name);
    tool_result_free(&result);
    json_decref(input);
    return r;
}

int check_apply(struct check *c, struct box *b, const size_t *patches, size_t n,
                struct check_played *p)
{
    struct tool_session *s = NULL;
    int r = n > 0 ? tool_session_new(b, &s, c->err) : 0;
    size_t i = 0;
    for (; i < n && r == 0; i++) {
        char why[400];
        const struct task_patch *patch = &c->task->patches[patches[i]];
        r = call(c, s, &TOOL_APPLY_DIFF, "diff", patch->diff, why, sizeof why);
        if (r == 0 && why[0]) {
            snprintf(p->trouble, sizeof p->trouble, "the patch '%s' does not apply: %s",
                     patch->name, why);
            break;
        }
    }
    p->stopped = i;
    tool_session_free(s);
    return r;
}

int check_read(struct check *c, struct box *b, size_t i)
{
    char why[400] = "";
    struct tool_session *s = NULL;
    int r = tool_session_new(b, &s, c->err);
    if (r == 0)
        r = call(c, s, &TOOL_READ_FILE, "path", c->task->reads.items[i], why, sizeof why);
    tool_session_free(s);
    return r == 0 && why[0] ? check_find(c, "reads[%zu]: %s", i, why) : r;
}

static int run_script(struct check *c, struct box *b, struct check_played *p)
{
    char shell[] = "/bin/bash", option[] = "-c";
    char *const argv[] = {shell, option, c->task->solution_script, NULL};
    struct box_command command = {.argv = argv,
                                  .timeout_ns = SCRIPT_NS,
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .capture = true,
                                  .cancel = c->options->cancel};
    struct box_result result = {0};
    int r = box_exec(b, &command, &result, c->err);
    if (r == 0 && result.limit)
        snprintf(p->trouble, sizeof p->trouble, "its script was stopped: %s",
                 box_limit_name(result.limit));
    else if (r == 0 && result.exit_code != 0)
        r = check_note(c, "the solution's script ends with exit code %d", result.exit_code);
    box_result_free(&result);
    return r;
}

int check_play_script(struct check *c, struct check_played *ret)
{
    struct box *b = NULL;
    struct check_played p = {0};
    int r = arena_take(c->arena, &b, c->err);
    if (r == 0)
        r = grade_stage(b, c->options->cancel, &c->task->solution_files, NULL, NULL, NULL, c->err);
    if (r == 0)
        r = run_script(c, b, &p);
    if (r == 0 && !p.trouble[0]) {
        c->result.runs++;
        r = arena_grade(c->arena, b, false, c->options->cancel, &p.grade, c->err);
    }
    arena_give(c->arena, b);
    if (r == 0)
        *ret = p;
    return r;
}

/* Patches that must not pass: each on its own, and parts of the solution. */

static bool is_whole_solution(const struct check *c, size_t patch)
{
    return c->task->solution.count == 1 &&
           strcmp(c->task->solution.items[0], c->task->patches[patch].name) == 0;
}

int check_patches(struct check *c)
{
    int r = 0;
    for (size_t i = 0; i < c->task->n_patches && r == 0; i++) {
        _cleanup_(check_played_free) struct check_played p = {0};
        if (is_whole_solution(c, i))
            continue;
        r = check_play(c, &i, 1, &p);
        if (r == 0 && p.trouble[0])
            r = check_note(c, "%s (to the original)", p.trouble);
        else if (r == 0 && check_passes(&p))
            r = check_find(c, "the patch '%s' passes alone, and is not the solution",
                           c->task->patches[i].name);
    }
    return r;
}

/* "a, b" of the patches whose bits are set. */
static void name_part(const struct check *c, unsigned long part, char *text, size_t size)
{
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < c->task->solution.count && n < size; i++)
        if (part >> i & 1)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "",
                                  c->task->solution.items[i]);
}

/* One part of the solution, in its order. Parts of a single patch were looked at already. */
static int check_part(struct check *c, unsigned long part)
{
    size_t patches[TASK_PATCHES_MAX], n = 0;
    char names[400];
    for (size_t i = 0; i < c->task->solution.count; i++)
        if (part >> i & 1)
            patches[n++] =
                (size_t)(task_patch_find(c->task, c->task->solution.items[i]) - c->task->patches);
    if (n < 2)
        return 0;
    _cleanup_(check_played_free) struct check_played p = {0};
    int r = check_play(c, patches, n, &p);
    name_part(c, part, names, sizeof names);
    if (r == 0 && p.trouble[0] == 0 && check_passes(&p))
        r = check_find(c, "a part of the solution passes without the rest: %s", names);
    return r;
}

int check_subsets(struct check *c)
{
    size_t n = c->task->solution.count;
    int r = 0;
    if (n < 3)
        return 0;
    unsigned long all = n < 20 ? (1ul << n) - 1 : 1ul << 20;
    for (unsigned long part = 1, count = 0; part < all && count < CHECK_SUBSETS_MAX && r == 0;
         part++)
        if (__builtin_popcountl(part) > 1) {
            r = check_part(c, part);
            count++;
        }
    return r;
}
