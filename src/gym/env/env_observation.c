/* The discrete view's observation: which patches are applied, how the tests stand, which files were
 * read. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "cache.h"
#include "env_state.h"
#include "observe.h"
#include "tool.h"
#include "banned.h"

size_t env_features(const struct gym_env *e, int64_t *ret, size_t room)
{
    const struct task *t = e->arena->task;
    size_t n = 0;
    if (task_features(t) == 0)
        return 0;
    for (size_t i = 0; i < t->n_patches; i++, n++)
        if (n < room)
            ret[n] = e->patched[i];
    if (n < room)
        ret[n] = (int64_t)e->tests;
    n++;
    for (size_t i = 0; i < t->reads.count; i++, n++)
        if (n < room)
            ret[n] = e->was_read[i];
    return n;
}

static void note_patch(struct gym_env *e, const json_t *input)
{
    const struct task *t = e->arena->task;
    bool applied = !json_is_true(json_object_get(input, "reverse"));
    for (size_t i = 0; i < t->n_patches; i++)
        if (strcmp(t->patches[i].diff, json_get_string_or(input, "diff", "")) == 0)
            e->patched[i] = applied;
}

static void note_read(struct gym_env *e, const json_t *input)
{
    const struct task *t = e->arena->task;
    for (size_t i = 0; i < t->reads.count; i++)
        if (strcmp(t->reads.items[i], json_get_string_or(input, "path", "")) == 0)
            e->was_read[i] = true;
}

/* What a run named beyond the expected tests does not count: the feature's range is known
 * beforehand. */
static size_t tests_feature(const struct gym_env *e, size_t passed)
{
    size_t most = e->arena->expected.count;
    return 1 + (passed < most ? passed : most);
}

void env_features_note(struct gym_env *e, const char *tool, const json_t *input,
                       const struct env_result *o)
{
    bool failed = json_is_true(json_object_get(o->observation, "failed"));
    if (o->changed)
        e->tests = 0;
    if (o->tested)
        e->tests = tests_feature(e, o->passed);
    if (o->changed && strcmp(tool, TOOL_APPLY_DIFF.name) == 0)
        note_patch(e, input);
    if (!failed && strcmp(tool, TOOL_READ_FILE.name) == 0)
        note_read(e, input);
}

/* A step as its receivers see it. */

void gym_step_free(struct gym_step *s)
{
    json_decref(s->action);
    json_decref(s->observation);
    json_decref(s->info);
    *s = (struct gym_step){0};
}

static json_t *real_or_null(double v)
{
    return isnan(v) ? json_null() : json_real(v);
}

static json_t *make_info(const struct gym_env *e, const struct reward *r)
{
    return json_pack("{s:i, s:f, s:o, s:o, s:{s:f, s:f, s:f}}", "calls", (int)e->calls, "seconds",
                     reward_seconds(e->ns), "pass_rate", real_or_null(e->pass_rate), "state",
                     e->live ? json_null() : json_string(e->state), "reward", "pass_rate",
                     r->pass_rate, "calls", r->calls, "seconds", r->seconds);
}

static int finish(struct gym_step *s, struct gym_step *ret)
{
    if (!s->observation || !s->info || (s->number && !s->action)) {
        gym_step_free(s);
        return -ENOMEM;
    }
    *ret = *s;
    return 0;
}

int env_report_reset(const struct gym_env *e, struct gym_step *ret)
{
    const struct reward nothing = {0};
    struct gym_step s = {.observation = observe_reset(e->arena->task),
                         .pass_rate = NAN,
                         .info = make_info(e, &nothing)};
    return finish(&s, ret);
}

/* {"tool": NAME, …input} */
static json_t *action_of(const char *tool, json_t *input)
{
    json_t *action = json_pack("{s:s}", "tool", tool);
    if (action && json_is_object(input) && json_object_update_missing(action, input) < 0) {
        json_decref(action);
        return NULL;
    }
    return action;
}

int env_report_step(const struct gym_env *e, const struct env_report *r, struct gym_step *ret)
{
    bool last = r->terminated || r->truncated;
    struct reward reward = reward_of_step(e->arena->task, r->ns, last ? e->pass_rate : NAN);
    struct gym_step s = {.number = e->calls,
                         .action = action_of(r->tool, r->input),
                         .observation = json_incref(r->observation),
                         .reward = reward_sum(&reward),
                         .pass_rate = e->pass_rate,
                         .terminated = r->terminated,
                         .truncated = r->truncated,
                         .seconds = reward_seconds(r->ns),
                         .info = make_info(e, &reward)};
    if (s.info && r->verdict)
        json_object_update(s.info, r->verdict);
    if (s.info && r->reason)
        data_set(s.info, "reason", json_string(r->reason));
    return finish(&s, ret);
}

/* The digest over name, tool and sorted input is the one by which results are kept
 * (tool/cache.h). */
int state_after(const char *name, const char *tool, const json_t *input, char ret[STATE_NAME_SIZE])
{
    static const char DIGITS[] = "0123456789abcdef";
    uint8_t key[CACHE_KEY_SIZE];
    int r = tool_cache_key(name, tool, input, key);
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof key; i++) {
        ret[2 * i] = DIGITS[key[i] >> 4];
        ret[2 * i + 1] = DIGITS[key[i] & 15];
    }
    ret[STATE_NAME_SIZE - 1] = 0;
    return 0;
}

int state_begin(const char *task_digest, char ret[STATE_NAME_SIZE])
{
    json_t *nothing = json_object();
    int r = nothing ? state_after(task_digest, "reset", nothing, ret) : -1;
    json_decref(nothing);
    return r;
}
