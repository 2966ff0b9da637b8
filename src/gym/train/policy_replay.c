/* Does again what a trajectory says, and tells the first difference to what was recorded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "banned.h"

struct replay_policy {
    struct policy base;
    struct trajectory recorded;
    enum gym_clock clock; /* under which it was recorded */
    size_t at;            /* the step that comes next */
    char tool[128];
    char differs[512];
};

static struct replay_policy *replay(struct policy *p)
{
    return (struct replay_policy *)p;
}

/* Exact where both clocks are virtual. */
static void compare(struct replay_policy *r, struct gym_env *e, const struct gym_step *s)
{
    enum gym_clock clock = r->clock == CLOCK_VIRTUAL ? env_clock(e) : CLOCK_WALL;
    if (!r->differs[0])
        trajectory_same(&r->recorded, s, clock, r->differs, sizeof r->differs);
}

static int begin(struct policy *p, struct gym_env *e, const struct gym_step *first, bool learning,
                 struct error *err)
{
    struct replay_policy *r = replay(p);
    r->at = 1;
    r->differs[0] = 0;
    compare(r, e, first);
    return 0;
}

/* A recording that ends before the episode did: the rest is submit. */
static int choose(struct policy *p, struct gym_env *e, size_t *ret_number, const char **ret_tool,
                  json_t **ret_input, struct error *err)
{
    struct replay_policy *r = replay(p);
    const json_t *action = json_object_get(json_array_get(r->recorded.steps, r->at++), "action");
    const char *tool = json_string_value(json_object_get(action, "tool"));
    json_t *input = tool ? json_copy((json_t *)action) : json_object();
    if (!input)
        return error_set(err, ENOMEM, "no memory");
    if (!tool && !r->differs[0])
        snprintf(r->differs, sizeof r->differs, "the recording ends before its episode did");
    snprintf(r->tool, sizeof r->tool, "%s", tool ? tool : "submit");
    json_object_del(input, "tool");
    *ret_tool = r->tool;
    *ret_input = input;
    return 0;
}

static int learn(struct policy *p, struct gym_env *e, const struct gym_step *s, struct error *err)
{
    struct replay_policy *r = replay(p);
    size_t recorded = json_array_size(r->recorded.steps);
    compare(r, e, s);
    if (!r->differs[0] && (s->terminated || s->truncated) && s->number + 1 < recorded)
        snprintf(r->differs, sizeof r->differs,
                 "step %u: the episode ended here, but continues in the recording", s->number);
    return 0;
}

static bool remark(const struct policy *p, char *text, size_t size)
{
    const struct replay_policy *r = (const struct replay_policy *)p;
    snprintf(text, size, "%s%s", r->differs[0] ? "not as recorded: " : "as recorded", r->differs);
    return r->differs[0] != 0;
}

static void release(struct policy *p)
{
    trajectory_free(&replay(p)->recorded);
    free(p);
}

static int check_head(const struct trajectory *t, const struct task *task, const char *path,
                      struct error *err)
{
    const char *name = json_string_value(json_object_get(t->head, "task"));
    const char *digest = json_string_value(json_object_get(t->head, "digest"));
    if (!name || strcmp(name, task->name) != 0)
        return error_set(err, EINVAL, "%s: this is an episode of the task %.64s, not of %s", path,
                         name ? name : "?", task->name);
    if (!digest || strcmp(digest, task->digest) != 0)
        return error_set(err, EINVAL, "%s: the task %s has changed since this was recorded", path,
                         task->name);
    return 0;
}

static int open_replay(const struct policy_kind *k, const struct task *t,
                       const struct policy_options *o, struct policy **ret, struct error *err)
{
    if (!o->trajectory)
        return error_set(err, EINVAL, "the agent replay needs a trajectory: --trajectory FILE");
    struct replay_policy *r = calloc(1, sizeof *r);
    if (!r)
        return error_set(err, ENOMEM, "no memory");
    r->base = (struct policy){.kind = k,
                              .begin = begin,
                              .choose = choose,
                              .learn = learn,
                              .remark = remark,
                              .free = release};
    int done = trajectory_load(o->trajectory, &r->recorded, err);
    if (done == 0)
        done = check_head(&r->recorded, t, o->trajectory, err);
    if (done < 0) {
        release(&r->base);
        return done;
    }
    const char *clock = json_string_value(json_object_get(r->recorded.head, "clock"));
    r->clock = clock && strcmp(clock, "virtual") == 0 ? CLOCK_VIRTUAL : CLOCK_WALL;
    *ret = &r->base;
    return 0;
}

const struct policy_kind policy_replay = {
    .name = "replay", .summary = "repeats the actions of a trajectory", .open = open_replay};
