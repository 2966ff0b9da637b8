#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "grade_run.h"
#include "text.h"
#include "thread.h"
#include "tool_result.h"
#include "banned.h"

void grade_free(struct grade *g)
{
    for (size_t i = 0; i < g->count; i++) {
        free(g->tests[i].name);
        free(g->tests[i].message);
    }
    free(g->tests);
    free(g->trouble);
    free(g->output);
    task_list_free(&g->discarded);
    *g = (struct grade){0};
}

void grade_trouble(struct grade *g, const char *fmt, ...)
{
    va_list args;
    if (g->trouble) /* the first is the cause of the others */
        return;
    va_start(args, fmt);
    if (vasprintf(&g->trouble, fmt, args) < 0)
        g->trouble = NULL;
    va_end(args);
    if (g->trouble)
        grade_settle(g->trouble);
}

void grade_output(struct grade *g, const void *bytes, size_t n)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4 * GRADE_OUTPUT_MAX);
    const char *from = bytes;
    if (n > GRADE_OUTPUT_MAX) {
        from += n - GRADE_OUTPUT_MAX;
        n = GRADE_OUTPUT_MAX;
    }
    free(g->output);
    g->output =
        text_append(&text, from, n) == 0 && buf_cstr(&text) ? strdup((char *)text.data) : NULL;
}

void grade_settle(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        size_t digits = at[0] == '0' && at[1] == 'x' ? strspn(at + 2, "0123456789abcdefABCDEF") : 0;
        if (digits < 6) {
            *to++ = *at++;
            continue;
        }
        memcpy(to, "0x...", 5);
        to += 5;
        at += 2 + digits;
    }
    *to = 0;
}

void grade_ended(struct grade_run *r, const struct grade_end *e)
{
    const struct outcome *at = outcomes_current(&r->outcomes);
    const char *during = at ? at->id : "";
    char name[32];
    if (r->outcomes.forged)
        grade_trouble(r->grade, "outcomes were forged; the whole report is discarded");
    if (r->outcomes.tampered)
        grade_trouble(r->grade, "%s", r->outcomes.tampered);
    if (e->failure && *e->failure)
        grade_trouble(r->grade, "cannot start the tests: %s", e->failure);
    else if (e->limit)
        grade_trouble(r->grade, "the run was stopped: %s%s%s", box_limit_name(e->limit),
                      at ? ", in " : "", during);
    else if (e->signal) {
        signame_format(e->signal, name, sizeof name);
        grade_trouble(r->grade, "the run was ended by %s%s%s", name, at ? ", in " : "", during);
    } else if (r->task->tests.runner == TASK_PYTEST && !r->outcomes.done)
        grade_trouble(r->grade, "the run ended before its tests did, with exit code %d%s%s",
                      e->exit_code, at ? ", in " : "", during);
}

static int run_tests(struct grade_run *r, struct error *err)
{
    struct error why = {0};
    int code =
        r->task->tests.runner == TASK_PYTEST ? grade_pytest(r, &why) : grade_command(r, &why);
    if (code == -EPIPE || code == -ECANCELED || code == -ENOMEM) {
        if (err)
            *err = why;
        return code;
    }
    if (code < 0)
        grade_trouble(r->grade, "cannot run the tests: %s", why.text);
    return 0;
}

static int finish(struct grade_run *r, const struct task_list *expected, struct error *err)
{
    const struct outcomes *o = &r->outcomes;
    if (o->trouble)
        grade_trouble(r->grade, "%s", o->trouble);
    if (o->strange)
        grade_trouble(r->grade, "something else wrote to the runner's descriptor");
    return grade_count(r, expected) < 0 ? error_errno(err, ENOMEM, "cannot grade") : 0;
}

/* Puts the pristine files where they belong. What cannot be put there is a trouble: nothing is run
 * then. */
