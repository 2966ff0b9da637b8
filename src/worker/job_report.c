/*
 * Reports of jobs: see job_report.h.
 *
 * Events are numbered from 0 by their place in the report; the server says which number it expects
 * next, so that sending some twice is harmless. They wait a moment before they are sent, so that a
 * job which ends soon needs no request but /finish for them. What waits is bounded: of a job that
 * reports more than the server takes, events of progress are dropped first, then any.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io.h"
#include "job_report.h"
#include "json.h"
#include "thread.h"
#include "banned.h"

#define DUE_NS       (200 * NS_PER_MS)
#define RETRY_NS     NS_PER_S
#define EVENTS_MAX   4096u      /* that wait */
#define BYTES_MAX    (8u << 20) /* of them together */
#define BATCH_MAX    500u       /* of one request */
#define BATCH_BYTES  (1u << 20)
#define LOG_MAX      (4u << 20)   /* that waits */
#define LOG_INLINE   (256u << 10) /* more goes by a request of its own */
#define LOG_LINE_MAX 400u
#define MEMORY_MAX   (16u << 20)

struct job_report {
    pthread_mutex_t lock;    /* guards the lists */
    pthread_mutex_t sending; /* held during requests that carry events: they are ordered */
    json_t *events;          /* that the server has not confirmed */
    json_t *of_post;         /* see job_event_of_post(); NULL: none */
    uint64_t first;          /* the number of the first of them */
    size_t bytes;            /* of their texts, about */
    uint64_t dropped;
    int64_t due_ns; /* when they are to be sent; 0: there is none */
    struct buf log; /* not sent yet */
    uint64_t log_sent;
    json_t *actions;
    size_t actions_bytes;
};

struct job_report *job_report_new(struct job *j)
{
    struct job_report *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->sending, NULL);
    r->events = json_array();
    r->actions = json_array();
    r->log = BUF_INIT(LOG_MAX);
    return r->events && r->actions ? r : job_report_free(r);
}

struct job_report *job_report_free(struct job_report *r)
{
    if (!r)
        return NULL;
    json_decref(r->events);
    json_decref(r->of_post);
    json_decref(r->actions);
    buf_free(&r->log);
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->sending);
    free(r);
    return NULL;
}

static size_t event_size(const json_t *event)
{
    return json_dumpb(event, NULL, 0, JSON_COMPACT);
}

void job_event(struct job *j, json_t *event)
{
    struct job_report *r = j->report;
    _cleanup_json_ json_t *owned = event;
    if (!event)
        return;
    size_t n = event_size(event);
    bool full, minor = strcmp(json_get_string_or(event, "type", ""), "progress") == 0;
    {
        LOCKED(&r->lock);
        size_t count = json_array_size(r->events);
        full = count >= EVENTS_MAX || r->bytes + n > BYTES_MAX;
        if (full || (minor && (count >= EVENTS_MAX / 2 || r->bytes > BYTES_MAX / 2))) {
            r->dropped++;
            return;
        }
        if (json_array_append(r->events, event) < 0)
            return;
        r->bytes += n;
        if (r->due_ns)
            return;
        r->due_ns = clock_now() + DUE_NS;
    }
    struct worker *w = j->worker;
    LOCKED(&w->lock);
    pthread_cond_broadcast(&w->changed);
}

void job_event_of_post(struct job *j, json_t *event)
{
    json_decref(j->report->of_post);
    j->report->of_post = event;
}

bool job_report_is_due(struct job *j)
{
    struct job_report *r = j->report;
    LOCKED(&r->lock);
    return r->due_ns && clock_now() >= r->due_ns && !j->lease.lost;
}

/* The next events for a request: a new reference, and the number of the first. *ret_more: they are
 * not all. */
static json_t *report_batch(struct job_report *r, uint64_t *ret_first, bool *ret_more)
{
    LOCKED(&r->lock);
    json_t *batch = json_array(), *event;
    size_t i, bytes = 0;
    if (r->dropped && json_array_size(r->events) < EVENTS_MAX / 4) {
        char text[80];
        snprintf(text, sizeof text, "%" PRIu64 " events were dropped: there were too many",
                 r->dropped);
        if (json_array_append_new(r->events,
                                  json_pack("{s:s, s:s}", "type", "log", "text", text)) == 0)
            r->dropped = 0;
    }
    json_array_foreach(r->events, i, event)
    {
        bytes += event_size(event);
        if (i >= BATCH_MAX || (i > 0 && bytes > BATCH_BYTES))
            break;
        json_array_append(batch, event);
    }
    *ret_first = r->first;
    *ret_more = json_array_size(batch) < json_array_size(r->events);
    return batch;
}

