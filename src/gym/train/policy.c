/* Opening an agent of the gym, an episode as any of them plays it, dice, names of actions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "policy.h"
#include "text.h"
#include "tool.h"
#include "banned.h"

#define INPUT_MAX 120 /* bytes of an input in a label */

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

int policy_play(struct policy *p, struct gym_env *e, uint64_t seed, bool learning,
                void (*each)(void *data, const struct gym_step *s), void *data,
                struct gym_episode *ret, struct error *err)
{
    struct gym_step s = {0};
    struct gym_episode now = {0};
    int r = env_reset(e, seed, &s, err);
    while (r == 0) {
        if (each)
            each(data, &s);
        if (s.number == 0 && p->begin)
            r = p->begin(p, e, &s, learning, err);
        else if (s.number > 0 && p->learn)
            r = p->learn(p, e, &s, err);
        gym_step_free(&s);
        env_episode(e, &now);
        if (r < 0 || now.over)
            break;
        const char *tool = NULL;
        json_t *input = NULL;
        size_t number = 0;
        r = p->choose(p, e, &number, &tool, &input, err);
        if (r == 0)
            r = tool ? env_step(e, tool, input, &s, err) : env_act(e, number, &s, err);
        json_decref(input);
    }
    if (r == 0)
        *ret = now;
    else if (p->forget)
        p->forget(p);
    return r;
}

void dice_seed(struct dice *d, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u; /* splitmix64 */
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        d->state[i] = z ^ (z >> 31);
    }
}

static uint64_t rotate_left(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

uint64_t dice_next(struct dice *d)
{
    uint64_t *s = d->state, result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Numbers below 2^64 mod n are drawn again: the rest is a whole multiple of n. */
uint64_t dice_below(struct dice *d, uint64_t n)
{
    uint64_t rest = -n % n, x;
    do
        x = dice_next(d);
    while (x < rest);
    return x % n;
}

double dice_unit(struct dice *d)
{
    return (double)(dice_next(d) >> 11) * 0x1p-53;
}

/* Appends the first line of a text without characters that would disturb a terminal. */
static void label_append(char *label, size_t size, const char *more)
{
    size_t used = strlen(label), from = 0, n = strlen(more);
    while (from < n && from < INPUT_MAX && more[from] != '\n') {
        size_t k = utf8_character((const uint8_t *)more + from, n - from);
        bool good = k > 0 && !utf8_is_control((const uint8_t *)more + from, k);
        if (used + (good ? k : 1) + 1 > size)
            break;
        memcpy(label + used, good ? more + from : "?", good ? k : 1);
        used += good ? k : 1;
        from += k ? k : 1;
    }
    label[used] = 0;
    if (from < n && used + sizeof "…" <= size)
        memcpy(label + used, "…", sizeof "…");
}

void action_label(const struct task *t, const json_t *action, char *text, size_t size)
{
    static const char *const INPUTS[] = {"path", "command", "pattern"};
    const char *tool = json_get_string_or(action, "tool", "?"), *input = NULL;
    text[0] = 0;
    if (strcmp(tool, TOOL_APPLY_DIFF.name) == 0) {
        const char *diff = json_get_string(action, "diff");
        input = "a diff";
        for (size_t i = t->n_patches; diff && i-- > 0;)
            if (strcmp(t->patches[i].diff, diff) == 0)
                input = t->patches[i].name;
        tool = json_get_bool(action, "reverse") ? "revert" : "apply";
    } else if (strcmp(tool, TOOL_RUN_TESTS.name) == 0 && json_object_size(action) == 1) {
        tool = "run tests";
    } else if (strcmp(tool, TOOL_READ_FILE.name) == 0) {
        tool = "read";
    }
    for (size_t i = 0; !input && i < ARRAY_SIZE(INPUTS); i++)
        input = json_get_string(action, INPUTS[i]);
    label_append(text, size, tool);
    if (input) {
        label_append(text, size, " ");
        label_append(text, size, input);
    }
}
