/*
 * Jobs for clients: /v1/jobs and what is beneath it, /v1/uploads, and the short forms /schedule and
 * /status.
 *
 * A job of another user does not exist: the store is asked with the caller's user. Files of jobs
 * come from boxes and are always sent as attachments, so that no browser shows them as a page of
 * ours.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "job_spec.h"
#include "json.h"
#include "serve.h"
#include "tool.h"
#include "banned.h"

#define LIST_DEFAULT   50
#define LIST_MAX       500
#define EVENTS_DEFAULT 500
#define EVENTS_MAX     1000
#define FEED_EVENTS    200         /* that one call of a feed reads at most */
#define STATUS_LOG_MAX (256 << 10) /* of the end of agent.log in /status */
#define MAGIC_SIZE     264

/* --- submitting --- */

/* The job that the request's body describes; or an answer with the problem. */
static bool job_submit(struct request *q, char ret_id[JOB_ID_LEN + 1])
{
    const struct caller *c = request_caller(q);
    struct error err = {0};
    _cleanup_json_ json_t *spec = NULL;
    bool existed = false;
    struct job_submission s = {.user = c->name,
                               .idempotency = request_header(q, "idempotency-key"),
                               .max_live = c->limits.live,
                               .max_stored = c->limits.stored};
    if (job_spec_check(request_body(q), c->role == ROLE_ADMIN, &spec, &s.kind, &err) < 0) {
        respond_problem(q, 422, "invalid-content", "%s", err.text);
        return false;
    }
    s.spec = spec;
    if (s.idempotency && (!*s.idempotency || strlen(s.idempotency) > 255)) {
        respond_problem(q, 400, "bad-request", "Idempotency-Key: must have 1 to 255 characters");
        return false;
    }
    int r = jobs_submit(request_jobs(q), &s, ret_id, &existed, &err);
    if (r == -EINVAL)
        respond_problem(q, 422, "invalid-content", "%s", err.text);
    else if (r < 0)
        respond_error(q, &err);
    if (r < 0)
        return false;
    if (existed)
        respond_header(q, "Idempotency-Replayed", "true");
    return true;
}

static void job_answer(struct request *q, const char *id, int status)
{
    struct error err = {0};
    json_t *job = NULL;
    if (jobs_get(request_jobs(q), request_caller(q)->user, id, &job, &err) < 0)
        respond_error(q, &err);
    else
        respond_json(q, status, job);
}

static void job_answer_new(struct request *q, const char *id)
{
    char location[sizeof "/v1/jobs/" + JOB_ID_LEN];
    snprintf(location, sizeof location, "/v1/jobs/%s", id);
    respond_header(q, "Location", location);
    job_answer(q, id, 201);
}

static void job_submit_run(struct request *q)
{
    char id[JOB_ID_LEN + 1];
    if (job_submit(q, id))
        job_answer_new(q, id);
}

static void schedule_run(struct request *q)
{
    char id[JOB_ID_LEN + 1];
    if (job_submit(q, id))
        respond_json(q, 200, json_pack("{s:s}", "task_id", id));
}

static void job_repeat_run(struct request *q)
{
    struct error err = {0};
    char id[JOB_ID_LEN + 1];
    if (jobs_repeat(request_jobs(q), request_caller(q)->user, request_param(q, 0), id, &err) < 0)
        respond_error(q, &err);
    else
        job_answer_new(q, id);
}

/* --- reading --- */

static void job_get_run(struct request *q)
{
    job_answer(q, request_param(q, 0), 200);
}

