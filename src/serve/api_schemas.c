/* The named schemas of /openapi.json: {"$ref": "#/components/schemas/NAME"} in a row of a route. */
#include <stddef.h>

#include "server.h"
#include "banned.h"

/* clang-format off: these are JSON. */
#undef false /* stdbool.h would make it 0 there */
#define SCHEMA_OF(...) SCHEMA(__VA_ARGS__)
#define ID             {"type": "string", "pattern": "^[0-9a-hjkmnp-tv-z]{20}$"}
#define TIME           {"type": ["string", "null"], "format": "date-time"}
#define MAYBE_TEXT     {"type": ["string", "null"]}
#define STATES         {"enum": ["scheduled", "running", "completed", "failed", "cancelled"]}
#define REASONS        {"enum": [null, "completed", "step_failed", "timeout", "cancelled", "worker_lost", \
                                 "dependency_failed", "gave_up", "error"]}

#define JOB_MEMBERS                                                                                \
    "id": ID,                                                                                      \
    "kind": {"enum": ["steps", "goal", "session", "box", "gym", "mcp"]},                           \
    "state": STATES,                                                                               \
    "title": {"type": "string"},                                                                   \
    "user": {"type": "string"},                                                                    \
    "priority": {"type": "integer"},                                                               \
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},                      \
    "created_at": TIME,                                                                            \
    "not_before": TIME,                                                                            \
    "started_at": TIME,                                                                            \
    "finished_at": TIME,                                                                           \
    "attempt": {"type": "integer", "minimum": 0, "description": "0 before the first."},            \
    "max_attempts": {"type": "integer"},                                                           \
    "steps_done": {"type": "integer"},                                                             \
    "steps_total": {"type": ["integer", "null"]},                                                  \
    "plan": {"type": ["array", "null"], "items": {}, "description": "Of the tool plan."},          \
    "exit_reason": REASONS,                                                                        \
    "error": MAYBE_TEXT,                                                                           \
    "usage": {"type": ["object", "null"]},                                                         \
    "cost": {"type": ["number", "null"], "description": "Dollars."},                               \
    "after": {"type": ["array", "null"], "items": ID},                                             \
    "worker": MAYBE_TEXT,                                                                          \
    "stored_bytes": {"type": "integer"}

#define SUBMISSION_MEMBERS                                                                         \
    "title": {"type": "string", "maxLength": 200},                                                 \
    "steps": {                                                                                     \
        "type": "array", "minItems": 1, "maxItems": 1000,                                          \
        "items": {                                                                                 \
            "type": "object",                                                                      \
            "required": ["tool"],                                                                  \
            "properties": {"tool": {"type": "string",                                              \
                "description": "A tool, or shell, python or typescript; its input stands beside."}} \
        }                                                                                          \
    },                                                                                             \
    "goal": {                                                                                      \
        "description": "A task for the agent: the text, or an object.",                            \
        "anyOf": [                                                                                 \
            {"type": "string"},                                                                    \
            {"type": "object",                                                                     \
             "required": ["prompt"],                                                               \
             "additionalProperties": false,                                                        \
             "properties": {                                                                       \
                "prompt": {"type": "string", "minLength": 1},                                      \
                "model": {"type": "string", "maxLength": 200},                                     \
                "max_turns": {"type": "integer", "minimum": 1},                                    \
                "max_tokens": {"type": "integer", "minimum": 1},                                   \
                "max_cost": {"type": "number", "exclusiveMinimum": 0},                             \
                "attempts": {"type": "integer", "minimum": 1, "maximum": 16},                      \
                "test": {"type": "string", "minLength": 1}                                         \
             }}                                                                                    \
        ]                                                                                          \
    },                                                                                             \
    "workspace": {"type": ["object", "null"],                                                      \
        "description": "{upload: ID}, {git: URL, ref} or {job: ID}; none: empty."},                \
    "box": {"type": ["object", "null"],                                                            \
        "description": "net, memory, disk, pids, files, cpus, timeout, env, image."},              \
    "artifacts": {"type": "array", "maxItems": 100,                                                \
        "items": {"type": "string", "minLength": 1, "maxLength": 1024},                            \
        "description": "Patterns of files to keep, like out/**."},                                 \
    "memory_from": MAYBE_TEXT,                                                                     \
    "after": {"type": "array", "maxItems": 1000, "items": {"type": "string"}},                     \
    "priority": {"type": "integer", "minimum": -100, "maximum": 100},                              \
    "max_attempts": {"type": "integer", "minimum": 1, "maximum": 20},                              \
    "timeout": {"type": ["string", "null"], "description": "90s, 10m, 2h"},                        \
    "not_before": {"type": ["string", "null"], "description": "RFC 3339."},                        \
    "keep": {"type": ["string", "null"], "description": "7d; how long the ended job stays."},      \
    "labels": {"type": "object", "maxProperties": 64, "propertyNames": {"maxLength": 64},          \
        "additionalProperties": {"type": "string", "maxLength": 256}}

