/*
 * The gym in the shape that clients of OpenEnv expect: below /v1/gym/{task}/openenv are the routes
 * of an OpenEnv server for that one task.
 *
 * Requests without a connection share one environment per user and task. A WebSocket has an
 * environment of its own, which ends with it: a call of the worker stays open as long. An action is
 * {"tool": NAME, …input} or {"action": N}; null members and `metadata`, which typed clients send, do
 * not count.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "gym_calls.h"
#include "json.h"
#include "tool.h"
#include "banned.h"

/* --- shapes --- */

/* {"observation", "reward", "done"} of a step's answer; a reset has no reward. */
static json_t *openenv_result(const json_t *step, bool reset)
{
    static const char *const MEMBERS[] = {"pass_rate", "terminated", "truncated", "info",
                                          "features"};
    json_t *shown = json_copy(json_object_get(step, "observation")), *value;
    for (size_t i = 0; i < ARRAY_SIZE(MEMBERS); i++)
        if ((value = json_object_get(step, MEMBERS[i])))
            json_object_set(shown, MEMBERS[i], value);
    bool done = json_get_bool(step, "terminated") || json_get_bool(step, "truncated");
    return json_pack("{s:o, s:O?, s:b}", "observation", shown, "reward",
                     reset ? NULL : json_object_get(step, "reward"), "done", done);
}

/* {"episode_id", "step_count", …}; `state` NULL: there is no environment yet. */
static json_t *openenv_state(const json_t *state)
{
    if (!state)
        return json_pack("{s:n, s:i}", "episode_id", "step_count", 0);
    json_t *shown = json_copy((json_t *)state);
    json_object_set(shown, "step_count", json_object_get(state, "calls"));
    json_object_del(shown, "calls");
    return shown;
}

/* A reset's input for the worker. */
static json_t *openenv_reset_input(const char *env, const json_t *given)
{
    const json_t *seed = json_object_get(given, "seed"), *clock = json_object_get(given, "clock");
    const char *episode = json_get_string(given, "episode_id");
    return json_pack("{s:s, s:O*, s:s*, s:{s:O*}}", "env", env, "seed",
                     json_is_integer(seed) ? seed : NULL, "episode_id", episode, "options", "clock",
                     json_is_string(clock) ? clock : NULL);
}

/* A step's input for the worker. */
static json_t *openenv_step_input(const char *env, const json_t *given)
{
    json_t *action = json_object(), *value;
    const char *name;
    json_object_foreach((json_t *)given, name, value)
    {
        if (!json_is_null(value) && strcmp(name, "metadata") != 0)
            json_object_set(action, name, value);
    }
    json_t *number = json_object_get(action, "tool") ? NULL : json_object_get(action, "action");
    json_t *input = json_pack("{s:s, s:O}", "env", env, "action", number ? number : action);
    json_decref(action);
    return input;
}

/* JSON Schemas of a task's actions, observations and state. */
static json_t *openenv_schema(const struct task *t)
{
    json_t *tools = json_array();
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            json_array_append_new(tools, json_string(TOOLS[i]->name));
    json_array_append_new(tools, json_string("submit"));
    json_int_t last = (json_int_t)task_actions(t) - 1;
    return json_pack(
        "{s:{s:s, s:s, s:{s:{s:s, s:o}, s:{s:s, s:i, s:I}, s:{s:s}}, s:b},"
        " s:{s:s, s:s, s:{s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}, s:{s:[s,s]}, s:{s:s}, s:{s:s},"
        " s:{s:s, s:{s:s}}}},"
        " s:{s:s, s:s, s:{s:{s:[s,s]}, s:{s:s, s:i}, s:{s:s}, s:{s:s}, s:{s:s}}}}",
        "action", "title", "Action", "type", "object", "properties", "tool", "type", "string",
        "enum", tools, "action", "type", "integer", "minimum", 0, "maximum", last < 0 ? 0 : last,
        "metadata", "type", "object", "additionalProperties", 1, /* */
        "observation", "title", "Observation", "type", "object", "properties", "text", "type",
        "string", "failed", "type", "boolean", "data", "title", "Data", "info", "type", "object",
        "pass_rate", "type", "number", "null", "terminated", "type", "boolean", "truncated", "type",
        "boolean", "features", "type", "array", "items", "type", "integer", /* */
        "state", "title", "State", "type", "object", "properties", "episode_id", "type", "string",
        "null", "step_count", "type", "integer", "minimum", 0, "task", "type", "string", "seed",
        "type", "integer", "return", "type", "number");
}

