/* Finds the live job of a request of the gym, and calls it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gym_calls.h"
#include "json.h"
#include "banned.h"

#define GYM_TTL_MS   (30 * 60 * 1000) /* of a client that is idle */
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* -ENXIO: there is no such task. */
static int gym_task_find(const char *name, struct task **ret, struct error *err)
{
    size_t n = strlen(name);
    /* a name with a slash would be a path */
    bool valid = n > 0 && n < TASK_NAME_MAX && name[0] != '.' && !name[strspn(name, NAME_LETTERS)];
    int r = valid ? task_find(NULL, name, ret, err) : -ENOENT;
    return r == -ENOENT
               ? error_set(err, ENXIO, "there is no task '%.64s'; GET /v1/gym lists them", name)
               : r;
}

bool gym_task(struct request *q, struct task **ret)
{
    struct error err = {0};
    if (gym_task_find(request_param(q, 0), ret, &err) == 0)
        return true;
    gym_respond_error(q, &err);
    return false;
}

void gym_answer_free(struct gym_answer *a)
{
    live_result_free(&a->result);
    buf_free(&a->text);
}

/* The job in an environment's ID. */
static bool env_job(const char *env, char ret_job[JOB_ID_LEN + 1])
{
    if (strspn(env, "0123456789abcdefghijklmnopqrstuvwxyz") != JOB_ID_LEN || env[JOB_ID_LEN] != '-')
        return false;
    snprintf(ret_job, JOB_ID_LEN + 1, "%.*s", JOB_ID_LEN, env);
    return true;
}

/* Two requests that find no job at the same time make one: the key of both names the job before. */
static int gym_job_submit(struct request *q, const char *task, const char *before,
                          char ret_job[JOB_ID_LEN + 1], struct error *err)
{
    const struct caller *c = request_caller(q);
    char key[TASK_NAME_MAX + JOB_ID_LEN + 16];
    _cleanup_task_ struct task *t = NULL;
    int r = gym_task_find(task, &t, err);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *spec = json_pack("{s:s, s:s+, s:{s:s}}", "task", task, "title",
                                            "gym: ", task, "labels", "gym", task);
    snprintf(key, sizeof key, "gym %s after %s", task, before);
    struct job_submission s = {.user = c->name,
                               .kind = "gym",
                               .spec = spec,
                               .idempotency = key,
                               .ttl_ms = GYM_TTL_MS,
                               .max_live = c->limits.live};
    bool existed;
    return spec ? jobs_submit(request_jobs(q), &s, ret_job, &existed, err)
                : error_errno(err, ENOMEM, "cannot begin the task %s", task);
}

int gym_job(struct request *q, const char *task, const char *env, enum gym_find find,
            const char *ended, char ret_job[JOB_ID_LEN + 1], struct error *err)
{
    _cleanup_json_ json_t *jobs = NULL;
    char label[TASK_NAME_MAX + 8];
    bool more;
    if (env && env_job(env, ret_job))
        return 0;
    if (env && strcmp(env, GYM_SHARED_ENV) != 0)
        return error_set(err, ENOENT, "there is no environment %.80s; reset begins one", env);
    snprintf(label, sizeof label, "gym=%s", task);
    struct job_query query = {
        .user = request_caller(q)->name, .kind = "gym", .label = label, .limit = 1};
    int r = jobs_list(request_jobs(q), &query, &jobs, &more, err);
    if (r < 0)
        return r;
    const json_t *newest = json_array_get(jobs, 0);
    const char *id = json_get_string_or(newest, "id", ""),
               *state = json_get_string_or(newest, "state", "");
    bool alive = strcmp(state, "scheduled") == 0 || strcmp(state, "running") == 0;
    if (alive && !(ended && strcmp(ended, id) == 0)) {
        snprintf(ret_job, JOB_ID_LEN + 1, "%s", id);
        return 0;
    }
    if (find == GYM_FIND)
        return error_set(err, ENOENT, "there is no environment of the task %s; reset begins one",
                         task);
    return gym_job_submit(q, task, id, ret_job, err);
}

static int answer_on_bytes(void *data, const void *bytes, size_t n)
{
    struct gym_answer *a = data;
    return buf_append(&a->text, bytes, n);
}

int gym_call(struct request *q, const char *task, const char *env, enum gym_find find,
             const char *op, json_t *input, int timeout_ms, struct gym_answer *ret,
             struct error *err)
{
    char job[JOB_ID_LEN + 1];
    const struct live_sink sink = {.bytes = answer_on_bytes, .data = ret};
    int r = gym_job(q, task, env, find, NULL, job, err);
    json_object_set_new(input, "task", json_string(task));
    if (r == 0)
        r = live_call(q, job, op, json_incref(input), &sink, timeout_ms, &ret->result, err);
    bool named = env && strcmp(env, GYM_SHARED_ENV) != 0;
    if (r == -EALREADY && find == GYM_MAKE && !named) {
        r = gym_job(q, task, env, find, job, job, err);
        if (r == 0)
            r = live_call(q, job, op, json_incref(input), &sink, timeout_ms, &ret->result, err);
    }
    json_decref(input);
    if (r == -EALREADY && !named)
        return error_set(err, ENOENT,
                         "there is no environment of the task %s (any more); reset "
                         "begins one",
                         task);
    if (named && (r == -EALREADY || r == -ENOENT))
        return error_set(err, ENOENT,
                         "there is no environment %.80s of the task %s (any more): it was closed, "
                         "its client was idle for too long, or its worker was lost; reset without "
                         "env begins a new one",
                         env, task);
    return r;
}

void gym_respond_error(struct request *q, const struct error *err)
{
    if (err->code == ENOENT)
        respond_problem(q, 404, "no-environment", "%s", err->text);
    else if (err->code == ENXIO)
        respond_problem(q, 404, "no-task", "%s", err->text);
    else
        respond_error(q, err);
}

void gym_respond(struct request *q, int r, struct gym_answer *a, const struct error *err)
{
    if (r < 0)
        gym_respond_error(q, err);
    else if (a->result.status < 400 && a->text.len)
        respond_bytes(q, 200, "application/json", a->text.data, a->text.len);
    else
        respond_live(q, &a->result);
}
