/*
 * Sessions: agents that get messages, /v1/sessions. A session is a live job; what it does happens in
 * its worker (src/worker/live_session.c). Its events are those of the job: a client that lost the
 * stream of a message follows them from the last number that it saw.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "job_spec.h"
#include "json.h"
#include "options.h"
#include "serve.h"
#include "banned.h"

#define LIST_DEFAULT 50
#define TTL_DEFAULT  "24h"
#define TTL_MAX_NS   (30 * 86400LL * 1000000000LL)
#define TITLE_MAX    200
#define BRIEF_MS     60000  /* an operation that reads */
#define LONG_MS      600000 /* one that may ask a model or run a command */
#define FORK_TOKEN   1      /* the first attempt of a new job */

/* --- making and ending them --- */

static int session_ttl(const json_t *spec, int64_t *ret_ms, struct error *err)
{
    const char *text = json_get_string_or(spec, "ttl", TTL_DEFAULT);
    int64_t ns;
    if (units_parse_time(text, &ns) < 0 || ns <= 0 || ns > TTL_MAX_NS)
        return error_set(err, EINVAL, "ttl: '%.40s' is not a time like 30m or 24h, at most 30d",
                         text);
    *ret_ms = ns / 1000000;
    return 0;
}

/* The submission in the form that workers read. */
static int session_spec(const json_t *body, bool admin, json_t **ret, struct error *err)
{
    _cleanup_json_ json_t *spec = body ? json_copy((json_t *)body) : json_object();
    const json_t *workspace = json_object_get(spec, "workspace");
    const char *name, *title = json_get_string_or(spec, "title", "");
    json_t *member, *box = NULL;
    void *next;
    json_object_foreach_safe(spec, next, name, member)
    {
        if (json_is_null(member))
            json_object_del(spec, name);
    }
    _cleanup_free_ char *clean = foreign_text(title, strcspn(title, "\r\n"), TITLE_MAX);
    int r = job_spec_check_model(json_get_string(spec, "model"), "model", err);
    if (r == 0 && workspace && !json_is_null(workspace))
        r = job_spec_check_workspace(workspace, err);
    if (r == 0)
        r = job_spec_check_box(json_object_get(spec, "box"), admin, "box", &box, err);
    if (box)
        json_object_set_new(spec, "box", box);
    if (r == 0 && (!spec || !clean ||
                   json_object_set_new(spec, "title", json_string(*clean ? clean : "Session")) < 0))
        r = error_set(err, ENOMEM, "no memory");
    if (r == 0)
        *ret = TAKE_PTR(spec);
    return r;
}

/* False: answered with a problem. */
static bool session_submit(struct request *q, const json_t *spec, const char *worker,
                           char ret_id[JOB_ID_LEN + 1])
{
    const struct caller *c = request_caller(q);
    struct error err = {0};
    bool existed;
    struct job_submission s = {.user = c->name,
                               .kind = "session",
                               .spec = spec,
                               .idempotency = worker ? NULL : request_header(q, "idempotency-key"),
                               .leased_to = worker,
                               .max_live = c->limits.live,
                               .max_stored = c->limits.stored};
    if (session_ttl(spec, &s.ttl_ms, &err) < 0) {
        respond_problem(q, 422, "invalid-session", "%s", err.text);
        return false;
    }
    if (s.idempotency && (!*s.idempotency || strlen(s.idempotency) > 255)) {
        respond_problem(q, 400, "bad-request", "Idempotency-Key: must have 1 to 255 characters");
        return false;
    }
    if (jobs_submit(request_jobs(q), &s, ret_id, &existed, &err) < 0) {
        respond_error(q, &err);
        return false;
    }
    return true;
}

/* The job, if it is a session: a new reference. NULL: answered with a problem. */
static json_t *session_get(struct request *q, const char *id)
{
    struct error err = {0};
    json_t *job = NULL;
    if (jobs_get(request_jobs(q), request_caller(q)->user, id, &job, &err) < 0) {
        respond_error(q, &err);
    } else if (strcmp(json_get_string_or(job, "kind", ""), "session") != 0) {
        json_decref(job);
        job = NULL;
        respond_problem(q, 404, "not-found", "there is no session %.40s", id);
    }
    return job;
}

static void session_answer(struct request *q, const char *id, int status)
{
    char location[sizeof "/v1/sessions/" + JOB_ID_LEN];
    json_t *job = session_get(q, id);
    if (!job)
        return;
    snprintf(location, sizeof location, "/v1/sessions/%s", id);
    if (status == 201)
        respond_header(q, "Location", location);
    respond_json(q, status, job);
}

