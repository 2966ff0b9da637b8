/* About the server itself: health, metrics, and the description of the routes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "docs_page.h"
#include "server.h"
#include "banned.h"

#define WORKER_SEEN_SECONDS 60

static void healthz_run(struct request *q)
{
    respond_bytes(q, 200, "application/json", "{\"status\":\"ok\"}\n", 16);
}

/* Can it do its work: does the store write, and has a worker asked for jobs lately? */
static void readyz_run(struct request *q)
{
    struct serve *s = request_serve(q);
    struct error err = {0};
    _cleanup_json_ json_t *health = NULL;
    int64_t seen = (int64_t)s->worker_seen;
    bool worker = seen && clock_now() - seen < WORKER_SEEN_SECONDS * NS_PER_S;
    if (jobs_health(request_jobs(q), &health, &err) < 0)
        respond_problem(q, 503, "store", "%s", err.text);
    else if (!worker)
        respond_problem(q, 503, "no-worker", "no worker has asked for jobs in the last minute");
    else
        respond_json(q, 200, json_pack("{s:s}", "status", "ready"));
}

static void metric_put(struct buf *b, const char *name, const char *type, const char *help,
                       double value)
{
    buf_printf(b, "# HELP hutch_%s %s\n# TYPE hutch_%s %s\nhutch_%s %.15g\n", name, help, name,
               type, name, value);
}

static void metrics_run(struct request *q)
{
    static const struct pair HEALTH[] = {{"commits", "Commits of the store"},
                                         {"commit_ms", "Milliseconds of the last commit"},
                                         {"batch", "Changes in the last commit"},
                                         {NULL, NULL}};
    static const char *const STATES[] = {"scheduled", "running", "completed", "failed",
                                         "cancelled"};
    struct serve *s = request_serve(q);
    struct error err = {0};
    _cleanup_json_ json_t *health = NULL;
    _cleanup_buf_ struct buf b = BUF_INIT(64u << 10);
    bool writes = jobs_health(request_jobs(q), &health, &err) == 0;
    metric_put(&b, "store_writes", "gauge", "1: the store can write", writes);
    buf_append_str(&b, "# HELP hutch_jobs Jobs by state\n# TYPE hutch_jobs gauge\n");
    for (size_t i = 0; i < ARRAY_SIZE(STATES); i++)
        buf_printf(&b, "hutch_jobs{state=\"%s\"} %lld\n", STATES[i],
                   (long long)json_get_integer(health, STATES[i]));
    for (const struct pair *p = HEALTH; p->name; p++)
        if (json_is_number(json_object_get(health, p->name))) {
            char name[64];
            snprintf(name, sizeof name, "store_%s", p->name);
            metric_put(&b, name, "gauge", p->value,
                       json_number_value(json_object_get(health, p->name)));
        }
    buf_append_str(&b, "# HELP hutch_http_requests_total Requests by class of their status\n"
                       "# TYPE hutch_http_requests_total counter\n");
    for (int i = 1; i < 6; i++)
        buf_printf(&b, "hutch_http_requests_total{status=\"%dxx\"} %llu\n", i,
                   (unsigned long long)s->n_status[i]);
    metric_put(&b, "http_bytes_total", "counter", "Bytes of answers", (double)s->n_bytes);
    metric_put(&b, "http_seconds_total", "counter", "Seconds that requests took",
               (double)s->busy_us / 1e6);
    metric_put(&b, "http_connections", "gauge", "Open connections", s->connections);
    metric_put(&b, "http_threads", "gauge", "Threads that run functions", pool_busy(s->pool));
    respond_bytes(q, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.len);
}

static void openapi_run(struct request *q)
{
    respond_json(q, 200, openapi_document());
}

static void docs_run(struct request *q)
{
    respond_header(q, "content-security-policy",
                   "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
                   "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    respond_bytes(q, 200, "text/html; charset=utf-8", DOCS_HTML, sizeof DOCS_HTML - 1);
}

static void docs_script_run(struct request *q)
{
    respond_bytes(q, 200, "text/javascript; charset=utf-8", DOCS_JS, sizeof DOCS_JS - 1);
}

static void docs_style_run(struct request *q)
{
    respond_bytes(q, 200, "text/css; charset=utf-8", DOCS_CSS, sizeof DOCS_CSS - 1);
}

#define STATUS_OUTPUT                                                                              \
    SCHEMA({                                                                                       \
        "type" : "object",                                                                         \
        "required" : ["status"],                                                                   \
        "properties" : {"status" : {"type" : "string"}}                                            \
    })

const struct route ROUTES_SERVER[] = {
    {"GET", "/healthz", "healthz", "server", "Is the server there?", ACCESS_PUBLIC, ROUTE_INLINE,
     200, .output = STATUS_OUTPUT, .run = healthz_run},
    {"GET", "/readyz", "readyz", "server", "Does the store write, and is there a worker?",
     ACCESS_PUBLIC, 0, 200, .output = STATUS_OUTPUT, .run = readyz_run},
    {"GET", "/metrics", "metrics", "server", "Metrics for Prometheus", ACCESS_ADMIN, ROUTE_BYTES,
     200, .run = metrics_run},
    {"GET", "/openapi.json", "openapi", "server", "This description, as OpenAPI 3.1", ACCESS_PUBLIC,
     0, 200, .output = SCHEMA({"type" : "object"}), .run = openapi_run},
    {"GET", "/docs", "docs", "server", "This description as a page", ACCESS_PUBLIC,
     ROUTE_INLINE | ROUTE_BYTES, 200, .run = docs_run},
    {"GET", "/docs/page.js", "docs_script", "server", "The script of the page", ACCESS_PUBLIC,
     ROUTE_INLINE | ROUTE_BYTES, 200, .run = docs_script_run},
    {"GET", "/docs/page.css", "docs_style", "server", "The style of the page", ACCESS_PUBLIC,
     ROUTE_INLINE | ROUTE_BYTES, 200, .run = docs_style_run},
    {0},
};
