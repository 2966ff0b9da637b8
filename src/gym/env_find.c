/*
 * What comes of an action: known from before, or found out. What is kept under (state, tool, input)
 * is the observation with all that else followed from it, as one JSON object; the cache is that of
 * the tools.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "thread.h"
#include "env_private.h"
#include "banned.h"

void env_result_free(struct env_result *o)
{
    json_decref(o->observation);
    json_decref(o->verdict);
    *o = (struct env_result){0};
}

static json_t *pack(const struct env_result *o)
{
    json_t *k = json_pack("{s:O, s:I, s:b}", "observation", o->observation, "ns", (json_int_t)o->ns,
                          "changed", o->changed);
    if (k && o->tested) {
        data_set(k, "passed", json_integer((json_int_t)o->passed));
        data_set(k, "pass_rate", json_real(o->pass_rate));
    }
    if (k && o->verdict)
        data_set(k, "verdict", json_incref(o->verdict));
    return k;
}

static void unpack(json_t *k, struct env_result *ret)
{
    json_t *passed = json_object_get(k, "passed");
    *ret = (struct env_result){.observation = json_incref(json_object_get(k, "observation")),
                               .ns = json_integer_value(json_object_get(k, "ns")),
                               .changed = json_is_true(json_object_get(k, "changed")),
                               .tested = passed != NULL,
                               .passed = (size_t)json_integer_value(passed),
                               .pass_rate = json_real_value(json_object_get(k, "pass_rate")),
                               .verdict = json_incref(json_object_get(k, "verdict"))};
}

static bool recall(struct gym_env *e, const uint8_t *key, struct env_result *ret)
{
    _cleanup_result_ struct tool_result known = TOOL_RESULT_INIT;
    if (!tool_cache_find(e->arena->cache, key, &known))
        return false;
    unpack(known.data, ret);
    atomic_fetch_add(&e->arena->cache_hits, 1);
    return true;
}

static void keep(struct gym_env *e, const uint8_t *key, const struct env_result *o)
{
    _cleanup_result_ struct tool_result known = TOOL_RESULT_INIT;
    known.data = pack(o);
    if (known.data)
        tool_cache_add(e->arena->cache, key, &known);
}

int env_find_out(struct gym_env *e, const char *tool, json_t *input, struct env_result *ret)
{
    uint8_t key[CACHE_KEY_SIZE];
    bool may = e->arena->cache && !e->live && tool_cache_key(e->state, tool, input, key) == 0;
    if (may && recall(e, key, ret))
        return 0;
    if (e->known_only)
        return -EAGAIN;
    int r = env_carry_out(e, tool, input, ret);
    if (r == 0 && may && !ret->lingers && !ret->doubtful && !ret->reason[0] &&
        !cancel_asked(e->cancel))
        keep(e, key, ret);
    return r;
}
