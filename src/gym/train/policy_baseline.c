/*
 * Agents that learn nothing: others are compared with them.
 *
 *     random   any discrete action, each as likely; the episode's seed decides
 *     greedy   runs the tests; applies one patch after the other, keeps those with which more tests
 *              pass and reverts the others; submits as soon as all pass. It pays for every run.
 *     replay   repeats a trajectory and reports the first difference from what was recorded
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "policy.h"
#include "tool.h"
#include "banned.h"

static void baseline_free(struct policy *p)
{
    free(p);
}

struct random_policy {
    struct policy base;
    struct dice dice;
};

static int random_begin(struct policy *p, struct gym_env *e, const struct gym_step *first,
                        bool learning, struct error *err)
{
    struct gym_episode episode;
    env_episode(e, &episode);
    dice_seed(&((struct random_policy *)p)->dice, episode.seed);
    return 0;
}

static int random_choose(struct policy *p, struct gym_env *e, size_t *ret_number,
                         const char **ret_tool, json_t **ret_input, struct error *err)
{
    *ret_number = dice_below(&((struct random_policy *)p)->dice, task_actions(env_task(e)));
    return 0;
}

static int random_open(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct random_policy *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(err, ENOMEM, "no memory");
    p->base = (struct policy){
        .kind = k, .begin = random_begin, .choose = random_choose, .free = baseline_free};
    *ret = &p->base;
    return 0;
}

const struct policy_kind policy_random = {.name = "random",
                                          .summary = "chooses actions uniformly at random",
                                          .discrete = true,
                                          .open = random_open};

struct greedy_policy {
    struct policy base;
    enum { GREEDY_TEST_ORIGINAL, GREEDY_APPLY, GREEDY_TEST, GREEDY_REVERT } stage;
    size_t patch; /* that is tried now, or next */
    double best;  /* pass rate of what was kept */
};

static int greedy_begin(struct policy *p, struct gym_env *e, const struct gym_step *first,
                        bool learning, struct error *err)
{
    struct greedy_policy *g = (struct greedy_policy *)p;
    g->stage = GREEDY_TEST_ORIGINAL;
    g->patch = 0;
    g->best = 0;
    return 0;
}

static int greedy_choose(struct policy *p, struct gym_env *e, size_t *ret_number,
                         const char **ret_tool, json_t **ret_input, struct error *err)
{
    struct greedy_policy *g = (struct greedy_policy *)p;
    const struct task *t = env_task(e);
    switch (g->stage) {
    case GREEDY_TEST_ORIGINAL:
    case GREEDY_TEST:
        *ret_number = t->n_patches;
        return 0;
    case GREEDY_APPLY:
        *ret_number = g->best >= 1 || g->patch == t->n_patches ? task_actions(t) - 1 : g->patch;
        return 0;
    case GREEDY_REVERT:
        *ret_tool = TOOL_APPLY_DIFF.name;
        *ret_input = json_pack("{s:s, s:b}", "diff", t->patches[g->patch].diff, "reverse", 1);
        return *ret_input ? 0 : error_set(err, ENOMEM, "no memory");
    }
    return -EINVAL;
}

static int greedy_learn(struct policy *p, struct gym_env *e, const struct gym_step *s,
                        struct error *err)
{
    struct greedy_policy *g = (struct greedy_policy *)p;
    double rate = isnan(s->pass_rate) ? 0 : s->pass_rate;
    bool next = false;
    switch (g->stage) {
    case GREEDY_TEST_ORIGINAL:
        g->best = rate;
        g->stage = GREEDY_APPLY;
        break;
    case GREEDY_APPLY:
        next = json_get_bool(s->observation, "failed"); /* the patch does not apply here */
        g->stage = GREEDY_TEST;
        break;
    case GREEDY_TEST:
        next = rate > g->best;
        g->best = fmax(g->best, rate);
        g->stage = GREEDY_REVERT;
        break;
    case GREEDY_REVERT:
        next = true;
        break;
    }
    if (next) {
        g->patch++;
        g->stage = GREEDY_APPLY;
    }
    return 0;
}

static int greedy_open(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    struct greedy_policy *g = calloc(1, sizeof *g);
    if (!g)
        return error_set(err, ENOMEM, "no memory");
    g->base = (struct policy){.kind = k,
                              .begin = greedy_begin,
                              .choose = greedy_choose,
                              .learn = greedy_learn,
                              .free = baseline_free};
    *ret = &g->base;
    return 0;
}