static void session_new_run(struct request *q)
{
    struct error err = {0};
    _cleanup_json_ json_t *spec = NULL;
    char id[JOB_ID_LEN + 1];
    if (session_spec(request_body(q), request_caller(q)->role == ROLE_ADMIN, &spec, &err) < 0)
        respond_problem(q, 422, "invalid-session", "%s", err.text);
    else if (session_submit(q, spec, NULL, id))
        session_answer(q, id, 201);
}

static void session_list_run(struct request *q)
{
    const struct caller *c = request_caller(q);
    struct error err = {0};
    json_t *jobs = NULL;
    bool more = false;
    struct job_query query = {.user = c->user,
                              .kind = "session",
                              .state = request_query(q, "state"),
                              .search = request_query(q, "search"),
                              .before = request_query(q, "before"),
                              .limit = (unsigned)request_query_int(q, "limit", LIST_DEFAULT)};
    if (jobs_list(request_jobs(q), &query, &jobs, &more, &err) < 0) {
        respond_error(q, &err);
        return;
    }
    const json_t *last = json_array_get(jobs, json_array_size(jobs) - 1);
    json_t *next = more ? json_incref(json_object_get(last, "id")) : json_null();
    respond_json(q, 200, json_pack("{s:o, s:o}", "sessions", jobs, "next", next));
}

static void session_get_run(struct request *q)
{
    session_answer(q, request_param(q, 0), 200);
}

static void session_delete_run(struct request *q)
{
    struct error err = {0};
    const char *id = request_param(q, 0);
    _cleanup_json_ json_t *job = session_get(q, id);
    if (!job)
        return;
    if (jobs_cancel(request_jobs(q), request_caller(q)->user, id, &err) < 0 && err.code != EALREADY)
        respond_error(q, &err);
    else
        respond_empty(q, 204);
}

/* --- operations that answer with JSON --- */

/* `input` is taken over; NULL: the body of the request, or none. */
static void session_call(struct request *q, const char *op, json_t *input, int timeout_ms)
{
    _cleanup_live_result_ struct live_result result = {0};
    struct error err = {0};
    if (!input)
        input = request_body(q) ? json_incref(request_body(q)) : json_object();
    if (live_call(q, request_param(q, 0), op, input, NULL, timeout_ms, &result, &err) < 0)
        respond_error(q, &err);
    else
        respond_live(q, &result);
}

static void session_state_run(struct request *q)
{
    session_call(q, "session/state", NULL, BRIEF_MS);
}

static void session_changes_run(struct request *q)
{
    session_call(q, "session/changes", NULL, LONG_MS);
}

static void session_undo_run(struct request *q)
{
    session_call(q, "session/undo", NULL, LONG_MS);
}

static void session_apply_run(struct request *q)
{
    session_call(q, "session/apply", NULL, LONG_MS);
}

static void session_sync_run(struct request *q)
{
    session_call(q, "session/sync", NULL, LONG_MS);
}

static void session_cancel_run(struct request *q)
{
    session_call(q, "session/cancel", NULL, BRIEF_MS);
}

static void session_compact_run(struct request *q)
{
    session_call(q, "session/compact", NULL, LONG_MS);
}

static void session_model_run(struct request *q)
{
    struct error err = {0};
    if (job_spec_check_model(json_get_string(request_body(q), "model"), "model", &err) < 0)
        respond_problem(q, 422, "invalid-session", "%s", err.text);
    else
        session_call(q, "session/model", NULL, BRIEF_MS);
}

static void session_conversation_run(struct request *q)
{
    session_call(q, "session/conversation",
                 json_pack("{s:I}", "from", (json_int_t)request_query_int(q, "from", 0)), BRIEF_MS);
}

static void session_tools_run(struct request *q)
{
    session_call(q, "session/tools", NULL, LONG_MS);
}

static void session_tool_run(struct request *q)
{
    session_call(q, "session/tool",
                 json_pack("{s:s, s:O}", "name", request_param(q, 1), "input", request_body(q)),
                 -1);
}

