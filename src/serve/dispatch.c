/* From the head of a request to its route's function, and what is checked on the way. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server.h"
#include "banned.h"

#define IGNORED_BODY_MAX (64u << 10) /* of a body that the route has no use for */

#define ROUTES(table) extern const struct route table[];
#include "routes.def"
#undef ROUTES
#define ROUTES(table) table,
const struct route *const ROUTE_TABLES[] = {
#include "routes.def"
    NULL,
};

/* --- the table, made ready --- */

struct ready_route {
    const struct route *route;
    json_t *query, *input; /* parsed once: or NULL */
};

struct dispatch {
    size_t n;
    struct ready_route routes[];
};

static int schema_parse(const char *text, const struct route *r, json_t **ret, struct error *err)
{
    json_error_t at;
    if (!text)
        return 0;
    *ret = json_loads(text, 0, &at);
    if (!*ret)
        return error_set(err, EINVAL, "the schema of %s is not JSON: %s near: %.60s", r->operation,
                         at.text, at.position > 20 ? text + at.position - 20 : text);
    if (strstr(text, "#/components/"))
        json_object_set_new(*ret, "components", openapi_components());
    return 0;
}

int dispatch_new(struct dispatch **ret, struct error *err)
{
    size_t n = 0;
    for (size_t t = 0; ROUTE_TABLES[t]; t++)
        for (const struct route *r = ROUTE_TABLES[t]; r->method; r++)
            n++;
    struct dispatch *d = calloc(1, sizeof *d + n * sizeof d->routes[0]);
    int failed = d ? 0 : error_set(err, ENOMEM, "out of memory");
    for (size_t t = 0; d && ROUTE_TABLES[t] && !failed; t++)
        for (const struct route *r = ROUTE_TABLES[t]; r->method && !failed; r++) {
            struct ready_route *row = &d->routes[d->n++];
            row->route = r;
            failed = schema_parse(r->query, r, &row->query, err);
            if (!failed)
                failed = schema_parse(r->input, r, &row->input, err);
        }
    if (failed) {
        dispatch_free(d);
        return failed;
    }
    *ret = d;
    return 0;
}

void dispatch_free(struct dispatch *d)
{
    for (size_t i = 0; d && i < d->n; i++) {
        json_decref(d->routes[i].query);
        json_decref(d->routes[i].input);
    }
    free(d);
}

/* Does the path fit the pattern? Parameters are offsets into the path. */
static bool path_fits(const char *pattern, const char *path, size_t at[ROUTE_PARAMS_MAX],
                      size_t size[ROUTE_PARAMS_MAX])
{
    const char *p = path;
    unsigned n = 0;
    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *p++)
                return false;
            continue;
        }
        const char *end = strchr(pattern, '}');
        size_t length = end[-1] == '*' ? strlen(p) : strcspn(p, "/");
        if (length == 0 || n == ROUTE_PARAMS_MAX)
            return false;
        at[n] = (size_t)(p - path);
        size[n++] = length;
        p += length;
        pattern = end + 1;
    }
    return *p == 0;
}

/* Copies of the parameters: the path itself stays as it is, for the log. */
static bool request_set_params(struct request *q, const size_t at[], const size_t size[])
{
    for (unsigned i = 0; i < ROUTE_PARAMS_MAX && size[i]; i++)
        if (!(q->params[i] = strndup(q->path + at[i], size[i])))
            return false;
    return true;
}

/* 404, or 405 with the methods that the path has. */
static bool dispatch_find(struct request *q)
{
    const struct dispatch *d = q->serve->dispatch;
    char allowed[100] = "";
    size_t used = 0;
    for (size_t i = 0; i < d->n; i++) {
        const struct route *r = d->routes[i].route;
        size_t at[ROUTE_PARAMS_MAX] = {0}, size[ROUTE_PARAMS_MAX] = {0};
        if (!path_fits(r->path, q->path, at, size))
            continue;
        if (strcmp(r->method, q->head ? "GET" : q->method) == 0) {
            q->route = r;
            q->ready_route = &d->routes[i];
            if (request_set_params(q, at, size))
                return true;
            respond_problem(q, 503, "no-memory", "out of memory");
            return false;
        }
        if (!strstr(allowed, r->method) && used + strlen(r->method) + 3 < sizeof allowed)
            used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s",
                                     used ? ", " : "", r->method);
    }
    if (!used) {
        respond_problem(q, 404, "not-found", "there is no such path; see /docs");
        return false;
    }
    respond_header(q, "Allow", allowed);
    respond_problem(q, 405, "method-not-allowed", "this path allows %s", allowed);
    return false;
}

