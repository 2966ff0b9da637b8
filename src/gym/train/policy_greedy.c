/*
 * What a person without any idea would do: run the tests; then apply one patch after the other, run
 * the tests again, keep what made more of them pass and take back what did not; submit as soon as
 * all pass. It learns nothing, sees nothing but what the steps tell, and pays for every look.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "policy.h"
#include "tool.h"
#include "banned.h"

enum stage { LOOK_FIRST, TRY_NEXT, LOOK, TAKE_BACK };

struct greedy_policy {
    struct policy base;
    enum stage stage;
    size_t patch; /* that is tried now, or next */
    double best;  /* pass rate of what was kept */
};

static struct greedy_policy *greedy(struct policy *p)
{
    return (struct greedy_policy *)p;
}

static int begin(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err)
{
    struct greedy_policy *g = greedy(p);
    g->stage = LOOK_FIRST;
    g->patch = 0;
    g->best = 0;
    return 0;
}

static int take_back(const struct task_patch *patch, const char **ret_tool, json_t **ret_input,
                     struct error *err)
{
    json_t *input = json_pack("{s:s, s:b}", "diff", patch->diff, "reverse", 1);
    if (!input)
        return error_set(err, ENOMEM, "no memory");
    *ret_tool = TOOL_APPLY_DIFF.name;
    *ret_input = input;
    return 0;
}

static int choose(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err)
{
    struct greedy_policy *g = greedy(p);
    const struct task *t = env_task(e);
    switch (g->stage) {
    case LOOK_FIRST:
    case LOOK:
        *ret_number = t->n_patches;
        return 0;
    case TRY_NEXT:
        *ret_number = g->best >= 1 || g->patch == t->n_patches ? task_actions(t) - 1 : g->patch;
        return 0;
    case TAKE_BACK:
        return take_back(&t->patches[g->patch], ret_tool, ret_input, err);
    }
    return -EINVAL;
}

static void next_patch(struct greedy_policy *g)
{
    g->patch++;
    g->stage = TRY_NEXT;
}

static int learn(struct policy *p, struct gym_env *e, const struct gym_step *s, struct error *err)
{
    struct greedy_policy *g = greedy(p);
    double rate = isnan(s->pass_rate) ? 0 : s->pass_rate;
    bool failed = json_is_true(json_object_get(s->observation, "failed"));
    switch (g->stage) {
    case LOOK_FIRST:
        g->best = rate;
        g->stage = TRY_NEXT;
        break;
    case TRY_NEXT:
        if (failed)
            next_patch(g); /* it does not apply here */
        else
            g->stage = LOOK;
        break;
    case LOOK:
        if (rate > g->best) {
            g->best = rate;
            next_patch(g);
        } else
            g->stage = TAKE_BACK;
        break;
    case TAKE_BACK:
        next_patch(g);
        break;
    }
    return 0;
}

static void release(struct policy *p)
{
    free(p);
}

static int open_greedy(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct greedy_policy *g = calloc(1, sizeof *g);
    if (!g)
        return error_set(err, ENOMEM, "no memory");
    g->base = (struct policy){
        .kind = k, .begin = begin, .choose = choose, .learn = learn, .free = release};
    *ret = &g->base;
    return 0;
}

const struct policy_kind policy_greedy = {
    .name = "greedy",
    .summary = "applies patch after patch and keeps those that make more tests pass",
    .discrete = true,
    .open = open_greedy};
