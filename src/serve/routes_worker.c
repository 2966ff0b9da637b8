/*
 * The protocol of workers, except for the channel of live jobs (live.c). docs/control-plane.md
 * describes it. The store checks every lease: a request of a lost one changes nothing and gets 409.
 */
#include <errno.h>
#include <string.h>

#include "io.h"
#include "json.h"
#include "serve.h"
#include "banned.h"

#define WAIT_MAX_MS 60000

static int wait_ms_of(const json_t *body)
{
    json_int_t ms = json_get_integer(body, "wait_ms");
    return ms < 0 ? 0 : ms > WAIT_MAX_MS ? WAIT_MAX_MS : (int)ms;
}

static struct lease lease_of_body(struct request *q)
{
    return (struct lease){request_param(q, 0),
                          (unsigned)json_get_integer(request_body(q), "token")};
}

static struct lease lease_of_query(struct request *q)
{
    return (struct lease){request_param(q, 0), (unsigned)request_query_int(q, "token", 0)};
}

/* Answers with the object, or with the problem if r is negative. */
static void worker_answer(struct request *q, int r, json_t *answer, const struct error *err)
{
    if (r < 0) {
        json_decref(answer);
        respond_error(q, err);
    } else {
        respond_json(q, 200, answer);
    }
}

static void worker_lease_run(struct request *q)
{
    const json_t *body = request_body(q);
    struct error err = {0};
    json_t *jobs = NULL;
    struct lease_request l = {.worker = json_get_string_or(body, "worker", ""),
                              .slots = (unsigned)json_get_integer(body, "slots"),
                              .live_slots = (unsigned)json_get_integer(body, "live_slots"),
                              .tasks = json_object_get(body, "tasks"),
                              .wait_ms = wait_ms_of(body),
                              .cancel = request_cancel(q)};
    int r = jobs_lease(request_jobs(q), &l, &jobs, &err);
    worker_answer(q, r, r < 0 ? NULL : json_pack("{s:o}", "jobs", jobs), &err);
}

static void worker_renew_run(struct request *q)
{
    const json_t *body = request_body(q);
    struct error err = {0};
    json_t *leases = NULL;
    int r = jobs_renew(request_jobs(q), json_get_string_or(body, "worker", ""),
                       json_object_get(body, "leases"), wait_ms_of(body), request_cancel(q),
                       &leases, &err);
    worker_answer(q, r, r < 0 ? NULL : json_pack("{s:o}", "leases", leases), &err);
}

static void worker_events_run(struct request *q)
{
    const json_t *body = request_body(q);
    const struct lease l = lease_of_body(q);
    struct error err = {0};
    uint64_t next = 0;
    int r = jobs_lease_events(request_jobs(q), &l, (uint64_t)json_get_integer(body, "first"),
                              json_object_get(body, "events"), &next, &err);
    worker_answer(q, r, json_pack("{s:I}", "next", (json_int_t)next), &err);
}

static void worker_step_run(struct request *q)
{
    const struct lease l = lease_of_body(q);
    struct error err = {0};
    int r = jobs_lease_step(request_jobs(q), &l, request_body(q), &err);
    worker_answer(q, r, json_object(), &err);
}

static void worker_finish_run(struct request *q)
{
    const struct lease l = lease_of_body(q);
    struct error err = {0};
    int r = jobs_lease_finish(request_jobs(q), &l, request_body(q), &err);
    worker_answer(q, r, json_object(), &err);
}

static void worker_resume_run(struct request *q)
{
    const struct lease l = lease_of_body(q);
    struct error err = {0};
    int r = jobs_lease_resume(request_jobs(q), &l, request_body(q), &err);
    worker_answer(q, r, json_object(), &err);
}

