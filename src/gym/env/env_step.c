/*
 * A step: what comes of the action is found out, then everything is counted, then it is told.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "env_state.h"
#include "grade.h"
#include "observe.h"
#include "text.h"
#include "thread.h"
#include "tool.h"
#include "banned.h"

/* Where the episode goes on. */
static int advance(struct gym_env *e, const char *tool, json_t *input, const struct env_result *o)
{
    const struct tool *t = env_tool(tool);
    if (!o->changed)
        return 0;
    e->pass_rate = NAN;
    e->ran |= t && t->flags & TOOL_RUNS;
    e->live |= o->lingers;
    int r = env_actions_add(e, tool, input);
    return r < 0 ? r : state_after(e->state, tool, input, e->state);
}

static int64_t count_ns(const struct gym_env *e, const char *tool, const struct env_result *o)
{
    if (e->arena->options.clock == CLOCK_WALL)
        return o->ns;
    return virtual_clock_ns(tool, e->arena->expected.count);
}

/* What the last step of an episode that was not submitted adds: the grade of where it stands. */
static int grade_rest(struct gym_env *e, struct env_result *end)
{
    json_t *nothing = json_object();
    int r = nothing ? env_find_out(e, "submit", nothing, end) : -ENOMEM;
    json_decref(nothing);
    return r;
}

/* The end: by submit, at the limit of steps, or because the box has ended. */
static int finish(struct gym_env *e, struct env_result *o, struct env_result *rest,
                  struct env_report *report)
{
    report->terminated = o->verdict != NULL;
    report->verdict = o->verdict;
    if (o->reason[0]) {
        report->truncated = true;
        report->reason = o->reason;
    } else if (!report->terminated && e->calls >= e->arena->task->max_steps) {
        int r = grade_rest(e, rest);
        if (r < 0)
            return r;
        report->truncated = true;
        report->verdict = rest->verdict;
        report->reason =
            rest->reason[0] ? rest->reason : "the episode has reached its limit of steps";
    }
    e->over = report->terminated || report->truncated;
    if (!e->over)
        return 0;
    const struct env_result *last = rest->observation ? rest : o;
    e->pass_rate = last->tested && last->verdict ? last->pass_rate : 0;
    env_box_drop(e);
    return 0;
}

static int step(struct gym_env *e, const char *tool, json_t *input, struct gym_step *ret)
{
    _cleanup_env_result_ struct env_result o = {0};
    _cleanup_env_result_ struct env_result rest = {0};
    int r = env_find_out(e, tool, input, &o);
    if (r == 0)
        r = advance(e, tool, input, &o);
    if (r < 0)
        return r;
    struct env_report report = {
        .tool = tool, .input = input, .observation = o.observation, .ns = count_ns(e, tool, &o)};
    e->calls++;
    e->ns += report.ns;
    if (o.tested)
        e->pass_rate = o.pass_rate;
    env_features_note(e, tool, input, &o);
    atomic_fetch_add(&e->arena->steps, 1);
    r = finish(e, &o, &rest, &report);
    return r < 0 ? r : env_report_step(e, &report, ret);
}

/* A copy with its members in one order, whatever the caller's was: what a tool says of it (and the
 * caller may change it later) does not depend on that. */
