/* The gym: /v1/gym. Requests are passed on to the worker that has the environments (gym_calls.h). */
#include <errno.h>
#include <string.h>

#include "gym_calls.h"
#include "json.h"
#include "banned.h"

#define CLOSE_MS 60000

static void gym_tasks_run(struct request *q)
{
    struct task_list names = {0};
    struct error err = {0};
    _cleanup_json_ json_t *list = json_array();
    int r = task_names(NULL, &names, &err);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        _cleanup_task_ struct task *t = NULL;
        r = task_find(NULL, names.items[i], &t, &err);
        if (r == 0)
            json_array_append_new(list, task_describe(t));
    }
    task_list_free(&names);
    if (r < 0)
        respond_error(q, &err);
    else
        respond_json(q, 200, json_pack("{s:O}", "tasks", list));
}

static void gym_task_run(struct request *q)
{
    _cleanup_task_ struct task *t = NULL;
    if (gym_task(q, &t))
        respond_json(q, 200, task_interface(t, t->tests.expected.count));
}

static void gym_pass_on(struct request *q, const char *op, const char *env, enum gym_find find)
{
    _cleanup_gym_answer_ struct gym_answer a = GYM_ANSWER_INIT;
    struct error err = {0};
    json_t *body = request_body(q);
    int r = gym_call(q, request_param(q, 0), env, find, op, body ? json_copy(body) : json_object(),
                     -1, &a, &err);
    gym_respond(q, r, &a, &err);
}

static void gym_reset_run(struct request *q)
{
    gym_pass_on(q, "gym/reset", json_get_string(request_body(q), "env"), GYM_MAKE);
}

/* A list goes where its first environment is; without one, all of its items are resets. */
static void gym_step_run(struct request *q)
{
    const json_t *body = request_body(q), *item;
    const char *env = json_get_string(body, "env");
    bool begins = false;
    size_t i;
    json_array_foreach(json_object_get(body, "steps"), i, item)
    {
        begins |= json_get_bool(item, "reset");
        env = env ? env : json_get_string(item, "env");
    }
    gym_pass_on(q, "gym/step", env, begins && !env ? GYM_MAKE : GYM_FIND);
}

static void gym_fork_run(struct request *q)
{
    gym_pass_on(q, "gym/fork", json_get_string(request_body(q), "env"), GYM_FIND);
}

static void gym_state_run(struct request *q)
{
    _cleanup_gym_answer_ struct gym_answer a = GYM_ANSWER_INIT;
    struct error err = {0};
    const char *env = request_query(q, "env");
    int r = gym_call(q, request_param(q, 0), env, GYM_FIND, "gym/state",
                     json_pack("{s:s*}", "env", env), -1, &a, &err);
    gym_respond(q, r, &a, &err);
}

/* Without an environment: all of the task, whose job then ends. Waits until it has ended, so that a
 * reset that follows makes a new one. */
static void gym_close_run(struct request *q)
{
    const char *task = request_param(q, 0), *env = json_get_string(request_body(q), "env");
    _cleanup_gym_answer_ struct gym_answer a = GYM_ANSWER_INIT;
    struct error err = {0};
    char job[JOB_ID_LEN + 1];
    _cleanup_json_ json_t *ended = NULL;
    int r;
    if (env) {
        r = gym_call(q, task, env, GYM_FIND, "gym/close", json_pack("{s:s}", "env", env), -1, &a,
                     &err);
        if (r == 0 && a.result.status >= 400) {
            respond_live(q, &a.result);
            return;
        }
    } else {
        r = gym_job(q, task, NULL, GYM_FIND, NULL, job, &err);
        if (r == 0)
            r = jobs_cancel(request_jobs(q), request_caller(q)->name, job, &err);
        if (r == 0)
            r = live_wait_end(q, job, CLOSE_MS, &ended, &err);
    }
    if (r < 0 && r != -EALREADY)
        gym_respond_error(q, &err);
    else
        respond_empty(q, 204);
}

