/*
 * A step: the outcome of the action comes from the cache or is found by carrying the action out in
 * a box; then the step is counted, the episode may end, and the caller gets a report.
 *
 * The cache holds, under (state, tool, input), the observation with everything else that followed
 * from the action, as one JSON object.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "thread.h"
#include "env.h"
#include "env_state.h"
#include "grade.h"
#include "json.h"
#include "text.h"
#include "observation.h"
#include "tool.h"
#include "banned.h"

/* The outcome of an action. */
struct env_result {
    json_t *observation;
    int64_t ns; /* measured */
    bool changed, lingers;
    bool tested; /* it was a run of the tests: */
    size_t passed;
    double pass_rate;
    bool doubtful;     /* the run did not take place; another time it may */
    json_t *verdict;   /* of a grading: {"tests", "discarded", "trouble"} */
    char reason[1024]; /* why the episode cannot continue; or empty */
};

static void env_result_free(struct env_result *o)
{
    json_decref(o->observation);
    json_decref(o->verdict);
    *o = (struct env_result){0};
}
#define _cleanup_env_result_ _cleanup_(env_result_free)

/* The built-in tool of that name that works in a box; NULL: none. */
static const struct tool *env_tool(const char *name)
{
    const struct tool *t = tool_builtin(name);
    return t && !(t->flags & TOOL_HOST) ? t : NULL;
}

/* The episode cannot continue. If the box has ended (b is not NULL), the reason is the box's. */
static int result_break(struct env_result *o, struct box *b, struct error *err)
{
    if (b)
        box_check(b, err);
    snprintf(o->reason, sizeof o->reason, "%s", err->text[0] ? err->text : "the box has ended");
    o->observation = observe_text(o->reason, true);
    return o->observation ? 0 : -ENOMEM;
}

static int result_refuse(struct env_result *o, const char *fmt, ...) PRINTF(2, 3);
static int result_refuse(struct env_result *o, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    o->observation = observe_text(text, true);
    return o->observation ? 0 : -ENOMEM;
}

static int action_call_unknown(const char *name, struct env_result *o)
{
    struct nearest near = nearest_to(name, strnlen(name, 64));
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            nearest_offer(&near, TOOLS[i]->name);
    nearest_offer(&near, "submit");
    if (near.best)
        return result_refuse(o, "there is no tool '%.64s'; did you mean '%s'?", name, near.best);
    return result_refuse(o, "there is no tool '%.64s'", name);
}

static int action_call_tool(struct gym_env *e, const struct tool *t, json_t *input,
                            struct env_result *o)
{
    struct error err = {0};
    _cleanup_result_ struct tool_result result = TOOL_RESULT_INIT;
    if (env_box_ready(e, &err) < 0)
        return result_break(o, e->box, &err);
    struct tool_request q = {.name = t->name, .tool = t, .input = input, .cancel = e->cancel};
    int64_t began = clock_now();
    int r = tool_call(e->session, &q, &result);
    o->ns = clock_now() - began;
    /* the death of a box looks like a failed command */
    bool suspicious = r == 0 && (result.failed || t->flags & TOOL_RUNS);
    if (suspicious && box_check(e->box, &err) < 0)
        return result_break(o, NULL, &err);
    /* only a call that certainly changed nothing keeps the state's name */
    o->changed =
        r >= 0 && !(t->flags & TOOL_READS) && !(t->unchanged && t->unchanged(input, &result));
    o->lingers = result.lingers;
    e->n_done += o->changed; /* it is done in this box already */
    o->observation = observe_tool(t->name, &result);
    return o->observation ? 0 : -ENOMEM;
}

/* Runs the tests as they are (run_tests), or grades (submit). A live box has processes that the
 * visible tests may need, and no state name that they could spoil: run_tests runs in it. */
static int action_run_tests(struct gym_env *e, bool as_is, struct env_result *o)
{
    struct error err = {0};
    _cleanup_grade_ struct grade g = {0};
    struct box *spare = NULL;
    bool in_place = as_is && e->live;
    int r = in_place ? env_box_ready(e, &err) : env_box_spare(e, &spare, &err);
    if (r < 0)
        return result_break(o, e->box, &err);
    struct box *b = in_place ? e->box : spare;
    arena_count(e->arena, ARENA_TEST_RUN);
    int64_t began = clock_now();
    r = arena_grade(e->arena, b, as_is, e->cancel, &g, &err);
    o->ns = clock_now() - began;
    if (r < 0)
        r = result_break(o, b, &err);
    arena_give(e->arena, spare);
    if (o->reason[0])
        return r;
    o->tested = true;
    o->doubtful = g.trouble && g.duration_ns == 0;
    o->passed = g.passed;
    o->pass_rate = isnan(g.pass_rate) ? 0 : g.pass_rate;
    if (!as_is)
        o->verdict = observe_verdict(e->task, &g);
    if (as_is)
        o->observation = observe_test_run(e->task, &g);
    else
        o->observation = o->verdict ? observe_grade(e->task, &g, o->verdict) : NULL;
    return o->observation ? 0 : -ENOMEM;
}

