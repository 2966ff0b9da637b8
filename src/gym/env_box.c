/*
 * The boxes of an environment.
 *
 * A box is made when something is asked that is not known yet; the actions of the episode are then
 * done again in a fresh fork of the origin. As long as nothing but files was changed through the
 * guest (no action ran code), that is also how a box for the tests is had: no process of the agent
 * was ever in it, so the environment's own box serves, and the next action makes another. Once code
 * has run, a run of the tests gets a fork of a snapshot, and the box goes on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "env_private.h"
#include "banned.h"

static void close_tools(struct gym_env *e)
{
    e->at.session = tool_session_free(e->at.session);
    e->at.done = 0;
}

static struct box *detach_box(struct gym_env *e)
{
    close_tools(e);
    return TAKE_PTR(e->at.box);
}

void env_box_drop(struct gym_env *e)
{
    e->frozen = snapshot_free(e->frozen);
    arena_give(e->arena, detach_box(e));
}

static int take_box(struct gym_env *e, struct error *err)
{
    int r = arena_take(e->arena, &e->at.box, err);
    if (r < 0)
        return r;
    r = tool_session_new(e->at.box, NULL, &e->at.session, err);
    if (r < 0)
        env_box_drop(e);
    return r;
}

/* Names that the call makes up are those that it made up the first time. */
static int repeat(struct gym_env *e, const struct env_action *a, struct error *err)
{
    struct tool_result result;
    struct tool_request q = {.name = a->tool, .input = a->input, .cancel = e->cancel};
    tool_session_serial(e->at.session, e->at.done + 1);
    tool_call(e->at.session, &q, &result);
    int r = result.failed ? box_check(e->at.box, err) : 0;
    tool_result_free(&result);
    return r;
}

/* What runs on between the steps is looked after here; during a call, the call does it. */
static int check_live(struct gym_env *e, struct error *err)
{
    int r = box_tick(e->at.box, err);
    if (r < 0)
        env_box_drop(e);
    return r;
}

int env_box_ready(struct gym_env *e, struct error *err)
{
    int r = e->live ? check_live(e, err) : e->at.box ? 0 : take_box(e, err);
    while (r == 0 && !e->live && e->at.done < e->n_actions) {
        r = repeat(e, &e->actions[e->at.done], err);
        e->at.done++;
    }
    if (r == 0)
        tool_session_serial(e->at.session, e->n_actions + 1);
    return r;
}

static int freeze(struct gym_env *e, struct error *err)
{
    if (e->frozen && !e->live && e->frozen_at == e->n_actions)
        return 0;
    e->frozen = snapshot_free(e->frozen);
    e->frozen_at = e->n_actions;
    return box_snapshot_until(e->at.box, e->cancel, &e->frozen, err);
}

int env_box_spare(struct gym_env *e, struct box **ret, struct error *err)
{
    int r = env_box_ready(e, err);
    if (r < 0)
        return r;
    if (!e->ran && !e->live) {
        *ret = detach_box(e);
        return 0;
    }
    r = freeze(e, err);
    if (r < 0)
        return r;
    atomic_fetch_add(&e->arena->boxes, 1);
    return box_fork(e->frozen, ret, err);
}

void env_actions_free(struct gym_env *e)
{
    for (size_t i = 0; i < e->n_actions; i++) {
        free(e->actions[i].tool);
        json_decref(e->actions[i].input);
    }
    e->n_actions = 0;
}

int env_actions_add(struct gym_env *e, const char *tool, json_t *input)
{
    if (e->n_actions == e->room_actions) {
        size_t room = e->room_actions ? 2 * e->room_actions : 16;
        struct env_action *more = realloc(e->actions, room * sizeof *more);
        if (!more)
            return -ENOMEM;
        e->actions = more;
        e->room_actions = room;
    }
    char *name = strdup(tool);
    if (!name)
        return -ENOMEM;
    e->actions[e->n_actions++] = (struct env_action){.tool = name, .input = json_incref(input)};
    return 0;
}

int env_actions_copy(struct gym_env *e, const struct gym_env *from)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < from->n_actions; i++)
        r = env_actions_add(e, from->actions[i].tool, from->actions[i].input);
    return r;
}