const struct policy_kind policy_greedy = {
    .name = "greedy",
    .summary = "applies patch after patch and keeps those that make more tests pass",
    .discrete = true,
    .open = greedy_open};

struct replay_policy {
    struct policy base;
    struct trajectory recorded;
    enum gym_clock clock; /* of the recording */
    size_t at;            /* the next step */
    char tool[128];
    char difference[512]; /* the first; or empty */
};

/* Compares exactly if both clocks are virtual. */
static void replay_compare(struct replay_policy *r, struct gym_env *e, const struct gym_step *s)
{
    enum gym_clock clock = r->clock == CLOCK_VIRTUAL ? env_clock(e) : CLOCK_WALL;
    if (!r->difference[0])
        trajectory_same(&r->recorded, s, clock, r->difference, sizeof r->difference);
}

static int replay_begin(struct policy *p, struct gym_env *e, const struct gym_step *first,
                        bool learning, struct error *err)
{
    struct replay_policy *r = (struct replay_policy *)p;
    r->at = 1;
    r->difference[0] = 0;
    replay_compare(r, e, first);
    return 0;
}

/* If the recording ends before the episode, the next action is submit. */
static int replay_choose(struct policy *p, struct gym_env *e, size_t *ret_number,
                         const char **ret_tool, json_t **ret_input, struct error *err)
{
    struct replay_policy *r = (struct replay_policy *)p;
    const json_t *action = json_object_get(json_array_get(r->recorded.steps, r->at++), "action");
    const char *tool = json_get_string(action, "tool");
    json_t *input = tool ? json_copy((json_t *)action) : json_object();
    if (!input)
        return error_set(err, ENOMEM, "no memory");
    if (!tool && !r->difference[0])
        snprintf(r->difference, sizeof r->difference, "the recording ends before its episode did");
    snprintf(r->tool, sizeof r->tool, "%s", tool ? tool : "submit");
    json_object_del(input, "tool");
    *ret_tool = r->tool;
    *ret_input = input;
    return 0;
}

static int replay_learn(struct policy *p, struct gym_env *e, const struct gym_step *s,
                        struct error *err)
{
    struct replay_policy *r = (struct replay_policy *)p;
    replay_compare(r, e, s);
    if (!r->difference[0] && (s->terminated || s->truncated) &&
        s->number + 1 < json_array_size(r->recorded.steps))
        snprintf(r->difference, sizeof r->difference,
                 "step %u: the episode ended here, but continues in the recording", s->number);
    return 0;
}

static bool replay_remark(const struct policy *p, char *text, size_t size)
{
    const struct replay_policy *r = (const struct replay_policy *)p;
    bool differs = r->difference[0] != 0;
    snprintf(text, size, "%s%s", differs ? "not as recorded: " : "as recorded", r->difference);
    return differs;
}

static void replay_free(struct policy *p)
{
    trajectory_free(&((struct replay_policy *)p)->recorded);
    free(p);
}

static int replay_open(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    if (!o->trajectory)
        return error_set(err, EINVAL, "the agent replay needs a trajectory: --trajectory FILE");
    struct replay_policy *r = calloc(1, sizeof *r);
    if (!r)
        return error_set(err, ENOMEM, "no memory");
    r->base = (struct policy){.kind = k,
                              .begin = replay_begin,
                              .choose = replay_choose,
                              .learn = replay_learn,
                              .remark = replay_remark,
                              .free = replay_free};
    int done = trajectory_load(o->trajectory, &r->recorded, err);
    const json_t *head = r->recorded.head;
    if (done == 0 && strcmp(json_get_string_or(head, "task", "?"), t->name) != 0)
        done = error_set(err, EINVAL, "%s: this is an episode of the task %.64s, not of %s",
                         o->trajectory, json_get_string_or(head, "task", "?"), t->name);
    if (done == 0 && strcmp(json_get_string_or(head, "digest", ""), t->digest) != 0)
        done = error_set(err, EINVAL, "%s: the task %s has changed since this was recorded",
                         o->trajectory, t->name);
    if (done < 0) {
        replay_free(&r->base);
        return done;
    }
    bool virtual = strcmp(json_get_string_or(head, "clock", ""), "virtual") == 0;
    r->clock = virtual ? CLOCK_VIRTUAL : CLOCK_WALL;
    *ret = &r->base;
    return 0;
}

const struct policy_kind policy_replay = {
    .name = "replay", .summary = "repeats the actions of a trajectory", .open = replay_open};