/* 0, whatever came of the action; or -ENOMEM. */
static int action_carry_out(struct gym_env *e, const char *tool, json_t *input,
                            struct env_result *ret)
{
    const struct tool *t = env_tool(tool);
    *ret = (struct env_result){.pass_rate = NAN};
    if (!json_is_object(input))
        return result_refuse(ret, "input: must be an object");
    bool no_input = json_object_size(input) == 0;
    if (strcmp(tool, "submit") == 0)
        return no_input ? action_run_tests(e, false, ret)
                        : result_refuse(ret, "submit takes no input");
    if (strcmp(tool, TOOL_RUN_TESTS.name) == 0 && no_input)
        return task_tests_hidden(e->task)
                   ? result_refuse(ret,
                                   "the tests of this task are run only when it is graded, after "
                                   "submit")
                   : action_run_tests(e, true, ret);
    return t ? action_call_tool(e, t, input, ret) : action_call_unknown(tool, ret);
}

static bool result_recall(struct gym_env *e, const uint8_t *key, struct env_result *ret)
{
    _cleanup_result_ struct tool_result known = TOOL_RESULT_INIT;
    if (!tool_cache_find(arena_cache(e->arena), key, &known))
        return false;
    json_t *passed = json_object_get(known.data, "passed");
    *ret =
        (struct env_result){.observation = json_incref(json_object_get(known.data, "observation")),
                            .ns = json_get_integer(known.data, "ns"),
                            .changed = json_get_bool(known.data, "changed"),
                            .tested = passed != NULL,
                            .passed = (size_t)json_integer_value(passed),
                            .pass_rate = json_real_value(json_object_get(known.data, "pass_rate")),
                            .verdict = json_incref(json_object_get(known.data, "verdict"))};
    arena_count(e->arena, ARENA_CACHE_HIT);
    return true;
}

static void result_remember(struct gym_env *e, const uint8_t *key, const struct env_result *o)
{
    _cleanup_result_ struct tool_result known = TOOL_RESULT_INIT;
    known.data = json_pack("{s:O, s:I, s:b, s:o*, s:o*, s:O*}", "observation", o->observation, "ns",
                           (json_int_t)o->ns, "changed", o->changed, "passed",
                           o->tested ? json_integer((json_int_t)o->passed) : NULL, "pass_rate",
                           o->tested ? json_real(o->pass_rate) : NULL, "verdict", o->verdict);
    if (known.data)
        tool_cache_add(arena_cache(e->arena), key, &known);
}

/* The outcome from the cache, else by carrying the action out; -EAGAIN if only the cache is
 * allowed. */
static int action_outcome(struct gym_env *e, const char *tool, json_t *input,
                          struct env_result *ret)
{
    uint8_t key[CACHE_KEY_SIZE];
    bool cached =
        arena_cache(e->arena) && !e->live && tool_cache_key(e->state, tool, input, key) == 0;
    if (cached && result_recall(e, key, ret))
        return 0;
    if (e->known_only)
        return -EAGAIN;
    int r = action_carry_out(e, tool, input, ret);
    if (r == 0 && cached && !ret->lingers && !ret->doubtful && !ret->reason[0] &&
        !cancel_asked(e->cancel))
        result_remember(e, key, ret);
    return r;
}

/* Updates the discrete view's features. */
static void features_update(struct gym_env *e, const char *tool, const json_t *input,
                            const struct env_result *o)
{
    const struct task *t = e->task;
    if (o->changed)
        e->tests = 0;
    if (o->tested) {
        /* at most the expected tests: the feature's range must be known beforehand */
        size_t most = arena_expected(e->arena)->count;
        e->tests = 1 + (o->passed < most ? o->passed : most);
    }
    if (o->changed && strcmp(tool, TOOL_APPLY_DIFF.name) == 0)
        for (size_t i = 0; i < t->n_patches; i++)
            if (strcmp(t->patches[i].diff, json_get_string_or(input, "diff", "")) == 0)
                e->patched[i] = !json_get_bool(input, "reverse");
    if (!json_get_bool(o->observation, "failed") && strcmp(tool, TOOL_READ_FILE.name) == 0)
        for (size_t i = 0; i < t->reads.count; i++)
            if (strcmp(t->reads.items[i], json_get_string_or(input, "path", "")) == 0)
                e->was_read[i] = true;
}

/* Moves the episode to the state after the action and counts the step. */
static int step_advance(struct gym_env *e, const char *tool, json_t *input,
                        const struct env_result *o, int64_t ns)
{
    if (o->changed) {
        const struct tool *t = env_tool(tool);
        e->pass_rate = NAN;
        e->ran |= t && t->flags & TOOL_RUNS;
        e->live |= o->lingers;
        int r = env_actions_add(e, tool, input);
        if (r == 0)
            r = state_after(e->state, tool, input, e->state);
        if (r < 0)
            return r;
    }
    e->calls++;
    e->ns += ns;
    if (o->tested)
        e->pass_rate = o->pass_rate;
    features_update(e, tool, input, o);
    arena_count(e->arena, ARENA_STEP);
    return 0;
}