/* --- routes --- */

/* Calls an op on an environment: 0 with the worker's value, or its problem in `a`. */
static int openenv_call(struct request *q, const char *env, const char *op, json_t *input,
                        int timeout_ms, struct gym_answer *a, struct error *err)
{
    int r =
        gym_call(q, request_param(q, 0), env, strcmp(op, "gym/reset") == 0 ? GYM_MAKE : GYM_FIND,
                 op, input, timeout_ms, a, err);
    if (r == 0 && a->result.status < 400 && a->text.len) {
        json_decref(a->result.body);
        a->result.body = json_loadb((const char *)a->text.data, a->text.len, 0, NULL);
        if (!a->result.body)
            return error_set(err, EPROTO, "the worker's answer is not JSON");
    }
    return r;
}

static void openenv_respond(struct request *q, int r, struct gym_answer *a, json_t *shown,
                            const struct error *err)
{
    if (r < 0)
        gym_respond_error(q, err);
    else if (a->result.status >= 400)
        respond_live(q, &a->result);
    else {
        respond_json(q, 200, shown);
        return;
    }
    json_decref(shown);
}

static void openenv_reset_run(struct request *q)
{
    _cleanup_gym_answer_ struct gym_answer a = GYM_ANSWER_INIT;
    struct error err = {0};
    int r = openenv_call(q, GYM_SHARED_ENV, "gym/reset",
                         openenv_reset_input(GYM_SHARED_ENV, request_body(q)), -1, &a, &err);
    openenv_respond(q, r, &a, r == 0 ? openenv_result(a.result.body, true) : NULL, &err);
}

static void openenv_step_run(struct request *q)
{
    _cleanup_gym_answer_ struct gym_answer a = GYM_ANSWER_INIT;
    struct error err = {0};
    const json_t *body = request_body(q);
    double seconds = json_number_value(json_object_get(body, "timeout_s"));
    int timeout_ms = seconds > 0 && seconds < 86400 ? (int)(seconds * 1000) : -1;
    int r = openenv_call(q, GYM_SHARED_ENV, "gym/step",
                         openenv_step_input(GYM_SHARED_ENV, json_object_get(body, "action")),
                         timeout_ms, &a, &err);
    openenv_respond(q, r, &a, r == 0 ? openenv_result(a.result.body, false) : NULL, &err);
}

static void openenv_state_run(struct request *q)
{
    _cleanup_gym_answer_ struct gym_answer a = GYM_ANSWER_INIT;
    struct error err = {0};
    int r = openenv_call(q, GYM_SHARED_ENV, "gym/state", json_pack("{s:s}", "env", GYM_SHARED_ENV),
                         -1, &a, &err);
    if (r == -ENOENT || (r == 0 && a.result.status == 404))
        respond_json(q, 200, openenv_state(NULL));
    else
        openenv_respond(q, r, &a, r == 0 ? openenv_state(a.result.body) : NULL, &err);
}

static void openenv_health_run(struct request *q)
{
    respond_json(q, 200, json_pack("{s:s}", "status", "healthy"));
}

static void openenv_metadata_run(struct request *q)
{
    _cleanup_task_ struct task *t = NULL;
    if (gym_task(q, &t))
        respond_json(q, 200,
                     json_pack("{s:s, s:s, s:s?, s:s, s:n, s:n}", "name", t->name, "description",
                               t->title ? t->title : t->name, "readme_content", t->instruction,
                               "version", HUTCH_VERSION, "author", "documentation_url"));
}

