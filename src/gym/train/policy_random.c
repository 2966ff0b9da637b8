/* Any action of the discrete view, each as likely: what others are measured against. The episode's
 * seed decides. */
#include <errno.h>
#include <stdlib.h>

#include "policy.h"
#include "banned.h"

struct random_policy {
    struct policy base;
    struct dice dice;
};

static int begin(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err)
{
    struct gym_episode episode;
    env_episode(e, &episode);
    dice_seed(&((struct random_policy *)p)->dice, episode.seed);
    return 0;
}

static int choose(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err)
{
    *ret_number = dice_below(&((struct random_policy *)p)->dice, task_actions(env_task(e)));
    return 0;
}

static void release(struct policy *p)
{
    free(p);
}

static int open_random(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct random_policy *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(err, ENOMEM, "no memory");
    p->base = (struct policy){.kind = k, .begin = begin, .choose = choose, .free = release};
    *ret = &p->base;
    return 0;
}

const struct policy_kind policy_random = {.name = "random",
                                          .summary = "chooses actions uniformly at random",
                                          .discrete = true,
                                          .open = open_random};