/* An episode ends by submit, at its limit of steps (it is then graded as it is), or because the box
 * has ended. */
static int step_run(struct gym_env *e, const char *tool, json_t *input, struct gym_step *ret)
{
    _cleanup_env_result_ struct env_result o = {0};
    _cleanup_env_result_ struct env_result rest = {0};
    int r = action_outcome(e, tool, input, &o);
    if (r < 0)
        return r;
    int64_t ns = e->clock == CLOCK_WALL
                     ? o.ns
                     : virtual_clock_ns(tool, arena_expected(e->arena)->count);
    r = step_advance(e, tool, input, &o, ns);
    if (r < 0)
        return r;
    bool terminated = o.verdict != NULL, truncated = false;
    json_t *verdict = o.verdict;
    const char *reason = NULL;
    if (o.reason[0]) {
        truncated = true;
        reason = o.reason;
    } else if (!terminated && e->calls >= e->task->max_steps) {
        json_t *nothing = json_object();
        r = nothing ? action_outcome(e, "submit", nothing, &rest) : -ENOMEM;
        json_decref(nothing);
        if (r < 0)
            return r;
        truncated = true;
        verdict = rest.verdict;
        reason = rest.reason[0] ? rest.reason : "the episode has reached its limit of steps";
    }
    e->over = terminated || truncated;
    if (e->over) {
        const struct env_result *last = rest.observation ? &rest : &o;
        e->pass_rate = last->tested && last->verdict ? last->pass_rate : 0;
        env_box_drop(e);
    }

    struct reward reward = reward_of(e->task, 1, ns, e->over ? e->pass_rate : NAN);
    struct gym_step s = {.number = e->calls,
                         .action = json_pack("{s:s}", "tool", tool),
                         .observation = json_incref(o.observation),
                         .reward = reward_sum(&reward),
                         .pass_rate = e->pass_rate,
                         .terminated = terminated,
                         .truncated = truncated,
                         .seconds = reward_seconds(ns),
                         .info = env_info(e, &reward)};
    bool whole = s.action && s.observation && s.info;
    if (whole && json_is_object(input))
        whole = json_object_update_missing(s.action, input) == 0;
    if (whole && verdict)
        whole = json_object_update(s.info, verdict) == 0;
    if (whole && reason)
        data_set(s.info, "reason", json_string(reason));
    if (!whole) {
        gym_step_free(&s);
        return -ENOMEM;
    }
    *ret = s;
    return 0;
}

int env_step(struct gym_env *e, const char *tool, json_t *input, struct gym_step *ret,
             struct error *err)
{
    struct gym_step s = {0};
    if (!e->begun)
        return error_set(err, EINVAL, "the environment was not reset; call reset first");
    if (e->over)
        return error_set(err, EINVAL, "the episode is over; call reset to start the next one");
    if (!tool)
        return error_set(err, EINVAL, "the action names no tool");
    /* a copy with sorted members: a tool's messages must not depend on the caller's order, and the
     * caller may change its object later */
    _cleanup_free_ char *text =
        input ? json_dumps(input, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;
    _cleanup_json_ json_t *sorted = !input ? json_object()
                                    : text
                                        ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                                        : NULL;
    /* the last step is graded, which the cache alone cannot promise */
    bool last = e->calls + 1 >= e->task->max_steps && strcmp(tool, "submit") != 0;
    int r = !sorted ? -ENOMEM : cancel_check(e->cancel, NULL);
    if (r == 0)
        r = e->known_only && last ? -EAGAIN : step_run(e, tool, sorted, &s);
    if (r == 0)
        r = cancel_check(e->cancel, NULL); /* the outcome of a cancelled step is not the action's */
    if (r == 0) {
        *ret = s;
        return 0;
    }
    gym_step_free(&s);
    if (r == -EAGAIN)
        return error_set(err, EAGAIN, "the outcome of this action is not in the cache");
    e->begun = false; /* it is not known how far the step came */
    env_box_drop(e);
    if (r == -ECANCELED)
        return error_set(err, ECANCELED, "the step was interrupted; reset the environment");
    return error_errno(err, -r, "the step failed; reset the environment");
}

int env_act(struct gym_env *e, size_t action, struct gym_step *ret, struct error *err)
{
    const char *tool;
    json_t *input = NULL;
    size_t n = task_actions(e->task);
    if (action >= n)
        return error_set(err, EINVAL, "there is no action %zu; the task %s has %zu", action,
                         e->task->name, n);
    int r = task_action(e->task, action, &tool, &input);
    if (r < 0)
        return error_errno(err, -r, "cannot take the action %zu", action);
    r = env_step(e, tool, input, ret, err);
    json_decref(input);
    return r;
}

int env_step_known(struct gym_env *e, const char *tool, json_t *input, struct gym_step *ret,
                   struct error *err)
{
    e->known_only = true;
    int r = env_step(e, tool, input, ret, err);
    e->known_only = false;
    return r;
}

int env_act_known(struct gym_env *e, size_t action, struct gym_step *ret, struct error *err)
{
    e->known_only = true;
    int r = env_act(e, action, ret, err);
    e->known_only = false;
    return r;
}