static void openenv_schema_run(struct request *q)
{
    _cleanup_task_ struct task *t = NULL;
    if (gym_task(q, &t))
        respond_json(q, 200, openenv_schema(t));
}

/* What OpenEnv's clients and validator look up; /openapi.json of the server has the rest. */
static void openenv_openapi_run(struct request *q)
{
    static const char TEXT[] = SCHEMA({
        "openapi" : "3.1.0",
        "info" : {"title" : "OpenEnv environment", "version" : "1.0.0"},
        "paths" : {
            "/reset" :
                {"post" : {"responses" : {"200" : {"description" : "The first observation"}}}},
            "/step" : {"post" : {"responses" : {"200" : {"description" : "The next observation"}}}},
            "/state" : {"get" : {"responses" : {"200" : {"description" : "The episode"}}}},
            "/schema" : {"get" : {"responses" : {"200" : {"description" : "JSON Schemas"}}}},
            "/metadata" : {"get" : {"responses" : {"200" : {"description" : "The task"}}}},
            "/health" : {"get" : {"responses" : {"200" : {"description" : "It is up"}}}}
        }
    });
    respond_bytes(q, 200, "application/json", TEXT, sizeof TEXT - 1);
}

/* Tools of an episode are actions: MCP has no episode. */
static void openenv_mcp_run(struct request *q)
{
    const json_t *id = json_object_get(request_body(q), "id");
    respond_json(
        q, 200,
        json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code", -32601,
                  "message",
                  "this environment has no MCP methods: its tools are actions of step; the "
                  "server's MCP endpoint is /mcp"));
}

/* --- WebSocket --- */

struct openenv_socket {
    struct request *q;
    struct live_stream *stream; /* the call that the environment lives as long as; NULL: none */
    char env[80];
};

static int socket_on_event(void *data, const json_t *event)
{
    struct openenv_socket *s = data;
    snprintf(s->env, sizeof s->env, "%s", json_get_string_or(event, "env", ""));
    return 0;
}

static void socket_env_end(struct openenv_socket *s)
{
    s->stream = live_stream_close(s->stream);
    s->env[0] = 0;
}

/* Makes the environment of the connection: 0, a problem's status, or a negative errno. */
static int socket_env_begin(struct openenv_socket *s, struct error *err)
{
    const struct live_sink sink = {.event = socket_on_event, .data = s};
    const char *task = request_param(s->q, 0);
    _cleanup_live_result_ struct live_result result = {0};
    char job[JOB_ID_LEN + 1];
    int r = gym_job(s->q, task, NULL, GYM_MAKE, NULL, job, err);
    for (int turn = 0; r == 0 && turn < 2 && !s->stream; turn++) {
        r = live_stream_open(s->q, job, "gym/session", json_object(), &sink, &s->stream, err);
        if (r == -EALREADY && turn == 0)
            r = gym_job(s->q, task, NULL, GYM_MAKE, job, job, err);
    }
    while (r == 0 && !s->env[0]) {
        struct pollfd p = {.fd = live_stream_fd(s->stream), .events = POLLIN};
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            r = error_errno(err, errno, "cannot wait for the environment");
        else
            r = live_stream_next(s->stream, &result, err);
    }
    if (r == 1) /* it ended before it began */
        r = error_set(err, result.status == 429 ? EBUSY : EIO, "%s",
                      json_get_string_or(result.body, "detail", "the environment has ended"));
    if (r < 0)
        socket_env_end(s);
    return r;
}

static json_t *socket_error(const char *code, const char *text)
{
    return json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "data", "message", text, "code", code);
}

