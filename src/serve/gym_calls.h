/*
 * The gym's routes and workers: a user has one live job per task, made by the first reset, which
 * holds all of the user's environments of that task (src/worker/live_gym.c). An environment's ID
 * begins with that of its job; the environment GYM_SHARED_ENV has no job in its name, and is that of
 * the present one.
 */
#pragma once

#include "serve.h"
#include "task.h"

#define GYM_SHARED_ENV "openenv"

/* The task that the first parameter of the path names; else the request is answered. */
bool gym_task(struct request *q, struct task **ret);

/* How the environments of a request are found. */
enum gym_find {
    GYM_FIND, /* in the job that there is: -ENOENT if there is none */
    GYM_MAKE, /* or a new job */
};

/* What a worker answered: a value, a text of JSON that is passed on as it is, or a problem. */
struct gym_answer {
    struct live_result result;
    struct buf text;
};
#define GYM_ANSWER_MAX  (65u << 20) /* more than a worker sends */
#define GYM_ANSWER_INIT ((struct gym_answer){.text = BUF_INIT(GYM_ANSWER_MAX)})
void gym_answer_free(struct gym_answer *a);
#define _cleanup_gym_answer_ _cleanup_(gym_answer_free)

/* The ID of the user's job of the task; `env` (or NULL) is an environment that the request names.
 * `ended` (NULL: none) is a job that turned out to have ended. -ENOENT: there is no environment;
 * -ENXIO: no task. */
int gym_job(struct request *q, const char *task, const char *env, enum gym_find find,
            const char *ended, char ret_job[JOB_ID_LEN + 1], struct error *err);

/* Calls an op of the job of these environments: 0 also with a problem of the worker. The input is
 * taken over. -ENOENT: the environment or its job is gone. timeout_ms -1: none. */
int gym_call(struct request *q, const char *task, const char *env, enum gym_find find,
             const char *op, json_t *input, int timeout_ms, struct gym_answer *ret,
             struct error *err);

/* Answers a request with what gym_call returned and gave. */
void gym_respond(struct request *q, int r, struct gym_answer *a, const struct error *err);
void gym_respond_error(struct request *q, const struct error *err);