static void worker_file_run(struct request *q)
{
    const struct lease l = lease_of_query(q);
    struct error err = {0};
    char upload[JOB_ID_LEN + 1] = "";
    int fd = request_upload(q, NULL);
    int r = jobs_lease_file(request_jobs(q), &l, request_query(q, "kind"), request_param(q, 1),
                            (uint64_t)request_query_int(q, "offset", 0), fd, upload, &err);
    worker_answer(q, r, json_pack("{s:s?}", "id", *upload ? upload : NULL), &err);
}

static void worker_open_answer(struct request *q, const char *what)
{
    const struct lease l = lease_of_query(q);
    struct error err = {0};
    const char *type = "";
    int fd = -1;
    int r = jobs_lease_open(request_jobs(q), &l, what, &fd, &type, &err);
    if (r < 0)
        respond_error(q, &err);
    else if (fd < 0)
        respond_empty(q, 204);
    else
        respond_file(q, fd,
                     strcmp(type, "zip") == 0    ? "application/zip"
                     : strcmp(type, "json") == 0 ? "application/json"
                                                 : "application/x-tar",
                     NULL);
}

static void worker_workspace_run(struct request *q)
{
    worker_open_answer(q, "workspace");
}

static void worker_checkpoint_run(struct request *q)
{
    worker_open_answer(q, "checkpoint");
}

static void worker_memory_run(struct request *q)
{
    worker_open_answer(q, "memory");
}

/* --- the table --- */

#define WORKER_NAME                                                                                \
    {                                                                                              \
        "type" : "string", "minLength" : 1, "maxLength" : 200                                      \
    }
#define TOKEN                                                                                      \
    {                                                                                              \
        "type" : "integer", "minimum" : 1, "maximum" : 4294967295                                  \
    }
#define WAIT                                                                                       \
    {                                                                                              \
        "type" : "integer", "minimum" : 0                                                          \
    }
#define SLOTS                                                                                      \
    {                                                                                              \
        "type" : "integer", "minimum" : 0, "maximum" : 10000                                       \
    }
#define JOB_ID                                                                                     \
    {                                                                                              \
        "type" : "string", "maxLength" : 20                                                        \
    }