/* Calls an op on the environment of the connection: the message that answers, a new reference. */
static json_t *socket_call(struct openenv_socket *s, const char *op, json_t *input, bool *ret_gone)
{
    _cleanup_gym_answer_ struct gym_answer a = GYM_ANSWER_INIT;
    struct error err = {0};
    int r = openenv_call(s->q, s->env, op, input, -1, &a, &err);
    bool state = strcmp(op, "gym/state") == 0;
    *ret_gone = r == -ENOENT || (r == 0 && a.result.status == 404);
    if (r < 0)
        return socket_error("EXECUTION_ERROR", err.text);
    if (a.result.status >= 400)
        return socket_error(a.result.status == 422 ? "VALIDATION_ERROR" : "EXECUTION_ERROR",
                            json_get_string_or(a.result.body, "detail", "the environment failed"));
    json_t *shown = state ? openenv_state(a.result.body)
                          : openenv_result(a.result.body, strcmp(op, "gym/reset") == 0);
    return json_pack("{s:s, s:o}", "type", state ? "state" : "observation", "data", shown);
}

static json_t *socket_reset(struct openenv_socket *s, const json_t *data)
{
    json_t *answer = NULL;
    bool gone = true;
    for (int turn = 0; gone && turn < 2; turn++) {
        struct error err = {0};
        json_decref(answer);
        if (!s->stream && socket_env_begin(s, &err) < 0)
            return socket_error(err.code == EBUSY ? "CAPACITY_REACHED" : "SESSION_ERROR", err.text);
        answer = socket_call(s, "gym/reset", openenv_reset_input(s->env, data), &gone);
        if (gone) /* its worker was lost, or it was idle for too long: a new one can begin */
            socket_env_end(s);
    }
    return answer;
}

/* The answer to a message, a new reference; NULL: the client closes. */
static json_t *socket_answer(struct openenv_socket *s, const struct buf *text)
{
    json_error_t at;
    bool gone;
    _cleanup_json_ json_t *message =
        json_loadb((const char *)text->data, text->len, JSON_REJECT_DUPLICATES, &at);
    if (!message)
        return socket_error("INVALID_JSON", at.text);
    const char *type = json_get_string_or(message, "type", "");
    const json_t *data = json_object_get(message, "data");
    if (strcmp(type, "close") == 0)
        return NULL;
    if (strcmp(type, "reset") == 0)
        return socket_reset(s, data);
    if (strcmp(type, "state") == 0)
        return s->env[0] ? socket_call(s, "gym/state", json_pack("{s:s}", "env", s->env), &gone)
                         : json_pack("{s:s, s:o}", "type", "state", "data", openenv_state(NULL));
    if (strcmp(type, "step") != 0)
        return socket_error("UNKNOWN_TYPE", "type: must be reset, step, state or close");
    if (!json_is_object(data))
        return socket_error("VALIDATION_ERROR", "data: must be an object, the action");
    if (!s->env[0])
        return socket_error("EXECUTION_ERROR", "there is no episode: reset first");
    return socket_call(s, "gym/step", openenv_step_input(s->env, data), &gone);
}

static void openenv_socket_run(struct request *q)
{
    _cleanup_task_ struct task *t = NULL;
    _cleanup_buf_ struct buf text = BUF_INIT(16u << 20);
    struct openenv_socket s = {.q = q};
    bool binary;
    if (!gym_task(q, &t) || websocket_accept(q) < 0)
        return;
    for (;;) {
        int r = websocket_receive(q, &text, &binary, -1, -1);
        if (r < 0)
            break;
        if (r == 0)
            continue;
        _cleanup_json_ json_t *answer = socket_answer(&s, &text);
        _cleanup_free_ char *line = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
        if (!line || websocket_send(q, line, strlen(line), false) < 0)
            break;
    }
    socket_env_end(&s);
    websocket_close(q, 1000, "");
}

#define RESET_INPUT                                                                                \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "properties" : {                                                                           \
            "seed" : {"type" : [ "integer", "null" ], "minimum" : 0},                              \
            "episode_id" : {"type" : [ "string", "null" ], "maxLength" : 255},                     \
            "clock" : {"enum" : [ "wall", "virtual" ]}                                             \
        }                                                                                          \
    })
#define STEP_INPUT                                                                                 \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["action"],                                                                   \
        "properties" : {                                                                           \
            "action" : {"type" : "object"},                                                        \
            "timeout_s" : {"type" : [ "number", "null" ], "exclusiveMinimum" : 0},                 \
            "request_id" : {"type" : [ "string", "null" ], "maxLength" : 255}                      \
        }                                                                                          \
    })
