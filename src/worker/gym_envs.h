/*
 * The environments of a live job (live_gym.c). A call holds an environment while it plays it: another
 * call gets -EBUSY.
 *
 * An ID is JOB-TAG-NUMBER. The tag is made anew by each attempt of the job, so that an ID of an
 * attempt whose worker was lost never names another environment.
 */
#pragma once

#include "vector.h"

#define GYM_SHARED_ENV "openenv" /* the environment of clients that name none */

struct gym_entry {
    uint64_t number;
    struct gym_env *env;
    char episode[256]; /* its ID: the client's, or one of ours */
    unsigned resets;
    bool busy;    /* a call holds it */
    bool closing; /* to be ended when it is released */
};

struct gym_job {
    struct task *task;
    struct gym_arena *arena;
    char prefix[48]; /* of its environments' IDs */
    pthread_mutex_t lock;
    struct gym_entry **entries; /* sorted by number */
    size_t count;
    uint64_t last; /* number */
};

/* What a client calls it. */
void gym_env_name(const struct gym_job *g, const struct gym_entry *e, char name[80]);

/* All of these hold what they give. `shared`: as GYM_SHARED_ENV. -EDQUOT: there are too many;
 * -ENOENT; -EBUSY. gym_env_add takes the environment over if it succeeds. */
int gym_env_new(struct gym_job *g, bool shared, struct gym_entry **ret, struct error *err);
int gym_env_add(struct gym_job *g, bool shared, struct gym_env *env, struct gym_entry **ret,
                struct error *err);
int gym_env_hold(struct gym_job *g, const char *id, struct gym_entry **ret, struct error *err);
void gym_env_release(struct gym_job *g, struct gym_entry *e);

/* Ends an environment once no call holds it. */
int gym_env_close(struct gym_job *g, const char *id, struct error *err);

/* For clients, as new references: the features of the discrete view (NULL: it has none), and the sums
 * of the episode. */
json_t *gym_env_features(const struct gym_entry *e);
json_t *gym_env_state(const struct gym_job *g, const struct gym_entry *e);