#define EVENT_LIST                                                                                 \
    {                                                                                              \
        "type" : "array", "maxItems" : 1000, "items":                                              \
        {                                                                                          \
            "type" : "object", "required" : ["type"], "properties":                                \
            {                                                                                      \
                "type":                                                                            \
                {                                                                                  \
                    "type" : "string", "minLength" : 1, "maxLength" : 40                           \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define NUMBER                                                                                     \
    {                                                                                              \
        "type" : "integer", "minimum" : 0                                                          \
    }
/* SCHEMA with its arguments' macros replaced. */
#undef false /* stdbool.h would make it 0 there */
#define SCHEMA_OF(...) SCHEMA(__VA_ARGS__)

#define LEASE_INPUT                                                                                \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : [ "worker", "slots" ],                                                        \
        "properties" : {                                                                           \
            "worker" : WORKER_NAME,                                                                \
            "slots" : SLOTS,                                                                       \
            "live_slots" : SLOTS,                                                                  \
            "tasks" : {"type" : "array", "maxItems" : 1000, "items" : {"type" : "string"}},        \
            "wait_ms" : WAIT                                                                       \
        }                                                                                          \
    })
#define LEASE_OUTPUT                                                                               \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : ["jobs"],                                                                     \
        "properties" : {                                                                           \
            "jobs" : {                                                                             \
                "type" : "array",                                                                  \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [                                                                 \
                        "job", "token", "kind", "user", "spec", "steps_done", "results",           \
                        "has_checkpoint", "log_size", "deadline_ms", "lease_ms", "resume"          \
                    ],                                                                             \
                    "properties" : {                                                               \
                        "job" : JOB_ID,                                                            \
                        "token" : TOKEN,                                                           \
                        "kind" : {"type" : "string"},                                              \
                        "user" : {"type" : "string"},                                              \
                        "spec" : {"type" : "object"},                                              \
                        "steps_done" : {"type" : "integer"},                                       \
                        "results" : {"type" : "array", "items" : {}},                              \
                        "has_checkpoint" : {"type" : "boolean"},                                   \
                        "log_size" : {"type" : "integer"},                                         \
                        "deadline_ms" : {"type" : [ "integer", "null" ]},                          \
                        "lease_ms" : {"type" : "integer"},                                         \
                        "resume" : {}                                                              \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define RENEW_INPUT                                                                                \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : [ "worker", "leases" ],                                                       \
        "properties" : {                                                                           \
            "worker" : WORKER_NAME,                                                                \
            "wait_ms" : WAIT,                                                                      \
            "leases" : {                                                                           \
                "type" : "array",                                                                  \
                "maxItems" : 10000,                                                                \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [ "job", "token" ],                                               \
                    "properties" : {                                                               \
                        "job" : JOB_ID,                                                            \
                        "token" : TOKEN,                                                           \
                        "kind" : {"type" : "string"},                                              \
                        "user" : {"type" : "string"},                                              \
                        "spec" : {"type" : "object"},                                              \
                        "steps_done" : {"type" : "integer"},                                       \
                        "results" : {"type" : "array", "items" : {}},                              \
                        "has_checkpoint" : {"type" : "boolean"},                                   \
                        "log_size" : {"type" : "integer"},                                         \
                        "deadline_ms" : {"type" : [ "integer", "null" ]},                          \
                        "lease_ms" : {"type" : "integer"},                                         \
                        "resume" : {}                                                              \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define RENEW_OUTPUT                                                                               \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : ["leases"],                                                                   \
        "properties" : {                                                                           \
            "leases" : {                                                                           \
                "type" : "array",                                                                  \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [ "job", "state" ],                                               \
                    "properties" :                                                                 \
                        {"job" : JOB_ID, "state" : {"enum" : [ "held", "lost", "cancel" ]}}        \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define EVENTS_INPUT                                                                               \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : [ "token", "first", "events" ],                                               \
        "properties" : {"token" : TOKEN, "first" : NUMBER, "events" : EVENT_LIST}                  \
    })
#define EVENTS_OUTPUT                                                                              \
    SCHEMA_OF({"type" : "object", "required" : ["next"], "properties" : {"next" : NUMBER}})
#define LOG_PIECE                                                                                  \
    {                                                                                              \
        "type" : "object", "required" : [ "offset", "text" ], "properties":                        \
        {                                                                                          \
            "offset" : NUMBER, "text":                                                             \
            {                                                                                      \
                "type" : "string"                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define STEP_INPUT                                                                                 \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : [ "token", "step", "result" ],                                                \
        "properties" : {                                                                           \
            "token" : TOKEN,                                                                       \
            "step" : NUMBER,                                                                       \
            "result" : {"type" : "object"},                                                        \
            "checkpoint" : {"type" : [ "string", "null" ]},                                        \
            "log" : LOG_PIECE,                                                                     \
            "first" : NUMBER,                                                                      \
            "events" : EVENT_LIST                                                                  \
        }                                                                                          \
    })
#define FINISH_INPUT                                                                               \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : [ "token", "state" ],                                                         \
        "properties" : {                                                                           \
            "token" : TOKEN,                                                                       \
            "state" : {"enum" : [ "completed", "failed", "cancelled" ]},                           \
            "exit_reason" : {"type" : [ "string", "null" ], "maxLength" : 40},                     \
            "error" : {"type" : [ "string", "null" ]},                                             \
            "retry" : {"type" : "boolean"},                                                        \
            "release" : {"type" : "boolean"},                                                      \
            "log" : LOG_PIECE,                                                                     \
            "usage" : {"type" : [ "object", "null" ]},                                             \
            "cost" : {"type" : [ "number", "null" ]},                                              \
            "plan" : {"type" : [ "array", "null" ]},                                               \
            "steps" : {"type" : [ "array", "null" ]},                                              \
            "first" : NUMBER,                                                                      \
            "events" : EVENT_LIST                                                                  \
        }                                                                                          \
    })
#define RESUME_INPUT                                                                               \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : [ "token", "resume" ],                                                        \
        "properties" : {"token" : TOKEN, "resume" : {"type" : [ "object", "null" ]}}               \
    })
#define FILE_QUERY                                                                                 \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : [ "token", "kind" ],                                                          \
        "properties" : {                                                                           \
            "token" : TOKEN,                                                                       \
            "offset" : NUMBER,                                                                     \
            "kind" : {"enum" : [ "artifact", "log", "memory", "diff", "workspace", "checkpoint" ]} \
        }                                                                                          \
    })
#define FILE_OUTPUT                                                                                \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : ["id"],                                                                       \
        "properties" : {"id" : {"type" : [ "string", "null" ]}}                                    \
    })
#define TOKEN_QUERY                                                                                \
    SCHEMA_OF({"type" : "object", "required" : ["token"], "properties" : {"token" : TOKEN}})
#define NOTHING SCHEMA({"type" : "object", "maxProperties" : 0})

const struct route ROUTES_WORKER[] = {
    {"POST", "/v1/worker/lease", "worker_lease", "workers", "Lease jobs; waits for some",
     ACCESS_WORKER, 0, 200, NULL, LEASE_INPUT, LEASE_OUTPUT, worker_lease_run},
    {"POST", "/v1/worker/renew", "worker_renew", "workers",
     "Renew leases; waits until one is not held any more", ACCESS_WORKER, 0, 200, NULL, RENEW_INPUT,
     RENEW_OUTPUT, worker_renew_run},
    {"POST", "/v1/worker/jobs/{id}/events", "worker_events", "workers", "Append events of a job",
     ACCESS_WORKER, 0, 200, NULL, EVENTS_INPUT, EVENTS_OUTPUT, worker_events_run},
    {"POST", "/v1/worker/jobs/{id}/step", "worker_step", "workers", "Finish a step", ACCESS_WORKER,
     0, 200, NULL, STEP_INPUT, NOTHING, worker_step_run},
    {"POST", "/v1/worker/jobs/{id}/finish", "worker_finish", "workers", "Finish a job",
     ACCESS_WORKER, 0, 200, NULL, FINISH_INPUT, NOTHING, worker_finish_run},
    {"POST", "/v1/worker/jobs/{id}/resume", "worker_resume", "workers",
     "Store what a next attempt needs", ACCESS_WORKER, 0, 200, NULL, RESUME_INPUT, NOTHING,
     worker_resume_run},
    {"PUT", "/v1/worker/jobs/{id}/files/{path*}", "worker_file", "workers", "Send a file of a job",
     ACCESS_WORKER, ROUTE_UPLOAD, 200, FILE_QUERY, NULL, FILE_OUTPUT, worker_file_run},
    {"GET", "/v1/worker/jobs/{id}/workspace", "worker_workspace", "workers",
     "The archive that a job begins with", ACCESS_WORKER, ROUTE_BYTES | ROUTE_NOTHING, 200,
     TOKEN_QUERY, NULL, NULL, worker_workspace_run},
    {"GET", "/v1/worker/jobs/{id}/checkpoint", "worker_checkpoint", "workers",
     "The workspace after the last finished step", ACCESS_WORKER, ROUTE_BYTES | ROUTE_NOTHING, 200,
     TOKEN_QUERY, NULL, NULL, worker_checkpoint_run},
    {"GET", "/v1/worker/jobs/{id}/memory", "worker_memory", "workers",
     "memory.json of the job that memory_from names", ACCESS_WORKER, ROUTE_BYTES | ROUTE_NOTHING,
     200, TOKEN_QUERY, NULL, NULL, worker_memory_run},
    {0},
};