static void job_list_run(struct request *q)
{
    const struct caller *c = request_caller(q);
    struct error err = {0};
    _cleanup_json_ json_t *jobs = NULL;
    bool more = false;
    struct job_query query = {.user = c->user ? c->user : request_query(q, "user"),
                              .state = request_query(q, "state"),
                              .kind = request_query(q, "kind"),
                              .search = request_query(q, "search"),
                              .label = request_query(q, "label"),
                              .before = request_query(q, "before"),
                              .limit = (unsigned)request_query_int(q, "limit", LIST_DEFAULT)};
    if (jobs_list(request_jobs(q), &query, &jobs, &more, &err) < 0) {
        respond_error(q, &err);
        return;
    }
    const json_t *last = json_array_get(jobs, json_array_size(jobs) - 1);
    respond_json(
        q, 200,
        json_pack("{s:O, s:s?}", "jobs", jobs, "next", more ? json_get_string(last, "id") : NULL));
}

/* The end of agent.log, from the beginning of a line: a new reference to a string. */
static json_t *status_log(struct request *q, const char *id, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    _cleanup_buf_ struct buf text = BUF_INIT(STATUS_LOG_MAX);
    uint64_t size = 0;
    int r =
        jobs_file_open(request_jobs(q), request_caller(q)->user, id, "agent.log", &fd, &size, err);
    if (r == -ENOENT)
        return json_string("");
    if (r < 0)
        return NULL;
    uint64_t from = size > STATUS_LOG_MAX ? size - STATUS_LOG_MAX : 0;
    char *at = buf_reserve(&text, (size_t)(size - from));
    ssize_t n = at || size == 0 ? io_read_at(fd, at, (size_t)(size - from), from) : -ENOMEM;
    if (n < 0) {
        error_errno(err, (int)-n, "cannot read the log of job %s", id);
        return NULL;
    }
    const char *line = from ? memchr(at, '\n', (size_t)n) : NULL;
    size_t cut = line ? (size_t)(line + 1 - at) : 0;
    return text_json(at + cut, (size_t)n - cut);
}

static void status_answer(struct request *q, const char *id)
{
    static const char *const MEMBERS[] = {"title",      "error",      "exit_reason", "result",
                                          "plan",       "attempt",    "steps_done",  "steps_total",
                                          "created_at", "started_at", "finished_at"};
    struct error err = {0};
    _cleanup_json_ json_t *job = NULL;
    json_t *log = NULL;
    int r = jobs_get(request_jobs(q), request_caller(q)->user, id, &job, &err);
    if (r == 0)
        log = status_log(q, id, &err);
    if (!log) {
        respond_error(q, &err);
        return;
    }
    json_t *answer = json_pack("{s:s, s:s, s:o}", "task_id", id, "status",
                               json_get_string_or(job, "state", ""), "log", log);
    for (size_t i = 0; answer && i < ARRAY_SIZE(MEMBERS); i++) {
        json_t *value = json_object_get(job, MEMBERS[i]);
        json_object_set_new(answer, MEMBERS[i], value ? json_incref(value) : json_null());
    }
    respond_json(q, 200, answer);
}

static void status_query_run(struct request *q)
{
    status_answer(q, request_query(q, "task_id"));
}

static void status_path_run(struct request *q)
{
    status_answer(q, request_param(q, 0));
}

/* --- ending, removing, several at once --- */

/* Cancels a job that has not ended and removes one that has. A job that ends in between is kept. */
static void job_delete_run(struct request *q)
{
    struct jobs *jobs = request_jobs(q);
    const char *user = request_caller(q)->user, *id = request_param(q, 0);
    struct error err = {0};
    _cleanup_json_ json_t *job = NULL;
    int r = jobs_get(jobs, user, id, &job, &err);
    bool ended = r == 0 && !json_is_null(json_object_get(job, "finished_at"));
    if (r == 0)
        r = ended ? jobs_remove(jobs, user, id, &err) : jobs_cancel(jobs, user, id, &err);
    if (r < 0)
        respond_error(q, &err);
    else
        respond_json(q, 200,
                     json_pack("{s:s, s:s}", "id", id, "action", ended ? "removed" : "cancelled"));
}