/* The server has all events before number `next`. */
static void report_confirm(struct job_report *r, uint64_t next)
{
    LOCKED(&r->lock);
    while (r->first < next && json_array_size(r->events)) {
        size_t n = event_size(json_array_get(r->events, 0));
        r->bytes -= n < r->bytes ? n : r->bytes;
        json_array_remove(r->events, 0);
        r->first++;
    }
    r->due_ns = json_array_size(r->events) ? clock_now() + DUE_NS : 0;
}

static json_t *report_body(struct job *j, bool *ret_more, uint64_t *ret_next)
{
    uint64_t first;
    json_t *batch = report_batch(j->report, &first, ret_more);
    *ret_next = first + json_array_size(batch);
    return json_pack("{s:I, s:I, s:o}", "token", (json_int_t)j->lease.token, "first",
                     (json_int_t)first, "events", batch);
}

int job_report_send(struct job *j)
{
    struct job_report *r = j->report;
    _cleanup_free_ char *path = str_printf("/v1/worker/jobs/%s/events", j->lease.id);
    struct client_answer answer = {0};
    bool more;
    uint64_t next;
    if (pthread_mutex_trylock(&r->sending) != 0)
        return -EBUSY; /* the job itself sends them */
    _cleanup_(mutex_unlockp) pthread_mutex_t *locked __attribute__((unused)) = &r->sending;
    _cleanup_json_ json_t *body = report_body(j, &more, &next);
    if (!path || !body || !lease_is_held(&j->lease))
        return -EAGAIN;
    const struct client_call q = {.path = path, .body = body, .fd = -1, .cancel = j->worker->stop};
    int e = server_client_call(j->worker->client, &q, &answer, NULL);
    if (e == 0) {
        report_confirm(r, (uint64_t)json_get_integer(answer.json, "next"));
        json_decref(answer.json);
        return 0;
    }
    if (e == -ESTALE)
        lease_lose(&j->lease);
    pthread_mutex_lock(&r->lock);
    r->due_ns = clock_now() + RETRY_NS;
    pthread_mutex_unlock(&r->lock);
    return e;
}

/* Sends the lines of the log; repeated at the same offset they are recognized. */
static int report_send_log(struct job *j, struct error *err)
{
    struct job_report *r = j->report;
    if (r->log.len <= LOG_INLINE)
        return 0;
    _cleanup_fd_ int fd = io_memory_file(r->log.data, r->log.len);
    if (fd < 0)
        return error_errno(err, -fd, "cannot keep the log");
    int e = server_put(j->worker, &j->lease, "agent.log", "log", j->lease.log_size + r->log_sent,
                       fd, r->log.len, NULL, err);
    if (e == 0) {
        r->log_sent += r->log.len;
        r->log.len = 0;
        r->log.failed = false;
    }
    return e;
}

int job_report_post(struct job *j, const char *path, json_t *body, struct error *err)
{
    struct job_report *r = j->report;
    _cleanup_json_ json_t *owned = body;
    int e = report_send_log(j, err);
    if (e < 0)
        return e;
    LOCKED(&r->sending);
    if (r->of_post)
        job_event(j, TAKE_PTR(r->of_post)); /* the last one, so in the last request */
    for (bool more = true; more;) {
        uint64_t next;
        json_t *request = report_body(j, &more, &next);
        if (!more && r->log.len)
            json_object_set_new(request, "log",
                                json_pack("{s:I, s:o}", "offset",
                                          (json_int_t)(j->lease.log_size + r->log_sent), "text",
                                          text_json(r->log.data, r->log.len)));
        if (!request || (!more && json_object_update_missing(request, body) < 0)) {
            json_decref(request);
            return error_set(err, ENOMEM, "no memory");
        }
        e = server_post(j->worker, &j->lease, more ? "events" : path, request, NULL, err);
        if (e < 0)
            return e;
        report_confirm(r, next);
    }
    r->log_sent += r->log.len;
    r->log.len = 0;
    return 0;
}

/* --- the log and the memory --- */

/* "2026-11-18T19:54:03.123Z " */
static void log_put_time(struct buf *b)
{
    struct timespec t;
    struct tm utc;
    char text[40];
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    buf_printf(b, "%s.%03ldZ ", text, t.tv_nsec / 1000000);
}

