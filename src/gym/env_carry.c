/* Carrying an action out in a box: a tool's call, a run of the tests, the grading. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "env_private.h"
#include "grade.h"
#include "names.h"
#include "observe.h"
#include "banned.h"

const struct tool *env_tool(const char *name)
{
    const struct tool *t = tool_builtin(name);
    return t && !(t->flags & TOOL_HOST) ? t : NULL;
}

bool env_is_look(const char *tool, const json_t *input)
{
    return strcmp(tool, TOOL_RUN_TESTS.name) == 0 && json_object_size(input) == 0;
}

/* The box, or the host, cannot go on. If it is the box (or NULL), that says why. */
static int broken(struct env_result *o, struct box *b, struct error *err)
{
    if (b)
        box_check(b, err);
    snprintf(o->reason, sizeof o->reason, "%s", err->text[0] ? err->text : "the box has ended");
    o->observation = observe_text(o->reason, true);
    return o->observation ? 0 : -ENOMEM;
}

static int refuse(struct env_result *o, const char *fmt, ...) PRINTF(2, 3);
static int refuse(struct env_result *o, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    o->observation = observe_text(text, true);
    return o->observation ? 0 : -ENOMEM;
}

static int unknown_tool(const char *name, struct env_result *o)
{
    struct nearest near = nearest_to(name, strnlen(name, 64));
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            nearest_offer(&near, TOOLS[i]->name);
    nearest_offer(&near, "submit");
    if (near.best)
        return refuse(o, "there is no tool '%.64s'; did you mean '%s'?", name, near.best);
    return refuse(o, "there is no tool '%.64s'", name);
}

/* Only a call that certainly changed nothing keeps the state's name. */
static bool changes(const struct tool *t, const json_t *input, const struct tool_result *r,
                    int found)
{
    if (found < 0 || t->flags & TOOL_READS)
        return false;
    return !t->unchanged || !t->unchanged(input, r);
}

static int call_tool(struct gym_env *e, const struct tool *t, json_t *input, struct env_result *o)
{
    struct error err = {0};
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    if (env_box_ready(e, &err) < 0)
        return broken(o, e->at.box, &err);
    struct tool_request q = {.name = t->name, .tool = t, .input = input, .cancel = e->cancel};
    int64_t began = clock_now();
    int found = tool_call(e->at.session, &q, &result);
    o->ns = clock_now() - began;
    bool suspicious =
        found == 0 && (result.failed || t->flags & TOOL_RUNS); /* a death looks like a signal's */
    if (suspicious && box_check(e->at.box, &err) < 0)
        return broken(o, NULL, &err);
    o->changed = changes(t, input, &result, found);
    o->lingers = result.lingers;
    e->at.done += o->changed; /* in the box it is done already */
    o->observation = observe_tool(t->name, &result);
    return o->observation ? 0 : -ENOMEM;
}

static int take_grade(const struct grade *g, int64_t ns, struct env_result *o)
{
    o->ns = ns;
    o->tested = true;
    o->doubtful = g->trouble && g->duration_ns == 0;
    o->passed = g->passed;
    o->pass_rate = isnan(g->pass_rate) ? 0 : g->pass_rate;
    return 0;
}

/* A live box has processes that the tests may need, and no name that they could spoil: they run in
 * it. */
static int look(struct gym_env *e, struct env_result *o)
{
    struct error err = {0};
    _cleanup_grade_ struct grade g = {0};
    struct box *spare = NULL;
    int r = e->live ? env_box_ready(e, &err) : env_box_spare(e, &spare, &err);
    if (r < 0)
        return broken(o, e->at.box, &err);
    atomic_fetch_add(&e->arena->test_runs, 1);
    int64_t began = clock_now();
    struct box *b = spare ? spare : e->at.box;
    r = grade_look(e->arena, b, e->cancel, &g, &err);
    int64_t ns = clock_now() - began;
    r = r < 0 ? broken(o, b, &err) : take_grade(&g, ns, o);
    arena_give(e->arena, spare);
    if (o->reason[0])
        return r;
    o->observation = observe_look(e->arena->task, &g);
    return o->observation ? 0 : -ENOMEM;
}

static int grade(struct gym_env *e, struct env_result *o)
{
    struct error err = {0};
    _cleanup_grade_ struct grade g = {0};
    struct box *spare = NULL;
    if (env_box_spare(e, &spare, &err) < 0)
        return broken(o, e->at.box, &err);
    atomic_fetch_add(&e->arena->test_runs, 1);
    int64_t began = clock_now();
    int r = grade_box(e->arena, spare, e->cancel, &g, &err);
    int64_t ns = clock_now() - began;
    r = r < 0 ? broken(o, spare, &err) : take_grade(&g, ns, o);
    arena_give(e->arena, spare);
    if (o->reason[0])
        return r;
    o->verdict = observe_verdict(e->arena->task, &g);
    o->observation = o->verdict ? observe_grade(e->arena->task, &g, o->verdict) : NULL;
    return o->observation ? 0 : -ENOMEM;
}

int env_carry_out(struct gym_env *e, const char *tool, json_t *input, struct env_result *ret)
{
    const struct tool *t = env_tool(tool);
    *ret = (struct env_result){.pass_rate = NAN};
    if (!json_is_object(input))
        return refuse(ret, "input: must be an object");
    if (strcmp(tool, "submit") == 0)
        return json_object_size(input) ? refuse(ret, "submit takes no input") : grade(e, ret);
    if (env_is_look(tool, input) && task_tests_hidden(e->arena->task))
        return refuse(ret, "the tests of this task are run only when it is graded, after submit");
    if (env_is_look(tool, input))
        return look(e, ret);
    return t ? call_tool(e, t, input, ret) : unknown_tool(tool, ret);
}
