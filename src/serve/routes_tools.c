/*
 * Tools over HTTP: /v1/tools, and the short forms /shell, /code and /fs. A tool is called in a box
 * that the query names, or in a fresh one: then the call is a job of one step, which ends with its
 * client.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "job_spec.h"
#include "json.h"
#include "serve.h"
#include "tool.h"
#include "banned.h"

/* --- calls --- */

/* The first step's result, with the job's ID; or the problem. */
static void tool_answer_job(struct request *q, const char *id, const json_t *job)
{
    json_t *result = json_deep_copy(json_array_get(json_object_get(job, "result"), 0));
    if (!result) {
        respond_problem(q, 500, "job-failed", "the job %s ended without a result: %s", id,
                        json_get_string_or(job, "error", "cancelled"));
        return;
    }
    json_object_set_new(result, "job", json_string(id));
    respond_json(q, 200, result);
}

static void tool_call_fresh(struct request *q, const json_t *step)
{
    const struct caller *c = request_caller(q);
    struct error err = {0};
    _cleanup_json_ json_t *submission = json_pack("{s:[O]}", "steps", step), *spec = NULL,
                          *job = NULL;
    struct job_submission s = {
        .user = c->name, .max_live = c->limits.live, .max_stored = c->limits.stored};
    char id[JOB_ID_LEN + 1];
    bool existed;
    if (job_spec_check(submission, c->role == ROLE_ADMIN, &spec, &s.kind, &err) < 0) {
        respond_problem(q, 422, "invalid-input", "%s", err.text);
        return;
    }
    s.spec = spec;
    int r = jobs_submit(request_jobs(q), &s, id, &existed, &err);
    if (r == 0)
        r = live_wait_end(q, id, -1, &job, &err);
    if (r == -ECANCELED)
        jobs_cancel(request_jobs(q), NULL, id, NULL);
    if (r < 0)
        respond_error(q, &err);
    else
        tool_answer_job(q, id, job);
}

static void tool_call_in_box(struct request *q, const char *box, json_t *step)
{
    struct error err = {0};
    struct live_result result;
    if (live_call(q, box, "box/tool", json_incref(step), NULL, -1, &result, &err) < 0)
        respond_error(q, &err);
    else
        respond_live(q, &result);
}

/* Calls the tool with the members of the body. */
static void tool_respond(struct request *q, const char *name, json_t *input)
{
    const char *box = request_query(q, "box");
    _cleanup_json_ json_t *step = input ? json_copy(input) : json_object();
    json_object_set_new(step, "tool", json_string(name));
    if (box)
        tool_call_in_box(q, box, step);
    else
        tool_call_fresh(q, step);
}

static void tool_call_run(struct request *q)
{
    tool_respond(q, request_param(q, 0), request_body(q));
}

/* --- short forms --- */

static void shell_run(struct request *q)
{
    tool_respond(q, "bash", request_body(q));
}

static void code_run(struct request *q)
{
    _cleanup_json_ json_t *input = json_copy(request_body(q));
    const char *language = json_get_string_or(input, "language", "python");
    bool typescript = strcmp(language, "typescript") == 0;
    json_object_del(input, "language");
    tool_respond(q, typescript ? "typescript" : "python", input);
}

static void fs_run(struct request *q)
{
    static const struct {
        const char *action, *tool;
    } ACTIONS[] = {{"read", "read_file"},
                   {"write", "write_file"},
                   {"edit", "edit_file"},
                   {"list", "list_files"},
                   {"search", "search_files"}};
    _cleanup_json_ json_t *input = json_copy(request_body(q));
    const char *action = json_get_string_or(request_body(q), "action", "");
    const char *tool = "";
    for (size_t i = 0; i < ARRAY_SIZE(ACTIONS); i++)
        if (strcmp(ACTIONS[i].action, action) == 0)
            tool = ACTIONS[i].tool;
    json_object_del(input, "action");
    tool_respond(q, tool, input);
}

/* --- the list --- */

static void tool_list_run(struct request *q)
{
    json_t *tools = json_array();
    for (size_t i = 0; TOOLS[i]; i++)
        if (!(TOOLS[i]->flags & TOOL_HOST))
            json_array_append_new(tools, tool_describe(TOOLS[i]));
    respond_json(q, 200, json_pack("{s:o}", "tools", tools));
}

/* clang-format off */
#define BOX_QUERY \
    SCHEMA({"type": "object", "additionalProperties": false, "properties": { \
        "box": {"type": "string", "description": "The ID of a box. Default: a fresh one."}}})
#define TOOL_OUTPUT \
    SCHEMA({"type": "object", "required": ["failed", "text"], "properties": { \
        "tool": {"type": "string"}, "failed": {"type": "boolean"}, "text": {"type": "string"}, \
        "data": {"type": ["object", "null"]}, "seconds": {"type": "number"}, \
        "job": {"type": "string", "description": "The job that ran it, without `box`."}}})

const struct route ROUTES_TOOLS[] = {
    {"GET", "/v1/tools", "tool_list", "tools", "List the tools with their schemas", ACCESS_READ, 0,
     200, .output = SCHEMA({"type": "object", "required": ["tools"], "properties": {
         "tools": {"type": "array", "items": {"type": "object",
             "required": ["name", "description", "input_schema"], "properties": {
             "name": {"type": "string"}, "title": {"type": "string"},
             "description": {"type": "string"}, "input_schema": {"type": "object"},
             "output_schema": {"type": ["object", "null"]}, "reads_only": {"type": "boolean"},
             "changes_files": {"type": "boolean"}, "runs_code": {"type": "boolean"},
             "cacheable": {"type": "boolean"}, "host_side": {"type": "boolean"}}}}}}),
     .run = tool_list_run},
    {"POST", "/v1/tools/{name}", "tool_call", "tools",
     "Call a tool in a box; also shell, python and typescript. The body is its input", ACCESS_USER,
     ROUTE_AUDIT, 200, .query = BOX_QUERY, .input = SCHEMA({"type": "object"}),
     .output = TOOL_OUTPUT, .run = tool_call_run},
    {"POST", "/shell", "shell", "short forms", "Run a shell command: the tool bash", ACCESS_USER,
     ROUTE_AUDIT, 200, .query = BOX_QUERY,
     .input = SCHEMA({"type": "object", "required": ["command"], "properties": {
         "command": {"type": "string"}}}),
     .output = TOOL_OUTPUT, .run = shell_run},
    {"POST", "/code", "code", "short forms", "Run Python or TypeScript", ACCESS_USER, ROUTE_AUDIT,
     200, .query = BOX_QUERY,
     .input = SCHEMA({"type": "object", "required": ["code"], "additionalProperties": false,
         "properties": {"code": {"type": "string", "minLength": 1},
         "language": {"type": "string", "enum": ["python", "typescript"],
             "description": "Default: python."},
         "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400}}}),
     .output = TOOL_OUTPUT, .run = code_run},
    {"POST", "/fs", "fs", "short forms", "Read, write, edit, list or search files: the file tools",
     ACCESS_USER, ROUTE_AUDIT, 200, .query = BOX_QUERY,
     .input = SCHEMA({"type": "object", "required": ["action"], "properties": {
         "action": {"type": "string", "enum": ["read", "write", "edit", "list", "search"]}}}),
     .output = TOOL_OUTPUT, .run = fs_run},
    {0},
};
/* clang-format on */
