/*
 * Trajectories: episodes as JSON lines. The first line says what is needed to play it again
 * ({"task", "digest", "seed", "clock", …}), then a line per step (contract: step, action,
 * observation, reward, pass_rate, terminated, truncated; and times), then the sums.
 */
#pragma once

#include "env.h"

json_t *trajectory_head(const struct gym_env *e, const char *agent);
json_t *trajectory_step(const struct gym_step *s);
json_t *trajectory_end(const struct gym_env *e);

/* One of these as a line, without its end: compact, members sorted, so that the same gives the same
 * bytes. The caller frees it; NULL without memory. */
char *trajectory_line(const json_t *o);

struct trajectory {
    json_t *head;
    json_t *steps; /* array: element N is step N, reset's the first */
    json_t *end;   /* or NULL: it was cut */
};
#define TRAJECTORY_BYTES_MAX  (256u << 20)
#define TRAJECTORY_LINE_MAX   (16u << 20)
#define TRAJECTORY_STEPS_MAX  100000u
#define TRAJECTORY_VALUES_MAX 1000000u /* JSON values in a line */
int trajectory_load(const char *path, struct trajectory *ret, struct error *err);
int trajectory_parse(const char *text, size_t n, const char *name, struct trajectory *ret,
                     struct error *err);
void trajectory_free(struct trajectory *t);

/* Is this step as recorded? Actions must be equal, and under CLOCK_VIRTUAL observations and
 * rewards, too. False with a line that says what differs. */
bool trajectory_same(const struct trajectory *t, const struct gym_step *s, enum gym_clock clock,
                     char *why, size_t size);
