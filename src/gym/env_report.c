/* A step as its receivers see it. */
#include <errno.h>
#include <math.h>

#include "env_report.h"
#include "observe.h"
#include "reward.h"
#include "banned.h"

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