/* The outcome for one job of a list: {"id", "status", "error", "job"}. */
static json_t *action_apply(struct request *q, const char *action, const char *id)
{
    struct jobs *jobs = request_jobs(q);
    const char *user = request_caller(q)->user;
    struct error err = {0};
    char repeated[JOB_ID_LEN + 1] = "";
    int r = strcmp(action, "cancel") == 0   ? jobs_cancel(jobs, user, id, &err)
            : strcmp(action, "repeat") == 0 ? jobs_repeat(jobs, user, id, repeated, &err)
                                            : jobs_remove(jobs, user, id, &err);
    return json_pack("{s:s, s:b, s:s?, s:s?}", "id", id, "done", r == 0, "error",
                     r < 0 ? err.text : NULL, "job", *repeated ? repeated : NULL);
}

static void job_actions_run(struct request *q)
{
    const json_t *body = request_body(q);
    const char *action = json_get_string_or(body, "action", "");
    json_t *results = json_array(), *id;
    size_t i;
    json_array_foreach(json_object_get(body, "jobs"), i, id)
    {
        json_array_append_new(results, action_apply(q, action, json_string_value(id)));
    }
    respond_json(q, 200, json_pack("{s:o}", "results", results));
}

/* --- events --- */

/* A client that follows a job. */
struct job_feed {
    struct jobs *jobs;
    char *user; /* NULL: any */
    char id[JOB_ID_LEN + 1];
    uint64_t after; /* the last event that was appended */
    /* Of one call: */
    struct buf *out;
    unsigned appended;
    bool full;
};

static void job_feed_free(void *data)
{
    struct job_feed *f = data;
    if (f)
        free(f->user);
    free(f);
}

static void job_feed_append(void *data, uint64_t seq, const char *type, const char *text, size_t n)
{
    struct job_feed *f = data;
    if (f->full)
        return;
    size_t before = f->out->len;
    if (sse_append(f->out, seq, type, text, n) == 0) {
        f->after = seq;
        f->appended++;
        return;
    }
    f->out->len = before;
    f->out->failed = false;
    f->full = true;
}

static int job_feed_more(void *data, struct buf *out)
{
    struct job_feed *f = data;
    bool ended = false;
    f->out = out;
    f->appended = 0;
    f->full = false;
    int r = jobs_events(f->jobs, f->user, f->id, f->after, FEED_EVENTS, job_feed_append, f, &ended,
                        NULL);
    if (r < 0)
        return r;
    if (f->full && f->appended == 0)
        return -EMSGSIZE; /* an event that never fits; the store has none so long */
    if (f->full || (f->appended == FEED_EVENTS && !ended))
        return 1;
    return ended ? -ENODATA : 0;
}

struct event_page {
    json_t *events;
    uint64_t next;
};

static void event_page_append(void *data, uint64_t seq, const char *type, const char *text,
                              size_t n)
{
    struct event_page *p = data;
    json_array_append_new(p->events, json_loadb(text, n, 0, NULL));
    p->next = seq;
}

static void job_events_page(struct request *q, uint64_t after)
{
    struct error err = {0};
    struct event_page page = {json_array(), after};
    bool ended = false;
    unsigned limit = (unsigned)request_query_int(q, "limit", EVENTS_DEFAULT);
    if (jobs_events(request_jobs(q), request_caller(q)->user, request_param(q, 0), after, limit,
                    event_page_append, &page, &ended, &err) < 0) {
        json_decref(page.events);
        respond_error(q, &err);
        return;
    }
    respond_json(q, 200,
                 json_pack("{s:o, s:I, s:b}", "events", page.events, "next", (json_int_t)page.next,
                           "ended", ended));
}

static void event_ignore(void *data, uint64_t seq, const char *type, const char *text, size_t n)
{
    *(bool *)data = true;
}