/* The worker that runs the session gets a new job, which it takes over with the fork's agent. */
static void session_fork_run(struct request *q)
{
    _cleanup_live_result_ struct live_result result = {0};
    const char *parent = request_param(q, 0), *title = json_get_string(request_body(q), "title");
    struct error err = {0};
    char id[JOB_ID_LEN + 1];
    _cleanup_json_ json_t *job = session_get(q, parent);
    if (!job)
        return;
    const char *worker = json_get_string(job, "worker");
    _cleanup_json_ json_t *spec = json_copy(json_object_get(job, "spec"));
    _cleanup_free_ char *clean =
        title ? foreign_text(title, strcspn(title, "\r\n"), TITLE_MAX) : NULL;
    if (clean && *clean)
        json_object_set_new(spec, "title", json_string(clean));
    if (!worker || strcmp(json_get_string_or(job, "state", ""), "running") != 0) {
        respond_problem(q, 409, "not-running",
                        "session %s has no worker (yet), so it has nothing "
                        "to fork",
                        parent);
        return;
    }
    if (!session_submit(q, spec, worker, id))
        return;
    json_t *input = json_pack("{s:s, s:i, s:I, s:O}", "job", id, "token", FORK_TOKEN, "turn",
                              json_get_integer(request_body(q), "turn"), "spec", spec);
    int r = live_call(q, parent, "session/fork", input, NULL, LONG_MS, &result, &err);
    if (r < 0 || result.status >= 400)
        jobs_cancel(request_jobs(q), NULL, id, NULL);
    if (r < 0)
        respond_error(q, &err);
    else if (result.status >= 400)
        respond_live(q, &result);
    else
        session_answer(q, id, 201);
}

/* --- operations that answer with events --- */

struct session_stream {
    struct request *request;
    bool begun;
};

static int session_stream_event(void *data, const json_t *event)
{
    struct session_stream *s = data;
    _cleanup_free_ char *text = json_dumps(event, JSON_COMPACT);
    int r = s->begun ? 0 : sse_begin(s->request);
    s->begun = true;
    if (r == 0)
        r = text ? sse_send(s->request, 0, json_get_string_or(event, "type", "message"), text,
                            strlen(text))
                 : -ENOMEM;
    return r;
}

/* A problem after the first event is an event, too. */
static void session_stream_fail(struct session_stream *s, const char *text)
{
    _cleanup_json_ json_t *event =
        json_pack("{s:s, s:s, s:b}", "type", "error", "text", text, "retrying", 0);
    session_stream_event(s, event);
}

static void session_message_run(struct request *q)
{
    _cleanup_live_result_ struct live_result result = {0};
    struct session_stream stream = {.request = q};
    const struct live_sink sink = {.event = session_stream_event, .data = &stream};
    struct error err = {0};
    int r = live_call(q, request_param(q, 0), "session/message", json_incref(request_body(q)),
                      &sink, -1, &result, &err);
    if (r < 0 && stream.begun)
        session_stream_fail(&stream, err.text);
    else if (r < 0)
        respond_error(q, &err);
    else if (result.status >= 400 && stream.begun)
        session_stream_fail(&stream,
                            json_get_string_or(result.body, "detail", "the worker failed"));
    else if (!stream.begun)
        respond_live(q, &result);
}

/* --- operations that answer with a file --- */

struct session_file {
    struct request *request;
    const char *type, *name;
    bool begun;
};

static int session_file_event(void *data, const json_t *event)
{
    struct session_file *f = data;
    json_int_t size = json_get_integer(event, "size");
    if (f->begun || size < 0)
        return -EPROTO;
    f->begun = true;
    return respond_stream(f->request, f->type, f->name, (uint64_t)size);
}

static int session_file_bytes(void *data, const void *bytes, size_t n)
{
    struct session_file *f = data;
    return f->begun ? respond_write(f->request, bytes, n) : -EPROTO;
}

static void session_file(struct request *q, const char *op, const char *type, const char *name)
{
    _cleanup_live_result_ struct live_result result = {0};
    struct session_file f = {.request = q, .type = type, .name = name};
    const struct live_sink sink = {session_file_event, session_file_bytes, &f};
    struct error err = {0};
    int r = live_call(q, request_param(q, 0), op, json_object(), &sink, LONG_MS, &result, &err);
    if (f.begun)
        return;
    if (r < 0)
        respond_error(q, &err);
    else
        respond_live(q, &result);
}

static void session_diff_run(struct request *q)
{
    session_file(q, "session/diff", "text/x-diff; charset=utf-8", "session.diff");
}

static void session_workspace_run(struct request *q)
{
    session_file(q, "session/workspace", "application/x-tar", "workspace.tar");
}

/* --- the table --- */

#define REF(name) "{\"$ref\": \"#/components/schemas/" name "\"}"

