/* Opening an agent of the gym, and an episode as any of them plays it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "text.h"
#include "tool.h"
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

static uint64_t splitmix(uint64_t *at)
{
    uint64_t z = *at += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void dice_seed(struct dice *d, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++)
        d->state[i] = splitmix(&seed);
}

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

uint64_t dice_next(struct dice *d)
{
    uint64_t *s = d->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

/* What lies above the last whole multiple of n is thrown again. */
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

#define SHOWN_MAX 120 /* bytes of an input */

/* The first line of a text without what would disturb a terminal. */
static void append_clean(char *text, size_t size, const char *more, size_t max)
{
    size_t used = strlen(text), from = 0, n = strlen(more);
    while (from < n && from < max && more[from] != '\n') {
        size_t k = utf8_character((const uint8_t *)more + from, n - from);
        bool good = k > 0 && !utf8_is_control((const uint8_t *)more + from, k);
        if (used + (good ? k : 1) + 1 > size)
            break;
        memcpy(text + used, good ? more + from : "?", good ? k : 1);
        used += good ? k : 1;
        from += k ? k : 1;
    }
    text[used] = 0;
    if (from < n && used + sizeof "…" <= size)
        memcpy(text + used, "…", sizeof "…");
}

static void label_diff(const struct task *t, const json_t *action, char *text, size_t size)
{
    const char *diff = json_get_string(action, "diff");
    bool reverse = json_is_true(json_object_get(action, "reverse"));
    snprintf(text, size, "%s ", reverse ? "take back" : "apply");
    for (size_t i = 0; diff && i < t->n_patches; i++)
        if (strcmp(t->patches[i].diff, diff) == 0) {
            append_clean(text, size, t->patches[i].name, SHOWN_MAX);
            return;
        }
    append_clean(text, size, "a diff", SHOWN_MAX);
}

void action_label(const struct task *t, const json_t *action, char *text, size_t size)
{
    static const char *const TELLING[] = {"path", "command", "pattern"};
    const char *tool = json_get_string(action, "tool");
    text[0] = 0;
    if (tool && strcmp(tool, TOOL_APPLY_DIFF.name) == 0) {
        label_diff(t, action, text, size);
        return;
    }
    if (tool && strcmp(tool, TOOL_RUN_TESTS.name) == 0 && json_object_size(action) == 1) {
        snprintf(text, size, "run tests");
        return;
    }
    append_clean(text, size,
                 !tool                                    ? "?"
                 : strcmp(tool, TOOL_READ_FILE.name) == 0 ? "read"
                                                          : tool,
                 SHOWN_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(TELLING); i++) {
        const char *value = json_get_string(action, TELLING[i]);
        if (!value)
            continue;
        append_clean(text, size, " ", 1);
        append_clean(text, size, value, SHOWN_MAX);
        return;
    }
}