void job_events_run(struct request *q)
{
    const char *accept = request_header(q, "accept"), *last = request_header(q, "last-event-id");
    uint64_t after = (uint64_t)request_query_int(q, "after", 0);
    if (last && (strlen(last) > 15 || strspn(last, "0123456789") != strlen(last))) {
        respond_problem(q, 400, "bad-request", "Last-Event-ID: must be the number of an event");
        return;
    }
    if (last && *last)
        after = strtoull(last, NULL, 10);
    if (accept && strstr(accept, "application/json") && !strstr(accept, "text/event-stream")) {
        job_events_page(q, after);
        return;
    }
    struct error err = {0};
    const char *user = request_caller(q)->user, *id = request_param(q, 0);
    bool ended = false, any = false;
    if (jobs_events(request_jobs(q), user, id, after, 1, event_ignore, &any, &ended, &err) < 0) {
        respond_error(q, &err);
        return;
    }
    if (ended && !any) { /* a browser's EventSource then stops to connect again */
        respond_empty(q, 204);
        return;
    }
    struct job_feed *f = calloc(1, sizeof *f);
    if (!f || (user && !(f->user = strdup(user)))) {
        job_feed_free(f);
        respond_json(q, 200, NULL);
        return;
    }
    char topic[sizeof "job:" + JOB_ID_LEN];
    f->jobs = request_jobs(q);
    f->after = after;
    snprintf(f->id, sizeof f->id, "%s", id);
    snprintf(topic, sizeof topic, "job:%s", id);
    respond_feed(q, topic, &(struct feed){job_feed_more, job_feed_free, f});
}

/* --- files --- */

static void job_file_answer(struct request *q, const char *path, const char *type, const char *name)
{
    struct error err = {0};
    int fd = -1;
    uint64_t size;
    int r = jobs_file_open(request_jobs(q), request_caller(q)->user, request_param(q, 0), path, &fd,
                           &size, &err);
    if (r < 0) {
        if (r == -ENOENT && !err.text[0])
            respond_problem(q, 404, "not-found", "job %s has no %s (yet)", request_param(q, 0),
                            name);
        else
            respond_error(q, &err);
        return;
    }
    respond_file(q, fd, type, name);
}

static void job_log_run(struct request *q)
{
    job_file_answer(q, "agent.log", "text/plain; charset=utf-8", "agent.log");
}

static void job_memory_run(struct request *q)
{
    job_file_answer(q, "memory.json", "application/json", "memory.json");
}

static void job_diff_run(struct request *q)
{
    job_file_answer(q, "diff", "text/x-diff; charset=utf-8", "job.diff");
}

static void job_file_run(struct request *q)
{
    const char *given = request_param(q, 1), *name = strrchr(given, '/');
    _cleanup_free_ char *path = str_printf("files/%s", given);
    if (!path)
        respond_json(q, 200, NULL);
    else
        job_file_answer(q, path, "application/octet-stream", name ? name + 1 : given);
}

static void job_files_run(struct request *q)
{
    struct error err = {0};
    json_t *files = NULL;
    if (jobs_files(request_jobs(q), request_caller(q)->user, request_param(q, 0), &files, &err) < 0)
        respond_error(q, &err);
    else
        respond_json(q, 200, json_pack("{s:o}", "files", files));
}

/* --- uploads --- */

/* By the content, since clients rarely know the type. NULL: neither. */
static const char *upload_type(int fd)
{
    uint8_t head[MAGIC_SIZE] = {0};
    ssize_t n = io_read_at(fd, head, sizeof head, 0);
    static const struct {
        const char *magic;
        size_t at, n;
        const char *type;
    } KINDS[] = {{"PK\3\4", 0, 4, "zip"},
                 {"PK\5\6", 0, 4, "zip"},
                 {"ustar", 257, 5, "tar"},
                 {"\x1f\x8b", 0, 2, "tar"},
                 {"\x28\xb5\x2f\xfd", 0, 4, "tar"},
                 {"\xfd"
                  "7zXZ",
                  0, 5, "tar"},
                 {"BZh", 0, 3, "tar"}};
    for (size_t i = 0; n > 0 && i < ARRAY_SIZE(KINDS); i++)
        if (memcmp(head + KINDS[i].at, KINDS[i].magic, KINDS[i].n) == 0)
            return KINDS[i].type;
    return NULL;
}

