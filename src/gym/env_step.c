/*
 * A step: what comes of the action is found out, then everything is counted, then it is told.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "thread.h"
#include "env_private.h"
#include "env_report.h"
#include "virtual_clock.h"
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

/* Whatever came of a step that was ended on the way, it is not what would have come of the action.
 */
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
        return error_set(err, EINVAL, "the environment was not reset yet");
    if (e->over)
        return error_set(err, EINVAL, "the episode is over; reset begins the next one");
    if (!tool)
        return error_set(err, EINVAL, "the action names no tool");
    int r = carry_out(e, tool, input, ret);
    if (r == -EAGAIN)
        return error_set(err, EAGAIN, "it is not known what comes of this action");
    if (r == 0)
        return 0;
    e->begun = false; /* it is not known how far the step came */
    env_box_drop(e);
    if (r == -ECANCELED)
        return error_set(err, ECANCELED, "the step was interrupted; the environment must be reset");
    return error_errno(err, -r, "the step was not carried out; the environment must be reset");
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