static int stage(struct grade_run *r, struct error *err)
{
    struct task_tree tree = {0};
    struct task_list clear = {0}, changed = {0};
    struct error why = {0};
    int code = grade_tree(r->task, &tree);
    if (code == 0)
        code = grade_command_clear(r->task, &clear);
    if (code == 0)
        code = grade_stage(r->box, r->cancel, &tree, &r->task->tests.own, &clear, &changed, &why);
    if (code == 0)
        code = grade_discarded(r->task, &changed, &r->grade->discarded);
    free(tree.items);
    task_list_free(&clear);
    task_list_free(&changed);
    if (code == -EPIPE || code == -ECANCELED || code == -ENOMEM)
        return error_errno(err, -code, "cannot restore the task's files");
    if (code < 0)
        grade_trouble(r->grade, "cannot restore the task's files: %s", why.text);
    return code < 0 ? 1 : 0;
}

static int run(struct grade_run *r, const struct task_list *expected, struct error *err)
{
    int code = r->look ? 0 : stage(r, err);
    if (code == 0)
        code = run_tests(r, err);
    if (code >= 0)
        code = cancel_check(r->cancel, err); /* what was ended for that looks like any other end */
    if (code == 0)
        code = finish(r, expected, err);
    outcomes_free(&r->outcomes);
    return code;
}

static int begin(struct gym_arena *a, struct box *b, int cancel, bool look, struct grade *ret,
                 struct error *err)
{
    static const struct task_list NONE = {0};
    struct grade g = {0};
    struct grade_run r = {.arena = a,
                          .task = arena_task(a),
                          .box = b,
                          .cancel = cancel,
                          .look = look,
                          .reward = NAN,
                          .grade = &g};
    outcomes_init(&r.outcomes, NULL);
    int code = run(&r, look ? &NONE : arena_expected(a), err);
    if (code < 0) {
        grade_free(&g);
        return code;
    }
    *ret = g;
    return 0;
}

int grade_box(struct gym_arena *a, struct box *b, int cancel, struct grade *ret, struct error *err)
{
    return begin(a, b, cancel, false, ret, err);
}

int grade_look(struct gym_arena *a, struct box *b, int cancel, struct grade *ret, struct error *err)
{
    return begin(a, b, cancel, true, ret, err);
}

/* What was heard, compared with the list of tests that count. */

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

/* Which files are staged for grading, and what is told of what differed. */

bool grade_is_beneath(const struct task_list *own, const char *path)
{
    for (size_t i = 0; i < own->count; i++) {
        size_t n = strlen(own->items[i]);
        if (strncmp(path, own->items[i], n) == 0 && (!path[n] || path[n] == '/'))
            return true;
    }
    return false;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct task_file *)a)->path, ((const struct task_file *)b)->path);
}

static const struct task_file *find(const struct task_tree *tree, const char *path)
{
    struct task_file key = {.path = (char *)path};
    return tree->count ? bsearch(&key, tree->items, tree->count, sizeof key, compare) : NULL;
}

/* A hidden file takes the place of a visible one of the same path. */
int grade_tree(const struct task *t, struct task_tree *ret)
{
    struct task_tree tree = {.items =
                                 calloc(t->files.count + t->hidden.count + 1, sizeof *tree.items)};
    if (!tree.items)
        return -ENOMEM;
    for (size_t i = 0; i < t->hidden.count; i++)
        tree.items[tree.count++] = t->hidden.items[i];
    for (size_t i = 0; i < t->files.count; i++) {
        const struct task_file *f = &t->files.items[i];
        if (grade_is_beneath(&t->tests.own, f->path) && !find(&t->hidden, f->path))
            tree.items[tree.count++] = *f;
    }
    qsort(tree.items, tree.count, sizeof *tree.items, compare);
    *ret = tree;
    return 0;
}

/* Of a hidden file that the agent never saw: that it was not there is nothing, that something was
 * is an addition. */
static int take_change(const struct task *t, const char *change, struct task_list *ret)
{
    const char *path = change[0] && change[1] == ' ' ? change + 2 : "";
    bool hidden = find(&t->hidden, path) && !find(&t->files, path);
    if (!hidden)
        return task_list_add(ret, change);
    if (change[0] == 'D')
        return 0;
    _cleanup_free_ char *text = NULL;
    return asprintf(&text, "A %s", path) < 0 ? -ENOMEM : task_list_add(ret, text);
}

int grade_discarded(const struct task *t, const struct task_list *changed, struct task_list *ret)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < changed->count; i++)
        r = take_change(t, changed->items[i], ret);
    return r;
}
