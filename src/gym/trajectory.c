/* Writing trajectories, and comparing a step with what was recorded. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tool_result.h"
#include "trajectory.h"
#include "banned.h"

static json_t *real_or_null(double v)
{
    return isnan(v) ? json_null() : json_real(v);
}

/* JSON's integers end at 2^63 - 1; a larger seed is a string. */
static json_t *seed_json(uint64_t seed)
{
    char text[32];
    if (seed <= INT64_MAX)
        return json_integer((json_int_t)seed);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    return json_string(text);
}

json_t *trajectory_head(const struct gym_env *e, const char *agent)
{
    struct gym_episode sums;
    const struct task *t = env_task(e);
    env_episode(e, &sums);
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:i, s:f, s:f}", "hutch", HUTCH_VERSION,
                     "task", t->name, "digest", t->digest, "seed", seed_json(sums.seed), "clock",
                     env_clock(e) == CLOCK_VIRTUAL ? "virtual" : "wall", "agent",
                     agent ? agent : "", "max_steps", (int)t->max_steps, "call_price",
                     t->call_price, "second_price", t->second_price);
}

json_t *trajectory_step(const struct gym_step *s)
{
    return json_pack("{s:i, s:o, s:O, s:f, s:o, s:b, s:b, s:f}", "step", (int)s->number, "action",
                     s->action ? json_incref(s->action) : json_null(), "observation",
                     s->observation, "reward", s->reward, "pass_rate", real_or_null(s->pass_rate),
                     "terminated", s->terminated, "truncated", s->truncated, "seconds", s->seconds);
}

json_t *trajectory_end(const struct gym_env *e)
{
    struct gym_episode sums;
    env_episode(e, &sums);
    return json_pack("{s:f, s:o, s:i, s:f, s:o}", "return", sums.total, "pass_rate",
                     real_or_null(sums.pass_rate), "calls", (int)sums.calls, "seconds",
                     sums.seconds, "seed", seed_json(sums.seed));
}

char *trajectory_line(const json_t *o)
{
    return o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
}

static const char *const EXACT[] = {"observation", "reward",    "pass_rate",
                                    "terminated",  "truncated", "seconds"};

static bool same_member(const json_t *was, const json_t *now, const char *name, char *why,
                        size_t size)
{
    const json_t *a = json_object_get(was, name), *b = json_object_get(now, name);
    if (json_equal(a, b))
        return true;
    _cleanup_free_ char *old = json_dumps(a, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    _cleanup_free_ char *new = json_dumps(b, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    snprintf(why, size, "step %lld: %s was %.200s and is %.200s",
             (long long)json_integer_value(json_object_get(now, "step")), name,
             old ? old : "nothing", new ? new : "nothing");
    return false;
}

static bool same_step(const json_t *was, const json_t *now, enum gym_clock clock, char *why,
                      size_t size)
{
    if (!same_member(was, now, "action", why, size))
        return false;
    for (size_t i = 0; clock == CLOCK_VIRTUAL && i < ARRAY_SIZE(EXACT); i++)
        if (!same_member(was, now, EXACT[i], why, size))
            return false;
    return true;
}

bool trajectory_same(const struct trajectory *t, const struct gym_step *s, enum gym_clock clock,
                     char *why, size_t size)
{
    const json_t *was = json_array_get(t->steps, s->number);
    if (!was) {
        snprintf(why, size, "step %u is not in the recording, which ends before it", s->number);
        return false;
    }
    json_t *now = trajectory_step(s);
    bool same = now && same_step(was, now, clock, why, size);
    if (!now)
        snprintf(why, size, "no memory");
    json_decref(now);
    return same;
}