/* --- checks of the head --- */

/* A plain one of the client replaces ours. */
static void request_take_id(struct request *q)
{
    static const char PLAIN[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *given = request_header(q, "x-request-id");
    size_t n = given ? strlen(given) : 0;
    if (n > 0 && n <= REQUEST_ID_MAX && strspn(given, PLAIN) == n)
        memcpy(q->id, given, n + 1);
}

static bool dispatch_refuse(struct request *q, int status, const char *type, const char *detail)
{
    q->close_after = true;
    respond_problem(q, status, type, "%s", detail);
    return false;
}

/* A length, and one only: two readings of where a request ends are how requests are smuggled. */
static bool dispatch_check_length(struct request *q)
{
    const char *length = request_header(q, "content-length");
    bool encoded =
        request_header(q, "transfer-encoding") || request_header(q, "transfer-encoding ");
    if (encoded)
        return dispatch_refuse(q, length ? 400 : 411, length ? "bad-request" : "length-required",
                               length ? "Content-Length and Transfer-Encoding exclude each other"
                                      : "send Content-Length instead of Transfer-Encoding");
    if (!length) {
        /* libwebsockets would wait for a body of 100 MiB. */
        q->close_after = strcmp(q->method, "POST") == 0 || strcmp(q->method, "PUT") == 0 ||
                         strcmp(q->method, "PATCH") == 0;
        return true;
    }
    size_t n = strlen(length);
    if (n == 0 || n > 18 || strspn(length, "0123456789") != n)
        return dispatch_refuse(q, 400, "bad-request", "Content-Length is not a number");
    q->body_size = strtoull(length, NULL, 10);
    return true;
}

static bool dispatch_check_host(struct request *q)
{
    const char *host = request_header(q, "host");
    if (q->local || (host && auth_host_allowed(q->serve, host)))
        return true;
    return dispatch_refuse(
        q, 421, "wrong-host",
        "the Host header is not a name of this server (hutch serve --host NAME)");
}

/* An OPTIONS request of a browser before one from another origin. */
static bool dispatch_answer_preflight(struct request *q)
{
    const char *origin = request_header(q, "origin");
    if (strcmp(q->method, "OPTIONS") != 0 || !origin)
        return false;
    if (auth_origin_allowed(q->serve, origin)) {
        respond_header(q, "access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE");
        respond_header(q, "access-control-allow-headers",
                       "Authorization, X-API-Key, Content-Type, Idempotency-Key, Last-Event-ID, "
                       "X-Request-Id, Mcp-Session-Id, Mcp-Protocol-Version");
        respond_header(q, "access-control-max-age", "600");
        respond_empty(q, 204);
    } else {
        respond_problem(q, 403, "wrong-origin",
                        "this origin is not allowed (hutch serve --origin)");
    }
    return true;
}

static bool dispatch_check_size(struct request *q)
{
    const struct route *r = q->route;
    if (r->flags & ROUTE_UPLOAD && !request_header(q, "content-length"))
        return dispatch_refuse(q, 411, "length-required", "send Content-Length");
    uint64_t max = r->flags & ROUTE_UPLOAD                 ? q->serve->max_upload
                   : r->input || r->flags & ROUTE_ANY_BODY ? q->serve->max_body
                                                           : IGNORED_BODY_MAX;
    if (q->body_size <= max)
        return true;
    q->close_after = true;
    respond_problem(q, 413, "too-large", "the body has more than %llu bytes",
                    (unsigned long long)max);
    return false;
}

static json_t *query_value(const json_t *property, const char *text)
{
    const char *type = json_get_string_or(property, "type", "string");
    char *end = NULL;
    if (strcmp(type, "integer") == 0) {
        errno = 0;
        long long number = strtoll(text, &end, 10);
        bool plain = *text && strspn(text, "-0123456789") == strlen(text) && !*end && errno == 0;
        return plain ? json_integer(number) : json_string(text);
    }
    if (strcmp(type, "boolean") == 0 && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
        return json_boolean(*text == 't');
    return json_string(text);
}

static bool dispatch_check_query(struct request *q)
{
    const json_t *schema = q->ready_route->query,
                 *properties = json_object_get(schema, "properties");
    _cleanup_json_ json_t *value = json_object();
    struct error err = {0};
    for (size_t i = 0; i < q->n_query; i++) {
        const json_t *property = json_object_get(properties, q->query[i].name);
        if (!property || json_object_get(value, q->query[i].name)) {
            respond_problem(q, 400, "bad-query", "%s: %s", q->query[i].name,
                            property ? "occurs twice" : "there is no such parameter");
            return false;
        }
        json_object_set_new(value, q->query[i].name, query_value(property, q->query[i].value));
    }
    if (!schema || schema_check(schema, value, "the query", &err) == 0)
        return true;
    respond_problem(q, 400, "bad-query", "%s", err.text);
    return false;
}

bool dispatch_begin(struct request *q)
{
    request_take_id(q);
    if (q->serve->stopping && !q->local)
        return dispatch_refuse(q, 503, "stopping", "the server is shutting down");
    return dispatch_check_length(q) && dispatch_check_host(q) && !dispatch_answer_preflight(q) &&
           dispatch_find(q) && auth_has_key(q) && dispatch_check_size(q) && dispatch_check_query(q);
}

/* --- the function --- */

static bool dispatch_parse_body(struct request *q)
{
    const struct route *r = q->route;
    struct error err = {0};
    json_error_t at;
    if (!r->input || r->flags & (ROUTE_UPLOAD | ROUTE_ANY_BODY))
        return true;
    if (q->body.len == 0) {
        respond_problem(q, 400, "bad-request", "the body must be JSON");
        return false;
    }
    if (json_count_values((const char *)q->body.data, q->body.len, BODY_VALUES_MAX) >
        BODY_VALUES_MAX) {
        respond_problem(q, 413, "too-large", "the body has more than %u values", BODY_VALUES_MAX);
        return false;
    }
    q->json = json_loadb((const char *)q->body.data, q->body.len,
                         JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at);
    buf_free(&q->body);
    if (!q->json) {
        respond_problem(q, 400, "bad-request", "the body is not JSON: %s (line %d)", at.text,
                        at.line);
        return false;
    }
    if (schema_check(q->ready_route->input, q->json, "the body", &err) < 0) {
        respond_problem(q, 422, "invalid-content", "%s", err.text);
        return false;
    }
    return true;
}

/* The function returned. */
static void dispatch_finish(struct request *q)
{
    if (!q->answer)
        respond_problem(q, 500, "internal", "the server has no answer");
    if (q->route->flags & ROUTE_AUDIT)
        audit_add(q->serve->jobs, q->caller.name, q->caller.key, q->address, q->route->operation,
                  q->params[0] ? q->params[0] : q->path, q->status);
    LOCKED(&q->lock);
    if (!q->feed)
        q->finished = true;
    if ((q->answer == ANSWER_STREAM || q->ws) && !q->gone)
        loop_wake(q);
}

bool dispatch_spool(struct request *q)
{
    struct error err = {0};
    if (!(q->route->flags & ROUTE_UPLOAD) || q->upload >= 0 ||
        jobs_spool(q->serve->jobs, &q->upload, &err) == 0)
        return true;
    respond_error(q, &err);
    return false;
}

static void dispatch_call(void *data)
{
    struct request *q = data;
    if ((q->authenticated || auth_check(q)) && dispatch_spool(q) && dispatch_parse_body(q)) {
        if (q->route->access == ACCESS_WORKER)
            q->serve->worker_seen = (uint64_t)clock_now();
        if (q->upload >= 0)
            lseek(q->upload, 0, SEEK_SET);
        q->route->run(q);
    }
    dispatch_finish(q);
    request_unref(q);
}

void dispatch_run(struct request *q)
{
    request_ref(q);
    if (q->route->flags & ROUTE_INLINE && q->route->access == ACCESS_PUBLIC) {
        q->route->run(q);
        dispatch_finish(q);
        request_unref(q);
    } else if (pool_submit(q->serve->pool, q->route->access == ACCESS_WORKER, dispatch_call, q) <
               0) {
        respond_busy(q);
        request_unref(q);
    }
}