#define RESULT_OUTPUT                                                                              \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "additionalProperties" : false,                                                            \
        "required" : [ "observation", "reward", "done" ],                                          \
        "properties" : {                                                                           \
            "observation" : {"type" : "object"},                                                   \
            "reward" : {"type" : [ "number", "null" ]},                                            \
            "done" : {"type" : "boolean"}                                                          \
        }                                                                                          \
    })
#define STATE_OUTPUT                                                                               \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : [ "episode_id", "step_count" ],                                               \
        "properties" : {                                                                           \
            "episode_id" : {"type" : [ "string", "null" ]},                                        \
            "step_count" : {"type" : "integer", "minimum" : 0}                                     \
        }                                                                                          \
    })
#define HEALTH_OUTPUT                                                                              \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["status"],                                                                   \
        "properties" : {"status" : {"enum" : [ "healthy", "unhealthy", "degraded" ]}}              \
    })
#define METADATA_OUTPUT                                                                            \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : [ "name", "description" ],                                                    \
        "properties" : {                                                                           \
            "name" : {"type" : "string"},                                                          \
            "description" : {"type" : "string"},                                                   \
            "readme_content" : {"type" : [ "string", "null" ]},                                    \
            "version" : {"type" : [ "string", "null" ]},                                           \
            "author" : {"type" : [ "string", "null" ]},                                            \
            "documentation_url" : {"type" : [ "string", "null" ]}                                  \
        }                                                                                          \
    })
#define SCHEMA_OUTPUT                                                                              \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : [ "action", "observation", "state" ],                                         \
        "properties" : {                                                                           \
            "action" : {"type" : "object"},                                                        \
            "observation" : {"type" : "object"},                                                   \
            "state" : {"type" : "object"}                                                          \
        }                                                                                          \
    })
#define ANY_OBJECT SCHEMA({"type" : "object"})

#define AT "/v1/gym/{task}/openenv"
const struct route ROUTES_OPENENV[] = {
    {"POST", AT "/reset", "openenv_reset", "openenv", "Begin an episode", ACCESS_USER, 0, 200,
     .input = RESET_INPUT, .output = RESULT_OUTPUT, .run = openenv_reset_run},
    {"POST", AT "/step", "openenv_step", "openenv", "Take a step", ACCESS_USER, 0, 200,
     .input = STEP_INPUT, .output = RESULT_OUTPUT, .run = openenv_step_run},
    {"GET", AT "/state", "openenv_state", "openenv", "Read the state of the episode", ACCESS_READ,
     0, 200, .output = STATE_OUTPUT, .run = openenv_state_run},
    {"GET", AT "/health", "openenv_health", "openenv", "Is the server up?", ACCESS_PUBLIC,
     ROUTE_INLINE, 200, .output = HEALTH_OUTPUT, .run = openenv_health_run},
    {"GET", AT "/metadata", "openenv_metadata", "openenv", "Describe the task", ACCESS_READ, 0, 200,
     .output = METADATA_OUTPUT, .run = openenv_metadata_run},
    {"GET", AT "/schema", "openenv_schema", "openenv",
     "Read the schemas of actions, observations and state", ACCESS_READ, 0, 200,
     .output = SCHEMA_OUTPUT, .run = openenv_schema_run},
    {"GET", AT "/openapi.json", "openenv_openapi", "openenv", "Describe these routes",
     ACCESS_PUBLIC, ROUTE_INLINE, 200, .output = ANY_OBJECT, .run = openenv_openapi_run},
    {"POST", AT "/mcp", "openenv_mcp", "openenv", "Answers that there are no MCP methods",
     ACCESS_USER, 0, 200, .input = ANY_OBJECT, .output = ANY_OBJECT, .run = openenv_mcp_run},
    {"GET", AT "/ws", "openenv_ws", "openenv", "Play in an environment of this connection",
     ACCESS_USER, ROUTE_WEBSOCKET, 101, .run = openenv_socket_run},
    {0}};
