/* /openapi.json: the table of routes and the named schemas as OpenAPI 3.1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "banned.h"

static const struct pair TAGS[] = {
    {"jobs", "Units of work: lists of steps, or goals for an agent."},
    {"short forms", "The shortest way to submit a job and to ask for it."},
    {"uploads", "Archives that jobs begin with."},
    {"boxes", "Sandboxes that live until they are deleted or idle."},
    {"sessions", "Conversations with an agent."},
    {"tools", "The tools of the agents, called directly."},
    {"gym", "Training environments."},
    {"openenv", "The same in the shape that clients of OpenEnv expect."},
    {"mcp", "The Model Context Protocol over streamable HTTP."},
    {"keys", "Keys, and who the caller is."},
    {"users", "Users, their limits, and the audit log."},
    {"workers", "The protocol of workers (docs/control-plane.md)."},
    {"server", "Health, metrics and this description."},
};

static json_t *schema_load(const char *text)
{
    json_t *schema = json_loads(text, 0, NULL);
    return schema ? schema : json_object();
}

json_t *openapi_components(void)
{
    json_t *schemas = json_object();
    for (const struct pair *s = API_SCHEMAS; s->name; s++)
        json_object_set_new(schemas, s->name, schema_load(s->value));
    return json_pack("{s:o}", "schemas", schemas);
}

/* "/a/{path*}" → "/a/{path}", and its parameters. */
static void openapi_path(const char *path, char *out, size_t size, json_t *parameters)
{
    size_t n = 0;
    for (const char *p = path; *p && n + 1 < size; p++) {
        if (*p == '{')
            json_array_append_new(parameters, json_pack("{s:s%, s:s, s:b, s:{s:s}}", "name", p + 1,
                                                        strcspn(p + 1, "*}"), "in", "path",
                                                        "required", 1, "schema", "type", "string"));
        if (*p != '*')
            out[n++] = *p;
    }
    out[n] = 0;
}

static void openapi_query(const char *text, json_t *parameters)
{
    _cleanup_json_ json_t *schema = schema_load(text);
    const json_t *required = json_object_get(schema, "required");
    const char *name;
    json_t *property;
    json_object_foreach(json_object_get(schema, "properties"), name, property)
    {
        bool needed = false;
        for (size_t i = 0; i < json_array_size(required); i++)
            needed = needed || strcmp(json_string_value(json_array_get(required, i)), name) == 0;
        json_t *parameter =
            json_pack("{s:s, s:s, s:b, s:s*}", "name", name, "in", "query", "required", needed,
                      "description", json_get_string(property, "description"));
        json_t *plain = json_copy(property);
        json_object_del(plain, "description");
        json_object_set_new(parameter, "schema", plain);
        json_array_append_new(parameters, parameter);
    }
}

static json_t *content_of(const char *type, json_t *schema)
{
    return json_pack("{s:{s:o}}", type, "schema", schema);
}

static json_t *openapi_request_body(const struct route *r)
{
    if (r->input)
        return json_pack("{s:b, s:o}", "required", 1, "content",
                         content_of("application/json", schema_load(r->input)));
    if (r->flags & (ROUTE_UPLOAD | ROUTE_ANY_BODY))
        return json_pack("{s:b, s:o}", "required", 1, "content",
                         content_of("application/octet-stream", json_object()));
    return NULL;
}

static json_t *openapi_responses(const struct route *r)
{
    json_t *responses = json_object(), *content = json_object();
    char status[8];
    snprintf(status, sizeof status, "%d", r->flags & ROUTE_WEBSOCKET ? 101 : r->status);
    if (r->output)
        json_object_update_new(content, content_of("application/json", schema_load(r->output)));
    if (r->flags & ROUTE_SSE)
        json_object_update_new(
            content, content_of("text/event-stream", json_pack("{s:s}", "type", "string")));
    if (r->flags & ROUTE_BYTES)
        json_object_update_new(content, content_of("*/*", json_object()));
    json_t *success =
        json_pack("{s:s}", "description", r->flags & ROUTE_WEBSOCKET ? "A WebSocket." : "Success.");
    if (json_object_size(content) > 0)
        json_object_set(success, "content", content);
    json_decref(content);
    json_object_set_new(responses, status, success);
    if (r->flags & ROUTE_NOTHING)
        json_object_set_new(responses, "204",
                            json_pack("{s:s}", "description", "There is nothing (more)."));
    for (int i = 4; i <= 5; i++) {
        snprintf(status, sizeof status, "%dXX", i);
        json_object_set_new(responses, status,
                            json_pack("{s:s}", "$ref", "#/components/responses/Problem"));
    }
    return responses;
}

