/* Who the caller is; and for admins: keys, users with their limits, the audit log. */
#include <errno.h>
#include <string.h>

#include "json.h"
#include "serve.h"
#include "banned.h"

#define AUDIT_DEFAULT 100

static json_t *limits_json(const struct user_limits *l)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "running", (json_int_t)l->running, "live",
                     (json_int_t)l->live, "per_second", (json_int_t)l->per_second, "stored",
                     (json_int_t)l->stored);
}

static void me_run(struct request *q)
{
    const struct caller *c = request_caller(q);
    respond_json(q, 200,
                 json_pack("{s:s?, s:s, s:s?, s:o}", "user", c->name, "role", role_name(c->role),
                           "key", c->key, "limits", limits_json(&c->limits)));
}

static void key_list_run(struct request *q)
{
    struct error err = {0};
    json_t *keys = NULL;
    if (keys_list(request_jobs(q), &keys, &err) < 0)
        respond_error(q, &err);
    else
        respond_json(q, 200, json_pack("{s:o}", "keys", keys));
}

static void key_new_run(struct request *q)
{
    const json_t *body = request_body(q);
    const char *name = json_get_string_or(body, "name", ""),
               *user = json_get_string_or(body, "user", name);
    enum role role = role_of(json_get_string_or(body, "role", "user"));
    struct error err = {0};
    _cleanup_free_ char *key = NULL;
    if (keys_new(request_jobs(q), name, user, role, &key, &err) < 0)
        respond_error(q, &err);
    else
        respond_json(q, 201,
                     json_pack("{s:s, s:s, s:s, s:s}", "key", key, "name", name, "user", user,
                               "role", role_name(role)));
}

static void key_delete_run(struct request *q)
{
    struct error err = {0};
    if (keys_remove(request_jobs(q), request_param(q, 0), &err) < 0)
        respond_error(q, &err);
    else
        respond_empty(q, 204);
}

static void user_list_run(struct request *q)
{
    struct error err = {0};
    json_t *users = NULL;
    if (users_list(request_jobs(q), &users, &err) < 0)
        respond_error(q, &err);
    else
        respond_json(q, 200, json_pack("{s:o}", "users", users));
}

static void user_set_run(struct request *q)
{
    struct error err = {0};
    if (users_set(request_jobs(q), request_param(q, 0), request_body(q), &err) < 0)
        respond_error(q, &err);
    else
        respond_empty(q, 204);
}

static void audit_list_run(struct request *q)
{
    struct error err = {0};
    json_t *lines = NULL;
    if (audit_list(request_jobs(q), request_query(q, "before"),
                   (unsigned)request_query_int(q, "limit", AUDIT_DEFAULT), &lines, &err) < 0)
        respond_error(q, &err);
    else
        respond_json(q, 200, json_pack("{s:o}", "audit", lines));
}

/* --- the table --- */

#define LIMIT(text)                                                                                \
    {                                                                                              \
        "type" : "integer", "minimum" : 0, "description" : text                                    \
    }
#define NAME_OF(text)                                                                              \
    {                                                                                              \
        "type" : "string", "pattern" : "^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$", "description" : text  \
    }
#define ROLES                                                                                      \
    {                                                                                              \
        "enum" : [ "admin", "user", "read-only", "worker" ]                                        \
    }
#undef false /* stdbool.h would make it 0 there */
#define SCHEMA_OF(...) SCHEMA(__VA_ARGS__)

#define LIMITS_INPUT                                                                               \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "additionalProperties" : false,                                                            \
        "properties" : {                                                                           \
            "running" : LIMIT("Jobs at once; 0: no limit."),                                       \
            "live" : LIMIT("Boxes, sessions, environments and MCP clients at once."),              \
            "per_second" : LIMIT("Requests per second."),                                          \
            "stored" : LIMIT("Bytes of jobs and uploads.")                                         \
        }                                                                                          \
    })
#define ME_OUTPUT                                                                                  \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : [ "user", "role", "key", "limits" ],                                          \
        "properties" : {                                                                           \
            "user" : {"type" : [ "string", "null" ]},                                              \
            "role" : ROLES,                                                                        \
            "key" : {"type" : [ "string", "null" ]},                                               \
            "limits" : {"type" : "object"}                                                         \
        }                                                                                          \
    })
