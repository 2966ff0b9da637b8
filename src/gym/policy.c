/* Opening an agent of the gym, and an episode as any of them plays it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "banned.h"

void policy_options_default(struct policy_options *o)
{
    *o = (struct policy_options){.epsilon_start = -1, .epsilon_end = -1, .alpha = -1, .gamma = -1};
}

int policy_open(const struct policy_kind *k, const struct task *t, const struct policy_options *o,
                struct policy **ret, struct error *err)
{
    if (k->discrete && task_actions(t) == 0)
        return error_set(
            err, EINVAL,
            "the agent %s needs candidate patches to choose from, and the task %s has none; "
            "the agent model can play it",
            k->name, t->name);
    return k->open(k, t, o, ret, err);
}

struct policy *policy_free(struct policy *p)
{
    if (p)
        p->free(p);
    return NULL;
}

static int act(struct policy *p, struct gym_env *e, struct gym_step *ret, struct error *err)
{
    const char *tool = NULL;
    json_t *input = NULL;
    size_t number = 0;
    int r = p->choose(p, e, &number, &tool, &input, err);
    if (r < 0)
        return r;
    r = tool ? env_step(e, tool, input, ret, err) : env_act(e, number, ret, err);
    json_decref(input);
    return r;
}

/* Frees the step. */
static int take_step(struct policy *p, struct gym_env *e, struct gym_step *s, bool learning,
                     void (*each)(void *data, const struct gym_step *s), void *data,
                     struct error *err)
{
    int r = 0;
    if (each)
        each(data, s);
    if (s->number == 0 && p->begin)
        r = p->begin(p, e, s, learning, err);
    else if (s->number > 0 && p->learn)
        r = p->learn(p, e, s, err);
    gym_step_free(s);
    return r;
}

int policy_play(struct policy *p, struct gym_env *e, uint64_t seed, bool learning,
                void (*each)(void *data, const struct gym_step *s), void *data,
                struct gym_episode *ret, struct error *err)
{
    struct gym_step s = {0};
    struct gym_episode now = {0};
    int r = env_reset(e, seed, &s, err);
    while (r == 0) {
        r = take_step(p, e, &s, learning, each, data, err);
        env_episode(e, &now);
        if (r < 0 || now.over)
            break;
        r = act(p, e, &s, err);
    }
    if (r == 0)
        *ret = now;
    else if (p->forget)
        p->forget(p);
    return r;
}
