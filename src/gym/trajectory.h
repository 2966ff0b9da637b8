/*
 * Trajectories: episodes as JSON lines. The first line says what is needed to play it again ({"task",
 * "digest", "seed", "clock", …}), then a line per step (contract: step, action, observation, reward,
 * pass_rate, terminated, truncated; and times), then the sums.
 */
#pragma once

#include "env.h"

json_t *trajectory_head(const struct gym_env *e, const char *agent);
json_t *trajectory_step(const struct gym_step *s);
json_t *trajectory_end(const struct gym_env *e);

struct trajectory {
    json_t *head;
    json_t *steps; /* array */
    json_t *end;   /* or NULL: it was cut */
};
int trajectory_load(const char *path, struct trajectory *ret, struct error *err);
int trajectory_parse(const char *text, size_t n, const char *name, struct trajectory *ret, struct error *err);
void trajectory_free(struct trajectory *t);

/* Whether this step is what was recorded: rewards and observations must be equal under CLOCK_VIRTUAL, actions
 * always. False with a line that says what differs. */
bool trajectory_same(const struct trajectory *t, const struct gym_step *s, enum gym_clock clock, char *why,
                     size_t size);