const struct pair API_SCHEMAS[] = {
    {"Problem", SCHEMA_OF({
        "type": "object",
        "required": ["type", "title", "status", "detail", "request_id"],
        "properties": {
            "type": {"type": "string", "description": "urn:hutch:problem:NAME; does not change."},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "request_id": {"type": "string"}
        }
    })},
    {"Job", SCHEMA_OF({
        "type": "object",
        "required": ["id", "kind", "state", "title", "user", "attempt", "exit_reason", "error"],
        "properties": {
            JOB_MEMBERS,
            "spec": {"type": "object", "description": "The submission."},
            "result": {"description": "Any JSON. Of steps: a list of {tool, failed, text, data, seconds}."}
        }
    })},
    {"JobSummary", SCHEMA_OF({
        "type": "object",
        "required": ["id", "kind", "state", "title", "user", "attempt", "exit_reason", "error"],
        "properties": {JOB_MEMBERS}
    })},
    {"JobPage", SCHEMA_OF({
        "type": "object",
        "required": ["jobs", "next"],
        "properties": {
            "jobs": {"type": "array", "items": {"$ref": "#/components/schemas/JobSummary"}},
            "next": {"type": ["string", "null"], "description": "before= of the next page."}
        }
    })},
    {"JobSubmission", SCHEMA_OF({
        "type": "object",
        "additionalProperties": false,
        "properties": {SUBMISSION_MEMBERS}
    })},
    {"TaskSubmission", SCHEMA_OF({
        "description": "A job, or its steps.",
        "anyOf": [
            {"$ref": "#/components/schemas/JobSubmission"},
            {"type": "array", "minItems": 1, "maxItems": 1000,
             "items": {"type": "object", "required": ["tool"], "properties": {"tool": {"type": "string"}}}}
        ]
    })},
    {"TaskStatus", SCHEMA_OF({
        "type": "object",
        "required": ["task_id", "status", "log"],
        "properties": {
            "task_id": ID,
            "status": STATES,
            "log": {"type": "string", "description": "The end of agent.log."},
            "title": {"type": "string"},
            "error": MAYBE_TEXT,
            "exit_reason": REASONS,
            "result": {},
            "plan": {"type": ["array", "null"], "items": {}},
            "attempt": {"type": "integer"},
            "steps_done": {"type": "integer"},
            "steps_total": {"type": ["integer", "null"]},
            "created_at": TIME,
            "started_at": TIME,
            "finished_at": TIME
        }
    })},
    {"Event", SCHEMA_OF({
        "type": "object",
        "required": ["seq", "type"],
        "properties": {
            "seq": {"type": "integer"},
            "time": TIME,
            "attempt": {"type": "integer"},
            "type": {"type": "string"}
        }
    })},
    {"EventPage", SCHEMA_OF({
        "type": "object",
        "required": ["events", "next", "ended"],
        "properties": {
            "events": {"type": "array", "items": {"$ref": "#/components/schemas/Event"}},
            "next": {"type": "integer", "description": "after= of the next page."},
            "ended": {"type": "boolean"}
        }
    })},
    {"FileList", SCHEMA_OF({
        "type": "object",
        "required": ["files"],
        "properties": {
            "files": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["path", "size"],
                    "properties": {"path": {"type": "string"}, "size": {"type": "integer"}}
                }
            }
        }
    })},
    {"Upload", SCHEMA_OF({
        "type": "object",
        "required": ["id", "type", "size"],
        "properties": {"id": ID, "type": {"enum": ["tar", "zip"]}, "size": {"type": "integer"}}
    })},
    {NULL, NULL},
};
/* clang-format on */