static json_t *canonical(const json_t *input)
{
    if (!input)
        return json_object();
    _cleanup_free_ char *text = json_dumps(input, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    return text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
}

/* Will the episode be graded after this step, whatever comes of it? */
static bool is_last(const struct gym_env *e, const char *tool)
{
    return e->calls + 1 >= e->arena->task->max_steps && strcmp(tool, "submit") != 0;
}

/* Whatever came of a step that was ended on the way, it is not what would have come of the
 * action. */
static int carry_out(struct gym_env *e, const char *tool, json_t *input, struct gym_step *ret)
{
    struct gym_step s = {0};
    json_t *given = canonical(input);
    int r = !given ? -ENOMEM : cancel_check(e->cancel, NULL);
    if (r == 0)
        r = e->known_only && is_last(e, tool) ? -EAGAIN : step(e, tool, given, &s);
    if (r == 0)
        r = cancel_check(e->cancel, NULL);
    json_decref(given);
    if (r == 0)
        *ret = s;
    else
        gym_step_free(&s);
    return r;
}

int env_step(struct gym_env *e, const char *tool, json_t *input, struct gym_step *ret,
             struct error *err)
{
    if (!e->begun)
        return error_set(err, EINVAL, "the environment was not reset; call reset first");
    if (e->over)
        return error_set(err, EINVAL, "the episode is over; call reset to start the next one");
    if (!tool)
        return error_set(err, EINVAL, "the action names no tool");
    int r = carry_out(e, tool, input, ret);
    if (r == -EAGAIN)
        return error_set(err, EAGAIN, "the outcome of this action is not in the cache");
    if (r == 0)
        return 0;
    e->begun = false; /* it is not known how far the step came */
    env_box_drop(e);
    if (r == -ECANCELED)
        return error_set(err, ECANCELED, "the step was interrupted; reset the environment");
    return error_errno(err, -r, "the step failed; reset the environment");
}

int env_step_known(struct gym_env *e, const char *tool, json_t *input, struct gym_step *ret,
                   struct error *err)
{
    e->known_only = true;
    int r = env_step(e, tool, input, ret, err);
    e->known_only = false;
    return r;
}

int env_act(struct gym_env *e, size_t action, struct gym_step *ret, struct error *err)
{
    const char *tool;
    json_t *input = NULL;
    size_t n = task_actions(e->arena->task);
    if (action >= n)
        return error_set(err, EINVAL, "there is no action %zu; the task %s has %zu", action,
                         e->arena->task->name, n);
    int r = task_action(e->arena->task, action, &tool, &input);
    if (r < 0)
        return error_errno(err, -r, "cannot take the action %zu", action);
    r = env_step(e, tool, input, ret, err);
    json_decref(input);
    return r;
}

int env_act_known(struct gym_env *e, size_t action, struct gym_step *ret, struct error *err)
{
    e->known_only = true;
    int r = env_act(e, action, ret, err);
    e->known_only = false;
    return r;
}

/* Carrying an action out in a box: a tool's call, a run of the tests, the grading. */

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

double reward_seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

/* `0 - x` and not `-x`: what costs nothing is 0, not a negative zero, which would print as one. */
struct reward reward_of_episode(const struct task *t, unsigned calls, int64_t ns, double pass_rate)
{
    return (struct reward){.pass_rate = isnan(pass_rate) ? 0 : pass_rate,
                           .calls = 0 - t->call_price * calls,
                           .seconds = 0 - t->second_price * reward_seconds(ns)};
}

struct reward reward_of_step(const struct task *t, int64_t ns, double pass_rate)
{
    return reward_of_episode(t, 1, ns, pass_rate);
}

double reward_sum(const struct reward *r)
{
    return r->pass_rate + r->calls + r->seconds;
}

#define READ_NS      (50 * NS_PER_MS)
#define CHANGE_NS    (100 * NS_PER_MS)
#define RUN_NS       (500 * NS_PER_MS)
#define EACH_TEST_NS (20 * NS_PER_MS)

/* By what a tool does, so that a new one has its cost at once. Calls that reach no tool cost as
 * reading does. */
static int64_t tool_ns(const char *name)
{
    const struct tool *t = tool_builtin(name);
    unsigned flags = t ? t->flags : 0;
    return flags & TOOL_RUNS ? RUN_NS : flags & TOOL_CHANGES ? CHANGE_NS : READ_NS;
}

int64_t virtual_clock_ns(const char *tool, size_t expected)
{
    if (strcmp(tool, TOOL_RUN_TESTS.name) == 0 || strcmp(tool, "submit") == 0)
        return RUN_NS + (int64_t)expected * EACH_TEST_NS;
    return tool_ns(tool);
}