static void upload_new_run(struct request *q)
{
    const struct caller *c = request_caller(q);
    struct error err = {0};
    uint64_t size = 0;
    char id[JOB_ID_LEN + 1];
    int fd = request_upload(q, &size);
    const char *type = upload_type(fd);
    if (!type)
        respond_problem(
            q, 415, "not-an-archive",
            "the body is neither a zip nor a tar (plain, or compressed with gzip, zstd, "
            "xz or bzip2)");
    else if (jobs_upload(request_jobs(q), c->name, fd, type, c->limits.stored, id, &err) < 0)
        respond_error(q, &err);
    else
        respond_json(
            q, 201, json_pack("{s:s, s:s, s:I}", "id", id, "type", type, "size", (json_int_t)size));
}

static void upload_delete_run(struct request *q)
{
    struct error err = {0};
    if (jobs_upload_remove(request_jobs(q), request_caller(q)->user, request_param(q, 0), &err) < 0)
        respond_error(q, &err);
    else
        respond_empty(q, 204);
}

/* --- the table --- */

const char JOB_EVENTS_QUERY[] = SCHEMA({
    "type" : "object",
    "properties" : {
        "after" : {
            "type" : "integer",
            "minimum" : 0,
            "description" : "Only events behind this number; Last-Event-ID does the same."
        },
        "limit" : {
            "type" : "integer",
            "minimum" : 1,
            "maximum" : 1000,
            "description" : "Of a page of JSON."
        }
    }
});

#define REF(name) "{\"$ref\": \"#/components/schemas/" name "\"}"
#define ACTIONS_INPUT                                                                              \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : [ "action", "jobs" ],                                                         \
        "additionalProperties" : false,                                                            \
        "properties" : {                                                                           \
            "action" : {"enum" : [ "cancel", "repeat", "remove" ]},                                \
            "jobs" : {                                                                             \
                "type" : "array",                                                                  \
                "minItems" : 1,                                                                    \
                "maxItems" : 500,                                                                  \
                "items" : {"type" : "string", "maxLength" : 64}                                    \
            }                                                                                      \
        }                                                                                          \
    })
#define ACTIONS_OUTPUT                                                                             \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["results"],                                                                  \
        "properties" : {                                                                           \
            "results" : {                                                                          \
                "type" : "array",                                                                  \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [ "id", "done", "error", "job" ],                                 \
                    "properties" : {                                                               \
                        "id" : {"type" : "string"},                                                \
                        "done" : {"type" : "boolean"},                                             \
                        "error" : {"type" : [ "string", "null" ]},                                 \
                        "job" : {                                                                  \
                            "type" : [ "string", "null" ],                                         \
                            "description" : "The new job, of a repeat."                            \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define LIST_QUERY                                                                                 \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "properties" : {                                                                           \
            "state" :                                                                              \
                {"type" : "string", "description" : "Only these states, separated by commas."},    \
            "kind" :                                                                               \
                {"type" : "string", "description" : "Only these kinds, separated by commas."},     \
            "search" : {"type" : "string", "description" : "Text in titles, IDs and labels."},     \
            "label" : {"type" : "string", "description" : "key=value"},                            \
            "user" :                                                                               \
                {"type" : "string", "description" : "For admins: only the jobs of this user."},    \
            "before" : {"type" : "string", "description" : "Only jobs older than this one."},      \
            "limit" : {"type" : "integer", "minimum" : 1, "maximum" : 500}                         \
        }                                                                                          \
    })
#define STATUS_QUERY                                                                               \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["task_id"],                                                                  \
        "properties" : {"task_id" : {"type" : "string"}}                                           \
    })
#define TASK_ID_OUTPUT                                                                             \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["task_id"],                                                                  \
        "properties" : {"task_id" : {"type" : "string"}}                                           \
    })
#define DELETE_OUTPUT                                                                              \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : [ "id", "action" ],                                                           \
        "properties" :                                                                             \
            {"id" : {"type" : "string"}, "action" : {"enum" : [ "cancelled", "removed" ]}}         \
    })

