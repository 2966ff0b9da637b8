#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thread.h"
#include "grade_private.h"
#include "names.h"
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
        grade_trouble(r->grade, "outcomes were forged: nothing that was told is believed");
    if (r->outcomes.tampered)
        grade_trouble(r->grade, "%s", r->outcomes.tampered);
    if (e->failure && *e->failure)
        grade_trouble(r->grade, "the tests could not be started: %s", e->failure);
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
        grade_trouble(r->grade, "the tests could not be run: %s", why.text);
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
        return error_errno(err, -code, "cannot put the task's files back");
    if (code < 0)
        grade_trouble(r->grade, "the task's files could not be put back: %s", why.text);
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