/* The first line of a text that is not empty, without control characters. */
static void log_put_line(struct buf *b, const char *text, size_t n)
{
    while (n > 0 && (*text == '\n' || *text == ' ')) {
        text++;
        n--;
    }
    const char *end = n ? memchr(text, '\n', n) : NULL;
    _cleanup_free_ char *line = foreign_text(n ? text : "", end ? (size_t)(end - text) : n, 160);
    for (char *at = line; at && *at; at++)
        if (*at == '\t')
            *at = ' ';
    buf_append_str(b, line ? line : "");
}

void job_log(struct job *j, const char *fmt, ...)
{
    struct buf *log = &j->report->log;
    char text[LOG_LINE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log_put_time(log);
    log_put_line(log, text, strlen(text));
    buf_append(log, "\n", 1);
}

void job_remember(struct job *j, const char *tool, const json_t *input, const json_t *result)
{
    struct job_report *r = j->report;
    json_t *action = json_pack("{s:s, s:O, s:O}", "tool", tool, "input", input, "result", result);
    size_t n = action ? event_size(action) : 0;
    if (action && r->actions_bytes + n <= MEMORY_MAX && json_array_append(r->actions, action) == 0)
        r->actions_bytes += n;
    json_decref(action);
}

/* What the call is about: the first text of its input. */
static const char *input_subject(const json_t *input)
{
    static const char *const NAMES[] = {"command", "path", "code", "pattern", "query", "url"};
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
        if (json_get_string(input, NAMES[i]))
            return json_get_string(input, NAMES[i]);
    return "";
}

void job_action(struct job *j, const char *tool, const json_t *input, double seconds, bool failed,
                const char *text, size_t n)
{
    struct buf *log = &j->report->log;
    const char *subject = input_subject(input);
    log_put_time(log);
    buf_printf(log, "%.3fs %.60s ", seconds, tool);
    log_put_line(log, subject, strlen(subject));
    buf_append_str(log, failed ? " FAILED: " : " -> ");
    log_put_line(log, text, n);
    buf_append(log, "\n", 1);
}

static int report_send_memory(struct job *j, struct error *err)
{
    struct job_report *r = j->report;
    if (json_array_size(r->actions) == 0)
        return 0;
    _cleanup_json_ json_t *memory =
        json_pack("{s:s, s:O}", "job", j->lease.id, "actions", r->actions);
    char *text = memory ? json_dumps(memory, JSON_COMPACT) : NULL;
    _cleanup_free_ char *owned = text;
    _cleanup_fd_ int fd = text ? io_memory_file(text, strlen(text)) : -ENOMEM;
    if (fd < 0)
        return error_errno(err, -fd, "cannot keep the memory");
    return server_put(j->worker, &j->lease, "memory.json", "memory", 0, fd, strlen(text), NULL,
                      err);
}

/* --- the end --- */

void job_report_finish(struct job *j, struct job_outcome *o)
{
    struct job_lease *l = &j->lease;
    struct error err = {0};
    bool stopped = cancel_asked(l->cancel);
    bool release = stopped && !l->cancelled && !l->lost && !j->timed_out && (o->failed || j->live);
    const char *state = o->failed ? "failed" : "completed", *reason = o->exit_reason;
    if (!lease_is_held(l))
        return;
    if (o->failed && l->cancelled) {
        state = reason = "cancelled";
        o->error = (struct error){0};
        o->retry = false;
    } else if (o->failed && j->timed_out) {
        reason = "timeout";
        error_set(&o->error, ETIMEDOUT, "the job ran longer than its timeout");
        o->retry = false;
    } else if (!reason) {
        reason = o->failed ? "error" : "completed";
    }
    if (release)
        job_log(j, "the worker %s shuts down and gives the job back", j->worker->name);
    else if (o->failed)
        job_log(j, "%s%s%s%s", strcmp(state, "cancelled") == 0 ? "cancelled" : reason,
                o->error.code ? ": " : "", o->error.code ? o->error.text : "",
                o->retry ? " (may be tried again)" : "");
    int r = release || o->retry ? 0 : report_send_memory(j, &err);
    json_t *body = json_pack(
        "{s:s, s:s, s:s?, s:b, s:b, s:O?, s:O?, s:o, s:O?, s:O?}", "state", state, "exit_reason",
        reason, "error", o->error.code ? o->error.text : NULL, "retry", o->retry, "release",
        release, "result", o->result, "usage", o->usage, "cost",
        o->cost < 0 ? json_null() : json_real(o->cost), "plan", o->plan, "steps", o->steps);
    if (r == -ESTALE || !body) {
        json_decref(body);
        return;
    }
    job_report_post(j, "finish", body, &err);
}