/* clang-format off */
#define SESSION_INPUT SCHEMA({                                                                      \
    "type": "object", "additionalProperties": false, "properties": {                                \
        "title": {"type": ["string", "null"], "maxLength": 1000},                                   \
        "model": {"type": ["string", "null"], "maxLength": 200,                                     \
            "description": "PROVIDER/NAME; the worker's own without it."},                          \
        "system": {"type": ["string", "null"], "maxLength": 262144,                                 \
            "description": "Replaces the built-in system prompt."},                                 \
        "workspace": {"type": ["object", "null"], "additionalProperties": false, "properties": {    \
            "upload": {"type": "string"}, "git": {"type": "string", "maxLength": 2048},             \
            "ref": {"type": "string", "maxLength": 255}, "job": {"type": "string"}},                \
            "description": "What the session begins with; empty without it."},                      \
        "box": {"type": ["object", "null"], "description": "Options of the box, as of a job."},     \
        "max_turns": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000000,                \
            "description": "Answers of the model per message."},                                    \
        "max_tokens": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000000000,            \
            "description": "Tokens of the answers to a message."},                                  \
        "max_cost": {"type": ["number", "null"], "exclusiveMinimum": 0,                             \
            "description": "Dollars per message."},                                                 \
        "ttl": {"type": ["string", "null"], "maxLength": 40,                                        \
            "description": "The session ends when it was idle so long; 24h without it."},           \
        "labels": {"type": ["object", "null"], "maxProperties": 50,                                 \
            "additionalProperties": {"type": "string", "maxLength": 200}}}})
#define SESSION_PAGE SCHEMA({                                                                       \
    "type": "object", "required": ["sessions", "next"], "properties": {                             \
        "sessions": {"type": "array", "items": {"$ref": "#/components/schemas/JobSummary"}},        \
        "next": {"type": ["string", "null"],                                                        \
            "description": "The `before` of the next page."}}})
#define LIST_QUERY SCHEMA({                                                                         \
    "type": "object", "properties": {                                                               \
        "state": {"type": "string", "description": "Only these states, separated by commas."},      \
        "search": {"type": "string", "description": "Text in titles and IDs."},                     \
        "before": {"type": "string", "description": "Only sessions older than this one."},          \
        "limit": {"type": "integer", "minimum": 1, "maximum": 500}}})
#define MESSAGE_INPUT SCHEMA({                                                                      \
    "type": "object", "additionalProperties": false, "required": ["text"], "properties": {          \
        "text": {"type": "string", "minLength": 1, "maxLength": 262144},                            \
        "queue": {"type": "boolean",                                                                \
            "description": "Wait for its turn instead of failing while another is answered."}}})
#define FROM_QUERY SCHEMA({                                                                         \
    "type": "object", "properties": {                                                               \
        "from": {"type": "integer", "minimum": 0, "description": "The first message."}}})
#define CONVERSATION SCHEMA({                                                                       \
    "type": "object", "required": ["items", "next"], "properties": {                                \
        "next": {"type": ["integer", "null"], "description": "The `from` of the next page."},       \
        "items": {"type": "array", "items": {                                                       \
            "type": "object", "required": ["kind", "message", "turn", "text", "truncated"],         \
            "properties": {                                                                         \
                "kind": {"enum": ["person", "answer", "thinking", "call", "image", "note"]},        \
                "message": {"type": "integer"}, "turn": {"type": "integer"},                        \
                "time": {"type": "string"},                                                         \
                "name": {"type": "string",                                                          \
                    "description": "Of a tool, or the type of an image."},                          \
                "brief": {"type": "string"}, "input": {"type": "string"},                           \
                "text": {"type": "string",                                                          \
                    "description": "Markdown of an answer; an image in base64."},                   \
                "failed": {"type": "boolean"}, "answered": {"type": "boolean"},                     \
                "truncated": {"type": "boolean"}}}}}})
#define STATE SCHEMA({                                                                              \
    "type": "object", "required": ["history", "model", "turns", "busy", "waiting"],                 \
    "properties": {                                                                                 \
        "history": {"type": "string"}, "model": {"type": "string"}, "turns": {"type": "integer"},   \
        "context": {"type": "integer", "description": "Tokens that were sent last."},               \
        "window": {"type": "integer", "description": "Tokens that the model takes; 0: unknown."},   \
        "usage": {"type": "object"},                                                                \
        "background": {"type": "integer", "description": "Commands in the background."},            \
        "plan": {"type": "array", "items": {"type": "object"}},                                     \
        "busy": {"type": "boolean"}, "waiting": {"type": "integer"}}})