#define TASKS_OUTPUT                                                                               \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["tasks"],                                                                    \
        "properties" : {                                                                           \
            "tasks" : {                                                                            \
                "type" : "array",                                                                  \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [ "name", "instruction", "max_steps", "digest", "patches" ],      \
                    "properties" : {                                                               \
                        "name" : {"type" : "string"},                                              \
                        "title" : {"type" : [ "string", "null" ]},                                 \
                        "language" : {"type" : [ "string", "null" ]},                              \
                        "instruction" : {"type" : [ "string", "null" ]},                           \
                        "max_steps" : {"type" : "integer"},                                        \
                        "call_price" : {"type" : "number"},                                        \
                        "second_price" : {"type" : "number"},                                      \
                        "seed" : {"type" : "integer"},                                             \
                        "digest" : {"type" : "string"},                                            \
                        "patches" : {"type" : "integer"}                                           \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define TASK_OUTPUT                                                                                \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" :                                                                               \
            [ "name", "instruction", "max_steps", "digest", "actions", "features", "tools" ],      \
        "properties" : {                                                                           \
            "name" : {"type" : "string"},                                                          \
            "title" : {"type" : [ "string", "null" ]},                                             \
            "language" : {"type" : [ "string", "null" ]},                                          \
            "instruction" : {"type" : [ "string", "null" ]},                                       \
            "max_steps" : {"type" : "integer"},                                                    \
            "call_price" : {"type" : "number"},                                                    \
            "second_price" : {"type" : "number"},                                                  \
            "seed" : {"type" : "integer"},                                                         \
            "digest" : {"type" : "string"},                                                        \
            "patches" : {"type" : "integer"},                                                      \
            "expected" : {                                                                         \
                "type" : "integer",                                                                \
                "description" : "How many tests count; 0: they are found when it is prepared."     \
            },                                                                                     \
            "actions" : {                                                                          \
                "type" : "array",                                                                  \
                "description" : "What the numbers of the discrete view mean.",                     \
                "items" : {"type" : "string"}                                                      \
            },                                                                                     \
            "calls" : {                                                                            \
                "type" : "array",                                                                  \
                "description" : "The same actions as calls of tools.",                             \
                "items" : {"type" : "object"}                                                      \
            },                                                                                     \
            "features" : {                                                                         \
                "type" : "array",                                                                  \
                "description" : "How many values each feature has.",                               \
                "items" : {"type" : "integer"}                                                     \
            },                                                                                     \
            "tools" : {"type" : "array", "items" : {"type" : "string"}}                            \
        }                                                                                          \
    })
#define RESET_INPUT                                                                                \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "additionalProperties" : false,                                                            \
        "properties" : {                                                                           \
            "env" : {                                                                              \
                "type" : "string",                                                                 \
                "maxLength" : 80,                                                                  \
                "description" : "An environment; a new one without it."                            \
            },                                                                                     \
            "seed" : {"type" : "integer", "minimum" : 0},                                          \
            "options" : {                                                                          \
                "type" : "object",                                                                 \
                "additionalProperties" : false,                                                    \
                "properties" : {"clock" : {"enum" : [ "wall", "virtual" ]}}                        \
            }                                                                                      \
        }                                                                                          \
    })
#define STEP_INPUT                                                                                 \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "description" :                                                                            \
            "A call of a tool with its input, or an action of the discrete view by its number.",   \
        "properties" : {                                                                           \
            "env" : {"type" : "string", "maxLength" : 80},                                         \
            "tool" : {"type" : "string", "maxLength" : 128},                                       \
            "action" : {"type" : [ "integer", "object" ]},                                         \
            "steps" : {                                                                            \
                "type" : "array",                                                                  \
                "minItems" : 1,                                                                    \
                "maxItems" : 1024,                                                                 \
                "description" : "In different environments; answered as results.",                 \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "properties" : {                                                               \
                        "env" : {"type" : "string", "maxLength" : 80},                             \
                        "tool" : {"type" : "string", "maxLength" : 128},                           \
                        "action" : {"type" : [ "integer", "object" ]},                             \
                        "reset" : {"type" : "boolean"},                                            \
                        "seed" : {"type" : "integer", "minimum" : 0},                              \
                        "options" : {                                                              \
                            "type" : "object",                                                     \
                            "properties" : {"clock" : {"enum" : [ "wall", "virtual" ]}}            \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define STEP_OUTPUT                                                                                \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "properties" : {                                                                           \
            "env" : {"type" : "string"},                                                           \
            "step" : {"type" : "integer", "description" : "0: the reset."},                        \
            "observation" : {                                                                      \
                "type" : "object",                                                                 \
                "required" : [ "text", "failed" ],                                                 \
                "properties" :                                                                     \
                    {"text" : {"type" : "string"}, "failed" : {"type" : "boolean"}, "data" : {}}   \
            },                                                                                     \
            "reward" : {"type" : "number"},                                                        \
            "pass_rate" : {"type" : [ "number", "null" ]},                                         \
            "terminated" : {"type" : "boolean"},                                                   \
            "truncated" : {"type" : "boolean"},                                                    \
            "info" : {"type" : "object"},                                                          \
            "features" : {"type" : "array", "items" : {"type" : "integer"}},                       \
            "results" : {                                                                          \
                "type" : "array",                                                                  \
                "description" : "Of a list: each as above, or with error.",                        \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "properties" : {                                                               \
                        "error" : {                                                                \
                            "type" : "object",                                                     \
                            "required" : [ "status", "type", "detail" ],                           \
                            "properties" : {                                                       \
                                "status" : {"type" : "integer"},                                   \
                                "type" : {"type" : "string"},                                      \
                                "detail" : {"type" : "string"}                                     \
                            }                                                                      \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define ENV_INPUT                                                                                  \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "additionalProperties" : false,                                                            \
        "required" : ["env"],                                                                      \
        "properties" : {"env" : {"type" : "string", "maxLength" : 80}}                             \
    })
#define CLOSE_INPUT                                                                                \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "additionalProperties" : false,                                                            \
        "properties" : {                                                                           \
            "env" :                                                                                \
                {"type" : "string", "maxLength" : 80, "description" : "None: all of the task."}    \
        }                                                                                          \
    })
#define ENV_QUERY                                                                                  \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "properties" : {"env" : {"type" : "string", "description" : "None: a list of them."}}      \
    })
#define STATE_OUTPUT                                                                               \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["task"],                                                                     \
        "properties" : {                                                                           \
            "task" : {"type" : "string"},                                                          \
            "env" : {"type" : "string"},                                                           \
            "episode_id" : {"type" : "string"},                                                    \
            "clock" : {"enum" : [ "wall", "virtual" ]},                                            \
            "seed" : {"type" : "integer"},                                                         \
            "calls" : {"type" : "integer"},                                                        \
            "seconds" : {"type" : "number"},                                                       \
            "pass_rate" : {"type" : [ "number", "null" ]},                                         \
            "return" : {"type" : "number"},                                                        \
            "over" : {"type" : "boolean"},                                                         \
            "features" : {"type" : "array", "items" : {"type" : "integer"}},                       \
            "environments" : {"type" : "array", "items" : {"type" : "string"}},                    \
            "warm" : {"type" : "boolean"},                                                         \
            "counts" : {"type" : "object", "additionalProperties" : {"type" : "integer"}}          \
        }                                                                                          \
    })

const struct route ROUTES_GYM[] = {
    {"GET", "/v1/gym", "gym_tasks", "gym", "List the tasks", ACCESS_READ, 0, 200,
     .output = TASKS_OUTPUT, .run = gym_tasks_run},
    {"GET", "/v1/gym/{task}", "gym_task", "gym", "Describe a task and how it is played",
     ACCESS_READ, 0, 200, .output = TASK_OUTPUT, .run = gym_task_run},
    {"POST", "/v1/gym/{task}/reset", "gym_reset", "gym", "Begin episodes", ACCESS_USER, 0, 200,
     .input = RESET_INPUT, .output = STEP_OUTPUT, .run = gym_reset_run},
    {"POST", "/v1/gym/{task}/step", "gym_step", "gym", "Take steps in episodes", ACCESS_USER, 0,
     200, .input = STEP_INPUT, .output = STEP_OUTPUT, .run = gym_step_run},
    {"POST", "/v1/gym/{task}/fork", "gym_fork", "gym", "Copy an environment with its state",
     ACCESS_USER, 0, 200, .input = ENV_INPUT, .output = STATE_OUTPUT, .run = gym_fork_run},
    {"POST", "/v1/gym/{task}/close", "gym_close", "gym", "End an environment, or all of a task",
     ACCESS_USER, 0, 204, .input = CLOSE_INPUT, .run = gym_close_run},
    {"GET", "/v1/gym/{task}/state", "gym_state", "gym",
     "Read the sums of an episode, or list the environments", ACCESS_READ, 0, 200,
     .query = ENV_QUERY, .output = STATE_OUTPUT, .run = gym_state_run},
    {0}};