#define KEY_INPUT                                                                                  \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : ["name"],                                                                     \
        "additionalProperties" : false,                                                            \
        "properties" : {                                                                           \
            "name" : NAME_OF("Of the key."),                                                       \
            "user" : NAME_OF("Whose key it is (default: name)."),                                  \
            "role" : ROLES                                                                         \
        }                                                                                          \
    })
#define KEY_OUTPUT                                                                                 \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : [ "key", "name", "user", "role" ],                                            \
        "properties" : {                                                                           \
            "key" : {"type" : "string", "description" : "Shown only here."},                       \
            "name" : {"type" : "string"},                                                          \
            "user" : {"type" : "string"},                                                          \
            "role" : ROLES                                                                         \
        }                                                                                          \
    })
#define KEYS_OUTPUT                                                                                \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : ["keys"],                                                                     \
        "properties" : {                                                                           \
            "keys" : {                                                                             \
                "type" : "array",                                                                  \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [ "id", "name", "user", "role" ],                                 \
                    "properties" : {                                                               \
                        "id" : {"type" : "string"},                                                \
                        "name" : {"type" : "string"},                                              \
                        "user" : {"type" : "string"},                                              \
                        "role" : ROLES                                                             \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define USERS_OUTPUT                                                                               \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : ["users"],                                                                    \
        "properties" : {                                                                           \
            "users" : {                                                                            \
                "type" : "array",                                                                  \
                "items" : {                                                                        \
                    "type" : "object",                                                             \
                    "required" : [ "name", "limits", "stored_bytes", "jobs", "cost" ],             \
                    "properties" : {                                                               \
                        "name" : {"type" : "string"},                                              \
                        "limits" : {"type" : "object"},                                            \
                        "stored_bytes" : {"type" : "integer"},                                     \
                        "jobs" : {"type" : "integer"},                                             \
                        "cost" : {"type" : [ "number", "null" ]}                                   \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    })
#define AUDIT_QUERY                                                                                \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "properties" : {                                                                           \
            "before" : {"type" : "string", "description" : "The ID of a line: only older ones."},  \
            "limit" : {"type" : "integer", "minimum" : 1, "maximum" : 1000}                        \
        }                                                                                          \
    })
#define AUDIT_OUTPUT                                                                               \
    SCHEMA_OF({                                                                                    \
        "type" : "object",                                                                         \
        "required" : ["audit"],                                                                    \
        "properties" : {"audit" : {"type" : "array", "items" : {"type" : "object"}}}               \
    })

const struct route ROUTES_ADMIN[] = {
    {"GET", "/v1/me", "me", "keys", "Who the key belongs to", ACCESS_READ, 0, 200, NULL, NULL,
     ME_OUTPUT, me_run},
    {"GET", "/v1/keys", "key_list", "keys", "List the keys, without their secrets", ACCESS_ADMIN, 0,
     200, NULL, NULL, KEYS_OUTPUT, key_list_run},
    {"POST", "/v1/keys", "key_new", "keys", "Make a key", ACCESS_ADMIN, ROUTE_AUDIT, 201, NULL,
     KEY_INPUT, KEY_OUTPUT, key_new_run},
    {"DELETE", "/v1/keys/{id}", "key_delete", "keys", "Remove a key, by its ID or name",
     ACCESS_ADMIN, ROUTE_AUDIT, 204, NULL, NULL, NULL, key_delete_run},
    {"GET", "/v1/users", "user_list", "users", "List the users", ACCESS_ADMIN, 0, 200, NULL, NULL,
     USERS_OUTPUT, user_list_run},
    {"PATCH", "/v1/users/{name}", "user_set", "users", "Set limits of a user; 0: none",
     ACCESS_ADMIN, ROUTE_AUDIT, 204, NULL, LIMITS_INPUT, NULL, user_set_run},
    {"GET", "/v1/audit", "audit_list", "users", "Read the audit log, the newest line first",
     ACCESS_ADMIN, 0, 200, AUDIT_QUERY, NULL, AUDIT_OUTPUT, audit_list_run},
    {0},
};