#define CHANGES SCHEMA({                                                                            \
    "type": "object", "required": ["changes", "added", "deleted", "commits"], "properties": {       \
        "changes": {"type": "array", "items": {                                                     \
            "type": "object", "required": ["path", "kind"], "properties": {                         \
                "path": {"type": "string"}, "kind": {"enum": ["added", "modified", "deleted"]},     \
                "added": {"type": "integer"}, "deleted": {"type": "integer"},                       \
                "binary": {"type": "boolean"}}}},                                                   \
        "added": {"type": "integer"}, "deleted": {"type": "integer"},                               \
        "commits": {"type": "boolean"}}})
#define UNDO_INPUT SCHEMA({                                                                         \
    "type": "object", "additionalProperties": false, "properties": {                                \
        "turns": {"type": "integer", "minimum": 1, "maximum": 1000000}}})
#define UNDO_OUTPUT SCHEMA({                                                                        \
    "type": "object", "required": ["text", "first", "last", "files"], "properties": {               \
        "text": {"type": "string"}, "first": {"type": "integer"}, "last": {"type": "integer"},      \
        "files": {"enum": ["unchanged", "restored", "gone"]}, "restored": {"type": "integer"},      \
        "applied": {"type": "integer",                                                              \
            "description": "Files that had been applied: the pending changes revert them."},        \
        "failed": {"type": "integer"}}})
#define FORK_INPUT SCHEMA({                                                                         \
    "type": "object", "additionalProperties": false, "properties": {                                \
        "turn": {"type": "integer", "minimum": 1, "maximum": 1000000,                               \
            "description": "Fork from the end of this turn; of the last one without it."},          \
        "title": {"type": "string", "maxLength": 1000}}})
#define APPLY_INPUT SCHEMA({                                                                        \
    "type": "object", "additionalProperties": false, "properties": {                                \
        "paths": {"type": "array", "minItems": 1, "maxItems": 256,                                  \
            "items": {"type": "string", "minLength": 1, "maxLength": 4096},                         \
            "description": "Only these and what is below them."},                                   \
        "on_conflict": {"enum": ["report", "mine", "theirs", "markers"],                            \
            "description": "mine: the workspace's version; theirs: the box's."}}})
#define APPLY_OUTPUT SCHEMA({                                                                       \
    "type": "object", "required": ["applied", "merged", "conflicts", "refused", "paths", "notes"],  \
    "properties": {                                                                                 \
        "applied": {"type": "integer"}, "merged": {"type": "integer"},                              \
        "conflicts": {"type": "integer"}, "refused": {"type": "integer"},                           \
        "paths": {"type": "array", "items": {                                                       \
            "type": "object", "required": ["path", "outcome", "why"], "properties": {               \
                "path": {"type": "string"}, "why": {"type": ["string", "null"]},                    \
                "outcome": {"enum": ["applied", "same", "merged", "conflict", "refused"]}}}},       \
        "notes": {"type": "array", "items": {"type": "string"}}}})
#define CANCEL_OUTPUT SCHEMA({                                                                      \
    "type": "object", "required": ["cancelled"], "properties": {                                    \
        "cancelled": {"type": "boolean", "description": "Something was running."}}})
#define MODEL_INPUT SCHEMA({                                                                        \
    "type": "object", "additionalProperties": false, "required": ["model"], "properties": {         \
        "model": {"type": "string", "minLength": 1, "maxLength": 200}}})
#define TOOLS_OUTPUT SCHEMA({                                                                       \
    "type": "object", "required": ["tools"], "properties": {                                        \
        "tools": {"type": "array", "items": {"type": "object"}}}})
#define TOOL_OUTPUT SCHEMA({                                                                        \
    "type": "object", "required": ["failed", "text"], "properties": {                               \
        "failed": {"type": "boolean"}, "text": {"type": "string"},                                  \
        "data": {"type": ["object", "null"]}, "image": {"type": ["object", "null"]}}})
/* clang-format on */