const struct route ROUTES_JOBS[] = {
    {"POST", "/v1/jobs", "job_submit", "jobs", "Submit a job", ACCESS_USER, ROUTE_AUDIT, 201,
     .input = REF("JobSubmission"), .output = REF("Job"), .run = job_submit_run},
    {"GET", "/v1/jobs", "job_list", "jobs", "List jobs, the newest first", ACCESS_READ, 0, 200,
     .query = LIST_QUERY, .output = REF("JobPage"), .run = job_list_run},
    {"POST", "/v1/jobs/actions", "job_actions", "jobs", "Cancel, repeat or remove several jobs",
     ACCESS_USER, ROUTE_AUDIT, 200, .input = ACTIONS_INPUT, .output = ACTIONS_OUTPUT,
     .run = job_actions_run},
    {"GET", "/v1/jobs/{id}", "job_get", "jobs", "Read a job", ACCESS_READ, 0, 200,
     .output = REF("Job"), .run = job_get_run},
    {"DELETE", "/v1/jobs/{id}", "job_delete", "jobs",
     "Cancel a job that has not ended; remove one that has", ACCESS_USER, ROUTE_AUDIT, 200,
     .output = DELETE_OUTPUT, .run = job_delete_run},
    {"POST", "/v1/jobs/{id}/repeat", "job_repeat", "jobs", "Submit the same job again", ACCESS_USER,
     ROUTE_AUDIT, 201, .output = REF("Job"), .run = job_repeat_run},
    {"GET", "/v1/jobs/{id}/events", "job_events", "jobs",
     "Follow the events of a job, or read a page of them (Accept: application/json)", ACCESS_READ,
     ROUTE_SSE | ROUTE_NOTHING, 200, .query = JOB_EVENTS_QUERY, .output = REF("EventPage"),
     .run = job_events_run},
    {"GET", "/v1/jobs/{id}/log", "job_log", "jobs", "Read agent.log: a line per action",
     ACCESS_READ, ROUTE_BYTES, 200, .run = job_log_run},
    {"GET", "/v1/jobs/{id}/memory", "job_memory", "jobs", "Read memory.json: actions and results",
     ACCESS_READ, ROUTE_BYTES, 200, .run = job_memory_run},
    {"GET", "/v1/jobs/{id}/diff", "job_diff", "jobs",
     "Read the changes of the workspace, in git's format", ACCESS_READ, ROUTE_BYTES, 200,
     .run = job_diff_run},
    {"GET", "/v1/jobs/{id}/files", "job_files", "jobs", "List the artifacts of a job", ACCESS_READ,
     0, 200, .output = REF("FileList"), .run = job_files_run},
    {"GET", "/v1/jobs/{id}/files/{path*}", "job_file", "jobs", "Read an artifact", ACCESS_READ,
     ROUTE_BYTES, 200, .run = job_file_run},
    {"POST", "/v1/uploads", "upload_new", "uploads",
     "Upload a tar or zip for the workspace of a job", ACCESS_USER, ROUTE_UPLOAD | ROUTE_AUDIT, 201,
     .output = REF("Upload"), .run = upload_new_run},
    {"DELETE", "/v1/uploads/{id}", "upload_delete", "uploads", "Remove an upload", ACCESS_USER,
     ROUTE_AUDIT, 204, .run = upload_delete_run},
    {"POST", "/schedule", "schedule", "short forms", "Submit a job; a list of steps will do",
     ACCESS_USER, ROUTE_AUDIT, 200, .input = REF("TaskSubmission"), .output = TASK_ID_OUTPUT,
     .run = schedule_run},
    {"GET", "/status", "status", "short forms", "State and log of a job", ACCESS_READ, 0, 200,
     .query = STATUS_QUERY, .output = REF("TaskStatus"), .run = status_query_run},
    {"GET", "/status/{id}", "status_of", "short forms", "State and log of a job", ACCESS_READ, 0,
     200, .output = REF("TaskStatus"), .run = status_path_run},
    {0},
};