static json_t *openapi_operation(const struct route *r, json_t *parameters)
{
    static const char *const WHO[] = {[ACCESS_PUBLIC] = "Needs no key.",
                                      [ACCESS_READ] = "Any user's key.",
                                      [ACCESS_USER] = "A key of role user or admin.",
                                      [ACCESS_ADMIN] = "A key of role admin.",
                                      [ACCESS_WORKER] = "A key of role worker."};
    json_t *operation = json_pack("{s:s, s:s, s:s, s:[s]}", "operationId", r->operation, "summary",
                                  r->summary, "description", WHO[r->access], "tags", r->tag);
    if (json_array_size(parameters) > 0)
        json_object_set(operation, "parameters", parameters);
    json_t *body = openapi_request_body(r);
    if (body)
        json_object_set_new(operation, "requestBody", body);
    if (r->access == ACCESS_PUBLIC)
        json_object_set_new(operation, "security", json_array());
    json_object_set_new(operation, "responses", openapi_responses(r));
    return operation;
}

static void openapi_add(json_t *paths, const struct route *r)
{
    char path[256], method[16];
    json_t *parameters = json_array();
    openapi_path(r->path, path, sizeof path, parameters);
    if (r->query)
        openapi_query(r->query, parameters);
    if (!json_object_get(paths, path))
        json_object_set_new(paths, path, json_object());
    size_t n = 0;
    for (; r->method[n] && n + 1 < sizeof method; n++)
        method[n] = (char)(r->method[n] | 0x20);
    method[n] = 0;
    json_object_set_new(json_object_get(paths, path), method, openapi_operation(r, parameters));
    json_decref(parameters);
}

/* The tags that routes have, in the order above; others behind them. */
static json_t *openapi_tags(void)
{
    json_t *tags = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(TAGS); i++)
        for (size_t t = 0, found = 0; ROUTE_TABLES[t] && !found; t++)
            for (const struct route *r = ROUTE_TABLES[t]; r->method && !found; r++)
                if (strcmp(r->tag, TAGS[i].name) == 0 && (found = 1))
                    json_array_append_new(tags, json_pack("{s:s, s:s}", "name", TAGS[i].name,
                                                          "description", TAGS[i].value));
    return tags;
}

json_t *openapi_document(void)
{
    json_t *paths = json_object(), *components = openapi_components();
    for (size_t t = 0; ROUTE_TABLES[t]; t++)
        for (const struct route *r = ROUTE_TABLES[t]; r->method; r++)
            openapi_add(paths, r);
    json_object_set_new(
        components, "responses",
        json_pack("{s:{s:s, s:o}}", "Problem", "description", "A problem (RFC 9457).", "content",
                  content_of("application/problem+json",
                             json_pack("{s:s}", "$ref", "#/components/schemas/Problem"))));
    json_object_set_new(components, "securitySchemes",
                        json_pack("{s:{s:s, s:s, s:s}, s:{s:s, s:s}}", "apiKey", "type", "apiKey",
                                  "in", "header", "name", "X-API-Key", "bearer", "type", "http",
                                  "scheme", "bearer"));
    return json_pack(
        "{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:[{s:s, s:s}], s:[{s:[]}, {s:[]}], s:o, s:o, s:o}",
        "openapi", "3.1.0", "info", "title", "hutch", "version", HUTCH_VERSION, "description",
        "Jobs, sandboxes, agents and training environments. Keys are sent as X-API-Key or as "
        "Authorization: Bearer; over HTTP/2 only the latter is read. Problems of a WebSocket that "
        "are found after the handshake come as close code 4000 + status.",
        "license", "name", "MIT", "identifier", "MIT", "servers", "url", "/", "description",
        "This server.", "security", "apiKey", "bearer", "tags", openapi_tags(), "paths", paths,
        "components", components);
}