const struct route ROUTES_SESSIONS[] = {
    {"POST", "/v1/sessions", "session_new", "sessions", "Begin a session with an agent",
     ACCESS_USER, ROUTE_AUDIT, 201, .input = SESSION_INPUT, .output = REF("Job"),
     .run = session_new_run},
    {"GET", "/v1/sessions", "session_list", "sessions", "List sessions, the newest first",
     ACCESS_READ, 0, 200, .query = LIST_QUERY, .output = SESSION_PAGE, .run = session_list_run},
    {"GET", "/v1/sessions/{id}", "session_get", "sessions", "Read a session", ACCESS_READ, 0, 200,
     .output = REF("Job"), .run = session_get_run},
    {"DELETE", "/v1/sessions/{id}", "session_delete", "sessions",
     "End a session and remove its box", ACCESS_USER, ROUTE_AUDIT, 204, .run = session_delete_run},
    {"POST", "/v1/sessions/{id}/messages", "session_message", "sessions",
     "Send a message; the answer is the events of the turn", ACCESS_USER, ROUTE_SSE, 200,
     .input = MESSAGE_INPUT, .run = session_message_run},
    {"GET", "/v1/sessions/{id}/messages", "session_conversation", "sessions",
     "Read the conversation so far", ACCESS_READ, 0, 200, .query = FROM_QUERY,
     .output = CONVERSATION, .run = session_conversation_run},
    {"GET", "/v1/sessions/{id}/events", "session_events", "sessions",
     "Follow the events of a session, as those of a job", ACCESS_READ, ROUTE_SSE | ROUTE_NOTHING,
     200, .query = JOB_EVENTS_QUERY, .output = REF("EventPage"), .run = job_events_run},
    {"GET", "/v1/sessions/{id}/state", "session_state", "sessions",
     "Read model, usage, plan and whether it is busy", ACCESS_READ, 0, 200, .output = STATE,
     .run = session_state_run},
    {"GET", "/v1/sessions/{id}/changes", "session_changes", "sessions",
     "List the changes that were not applied", ACCESS_READ, 0, 200, .output = CHANGES,
     .run = session_changes_run},
    {"GET", "/v1/sessions/{id}/diff", "session_diff", "sessions",
     "Download the changes that were not applied, as a patch in git's format", ACCESS_READ,
     ROUTE_BYTES, 200, .run = session_diff_run},
    {"POST", "/v1/sessions/{id}/undo", "session_undo", "sessions",
     "Undo the last turn, or several, with their files", ACCESS_USER, 0, 200, .input = UNDO_INPUT,
     .output = UNDO_OUTPUT, .run = session_undo_run},
    {"POST", "/v1/sessions/{id}/fork", "session_fork", "sessions",
     "Begin a second session from the end of a turn", ACCESS_USER, ROUTE_AUDIT, 201,
     .input = FORK_INPUT, .output = REF("Job"), .run = session_fork_run},
    {"POST", "/v1/sessions/{id}/apply", "session_apply", "sessions",
     "Apply the changes to the session's workspace", ACCESS_USER, ROUTE_AUDIT, 200,
     .input = APPLY_INPUT, .output = APPLY_OUTPUT, .run = session_apply_run},
    {"POST", "/v1/sessions/{id}/sync", "session_sync", "sessions",
     "Bring what a fork applied to the workspace into the box", ACCESS_USER, 0, 200,
     .input = APPLY_INPUT, .output = APPLY_OUTPUT, .run = session_sync_run},
    {"GET", "/v1/sessions/{id}/workspace", "session_workspace", "sessions",
     "Download the workspace with what was applied, as a tar", ACCESS_READ, ROUTE_BYTES, 200,
     .run = session_workspace_run},
    {"POST", "/v1/sessions/{id}/cancel", "session_cancel", "sessions",
     "Interrupt the turn or the command that runs", ACCESS_USER, 0, 200, .output = CANCEL_OUTPUT,
     .run = session_cancel_run},
    {"POST", "/v1/sessions/{id}/model", "session_model", "sessions", "Change the model",
     ACCESS_USER, 0, 200, .input = MODEL_INPUT, .output = STATE, .run = session_model_run},
    {"POST", "/v1/sessions/{id}/compact", "session_compact", "sessions",
     "Summarise the conversation to make room", ACCESS_USER, 0, 200, .output = STATE,
     .run = session_compact_run},
    {"GET", "/v1/sessions/{id}/tools", "session_tools", "sessions", "List the session's tools",
     ACCESS_READ, 0, 200, .output = TOOLS_OUTPUT, .run = session_tools_run},
    {"POST", "/v1/sessions/{id}/tools/{name}", "session_tool", "sessions",
     "Call a tool in the session's box; the body is its input", ACCESS_USER, 0, 200,
     .input = SCHEMA({"type" : "object"}), .output = TOOL_OUTPUT, .run = session_tool_run},
    {0},
};
