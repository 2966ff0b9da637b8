/*
 * Boxes over HTTP: /v1/boxes and what is beneath it. A box is a live job of kind `box`; its worker
 * does everything in it (live_box.c of the worker). Here are what clients may write, and how bytes
 * and events of a call become an answer.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "job_spec.h"
#include "json.h"
#include "options.h"
#include "relpath.h"
#include "serve.h"
#include "thread.h"
#include "banned.h"

#define TTL_DEFAULT    "15m"
#define TTL_MIN_NS     (10 * NS_PER_S)
#define TTL_MAX_NS     (24 * 3600 * NS_PER_S)
#define CALL_MS        120000 /* for calls that take no time of the client's own */
#define READY_MS       30000  /* POST /v1/boxes waits so long for the box */
#define FORKS_MAX      16
#define LIST_DEFAULT   50
#define PATH_BYTES_MAX 4096
#define UPLOAD_PIECE   (64u << 10)
#define TERMINAL_INPUT (64u << 10) /* one message of a terminal's client */
#define TERMINAL_POLL  4000 /* then it counts as a use of the box: well below the shortest ttl */

/* --- the box as clients read it --- */

static json_t *box_of_job(const json_t *job)
{
    static const char *const MEMBERS[] = {"id",          "state",      "title",      "labels",
                                          "user",        "created_at", "started_at", "finished_at",
                                          "exit_reason", "error",      "worker"};
    static const char *const OF_SPEC[] = {"box", "workspace", "ttl", "fork_of"};
    const json_t *spec = json_object_get(job, "spec");
    json_t *box = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(MEMBERS); i++) {
        json_t *value = json_object_get(job, MEMBERS[i]);
        json_object_set_new(box, MEMBERS[i], value ? json_incref(value) : json_null());
    }
    for (size_t i = 0; spec && i < ARRAY_SIZE(OF_SPEC); i++) {
        json_t *value = json_object_get(spec, OF_SPEC[i]);
        json_object_set_new(box, OF_SPEC[i], value ? json_incref(value) : json_null());
    }
    return box;
}

static int box_get(struct request *q, const char *id, json_t **ret_job, struct error *err)
{
    json_t *job;
    int r = jobs_get(request_jobs(q), request_caller(q)->user, id, &job, err);
    if (r < 0)
        return r;
    if (strcmp(json_get_string_or(job, "kind", ""), "box") != 0) {
        json_decref(job);
        return error_set(err, ENOENT, "there is no box '%.40s'", id);
    }
    *ret_job = job;
    return 0;
}

static void box_answer(struct request *q, const char *id, int status)
{
    struct error err = {0};
    _cleanup_json_ json_t *job = NULL;
    if (box_get(q, id, &job, &err) < 0)
        respond_error(q, &err);
    else
        respond_json(q, status, box_of_job(job));
}

/* One call of which nothing but the answer matters. */
static void box_call(struct request *q, const char *op, json_t *input, int timeout_ms)
{
    struct error err = {0};
    struct live_result result;
    if (live_call(q, request_param(q, 0), op, input, NULL, timeout_ms, &result, &err) < 0)
        respond_error(q, &err);
    else
        respond_live(q, &result);
}

/* --- making and ending them --- */

/* The spec that is stored. -EINVAL. */
static int box_spec_of(struct request *q, json_t **ret, int64_t *ret_ttl_ms, struct error *err)
{
    const json_t *body = request_body(q);
    const char *ttl = json_get_string_or(body, "ttl", TTL_DEFAULT);
    const json_t *workspace = json_object_get(body, "workspace");
    _cleanup_json_ json_t *options = NULL;
    int64_t ns;
    if (units_parse_time(ttl, &ns) < 0 || ns < TTL_MIN_NS || ns > TTL_MAX_NS)
        return error_set(err, EINVAL, "ttl: must be a time from 10s to 24h, such as 15m");
    int r = workspace ? job_spec_check_workspace(workspace, err) : 0;
    if (r == 0)
        r = job_spec_check_box(json_object_get(body, "box"), request_caller(q)->role == ROLE_ADMIN,
                               "box", &options, err);
    if (r < 0)
        return r;
    json_t *spec = json_pack(
        "{s:s, s:s, s:O*, s:O*, s:O*}", "title", json_get_string_or(body, "title", "box"), "ttl",
        ttl, "labels", json_object_get(body, "labels"), "workspace", workspace, "box", options);
    *ret_ttl_ms = ns / NS_PER_MS;
    *ret = spec;
    return spec ? 0 : error_set(err, ENOMEM, "no memory");
}

static struct job_submission box_submission(struct request *q, const json_t *spec, int64_t ttl_ms)
{
    const struct caller *c = request_caller(q);
    return (struct job_submission){.user = c->name,
                                   .kind = "box",
                                   .spec = spec,
                                   .ttl_ms = ttl_ms,
                                   .max_live = c->limits.live,
                                   .max_stored = c->limits.stored};
}

static void box_new_run(struct request *q)
{
    struct error err = {0};
    _cleanup_json_ json_t *spec = NULL;
    _cleanup_live_result_ struct live_result result = {0};
    char id[JOB_ID_LEN + 1], location[sizeof "/v1/boxes/" + JOB_ID_LEN];
    int64_t ttl_ms = 0;
    bool existed = false;
    if (box_spec_of(q, &spec, &ttl_ms, &err) < 0) {
        respond_problem(q, 422, "invalid-box", "%s", err.text);
        return;
    }
    struct job_submission s = box_submission(q, spec, ttl_ms);
    s.idempotency = request_header(q, "idempotency-key");
    if (jobs_submit(request_jobs(q), &s, id, &existed, &err) < 0) {
        respond_error(q, &err);
        return;
    }
    /* The box is given to a client who can use it at once, if a worker has room for it now. */
    const json_t *wait = json_object_get(request_body(q), "wait");
    int r =
        json_is_false(wait) ? 0 : live_call(q, id, "box/info", NULL, NULL, READY_MS, &result, &err);
    if (r == -ECANCELED && !existed) {
        jobs_cancel(request_jobs(q), NULL, id, NULL); /* no client has its ID */
        return;
    }
    if (r == -EALREADY) {
        respond_problem(q, 409, "box-failed", "%s", err.text);
        return;
    }
    snprintf(location, sizeof location, "/v1/boxes/%s", id);
    respond_header(q, "Location", location);
    box_answer(q, id, 201);
}

static void box_get_run(struct request *q)
{
    box_answer(q, request_param(q, 0), 200);
}

static void box_list_run(struct request *q)
{
    const struct caller *c = request_caller(q);
    struct error err = {0};
    _cleanup_json_ json_t *jobs = NULL;
    const struct job_query query = {.user = c->user,
                                    .kind = "box",
                                    .state = request_query(q, "state"),
                                    .label = request_query(q, "label"),
                                    .before = request_query(q, "before"),
                                    .limit = (unsigned)request_query_int(q, "limit", LIST_DEFAULT)};
    bool more = false;
    if (jobs_list(request_jobs(q), &query, &jobs, &more, &err) < 0) {
        respond_error(q, &err);
        return;
    }
    json_t *boxes = json_array(), *job;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        json_array_append_new(boxes, box_of_job(job));
    }
    const json_t *last = json_array_get(jobs, json_array_size(jobs) - 1);
    respond_json(q, 200,
                 json_pack("{s:o, s:s?}", "boxes", boxes, "next",
                           more ? json_get_string(last, "id") : NULL));
}

static void box_delete_run(struct request *q)
{
    struct error err = {0};
    _cleanup_json_ json_t *job = NULL;
    int r = box_get(q, request_param(q, 0), &job, &err);
    if (r == 0)
        r = jobs_cancel(request_jobs(q), request_caller(q)->user, request_param(q, 0), &err);
    if (r < 0 && r != -EALREADY)
        respond_error(q, &err);
    else
        respond_empty(q, 204);
}

/* --- settings, snapshots, forks --- */

static void box_live_run(struct request *q)
{
    box_call(q, "box/info", NULL, CALL_MS);
}

static void box_set_run(struct request *q)
{
    struct error err = {0};
    json_t *options = NULL;
    if (job_spec_check_box(request_body(q), request_caller(q)->role == ROLE_ADMIN, "input",
                           &options, &err) < 0)
        respond_problem(q, 422, "invalid-box", "%s", err.text);
    else
        box_call(q, "box/set", options, CALL_MS);
}

static void box_snapshot_run(struct request *q)
{
    box_call(q, "box/snapshot", json_incref(request_body(q)), CALL_MS);
}

static void box_snapshots_run(struct request *q)
{
    box_call(q, "box/snapshots", NULL, CALL_MS);
}

static void box_restore_run(struct request *q)
{
    box_call(q, "box/restore", json_incref(request_body(q)), CALL_MS);
}

/* Submits a job per fork, which the box's worker already holds. Returns the list for the worker,
 * [{"id", "token"}, …]; NULL with the error, and none is left. */
static json_t *fork_submit(struct request *q, const json_t *parent, const json_t *spec, size_t n,
                           struct error *err)
{
    int64_t ttl_ns = 0;
    json_t *jobs = json_array();
    units_parse_time(json_get_string_or(spec, "ttl", TTL_DEFAULT), &ttl_ns);
    struct job_submission s = box_submission(q, spec, ttl_ns / NS_PER_MS);
    s.user = json_get_string_or(parent, "user", s.user);
    s.leased_to = json_get_string(parent, "worker");
    int r = s.leased_to ? 0 : error_set(err, EAGAIN, "the box has no worker now; try again");
    for (size_t i = 0; r == 0 && i < n; i++) {
        char id[JOB_ID_LEN + 1];
        bool existed;
        r = jobs_submit(request_jobs(q), &s, id, &existed, err);
        if (r == 0)
            json_array_append_new(jobs, json_pack("{s:s, s:i}", "id", id, "token", 1));
    }
    if (r == 0)
        return jobs;
    const json_t *job;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        jobs_cancel(request_jobs(q), NULL, json_get_string(job, "id"), NULL);
    }
    json_decref(jobs);
    return NULL;
}

static void fork_answer(struct request *q, const json_t *jobs)
{
    json_t *boxes = json_array(), *job;
    size_t i;
    json_array_foreach((json_t *)jobs, i, job)
    {
        _cleanup_json_ json_t *full = NULL;
        if (jobs_get(request_jobs(q), NULL, json_get_string(job, "id"), &full, NULL) == 0)
            json_array_append_new(boxes, box_of_job(full));
    }
    respond_json(q, 201, json_pack("{s:o}", "boxes", boxes));
}

static void box_fork_run(struct request *q)
{
    struct error err = {0};
    const char *id = request_param(q, 0);
    const json_t *body = request_body(q);
    json_int_t n = json_get_integer(body, "count");
    _cleanup_json_ json_t *parent = NULL, *spec = NULL, *jobs = NULL;
    struct live_result result;
    int r = box_get(q, id, &parent, &err);
    if (r == 0) {
        /* A fork that its worker did not come to make must not begin as an empty box elsewhere. */
        spec = json_copy(json_object_get(parent, "spec"));
        json_object_set_new(spec, "fork_of", json_string(id));
        jobs = fork_submit(q, parent, spec, n > 0 ? (size_t)n : 1, &err);
    }
    if (!jobs) {
        respond_error(q, &err);
        return;
    }
    json_t *input = json_pack("{s:s*, s:O, s:O}", "snapshot", json_get_string(body, "snapshot"),
                              "jobs", jobs, "spec", spec);
    r = live_call(q, id, "box/fork", input, NULL, CALL_MS, &result, &err);
    if (r == 0 && result.status == 200) {
        live_result_free(&result);
        fork_answer(q, jobs);
        return;
    }
    const json_t *job;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        jobs_cancel(request_jobs(q), NULL, json_get_string(job, "id"), NULL);
    }
    if (r < 0)
        respond_error(q, &err);
    else
        respond_live(q, &result);
}

/* --- commands --- */

/* The events of a command as SSE; the stream begins with the first of them. */
struct exec_feed {
    struct request *q;
    bool begun;
};

static int exec_feed_send(struct exec_feed *f, const char *type, const json_t *value)
{
    _cleanup_buf_ struct buf text = BUF_INIT(2u << 20);
    int r = f->begun ? 0 : sse_begin(f->q);
    f->begun = true;
    if (r == 0)
        r = json_append(&text, value, JSON_COMPACT);
    return r < 0 ? r : sse_send(f->q, 0, type, (const char *)text.data, text.len);
}

static int exec_feed_event(void *data, const json_t *event)
{
    return exec_feed_send(data, "output", event);
}

static void box_exec_stream(struct request *q)
{
    struct error err = {0};
    struct exec_feed feed = {.q = q};
    const struct live_sink sink = {.event = exec_feed_event, .data = &feed};
    _cleanup_live_result_ struct live_result result = {0};
    int r = live_call(q, request_param(q, 0), "box/exec", json_incref(request_body(q)), &sink, -1,
                      &result, &err);
    if (r == 0 && result.status == 200)
        exec_feed_send(&feed, "result", result.body);
    else if (r == 0 && feed.begun)
        exec_feed_send(&feed, "error", result.body);
    else if (r == 0)
        respond_live(q, &result);
    else if (feed.begun) {
        _cleanup_json_ json_t *problem =
            json_pack("{s:s, s:s}", "type", "worker-lost", "detail", err.text);
        exec_feed_send(&feed, "error", problem);
    } else
        respond_error(q, &err);
}

static void box_exec_run(struct request *q)
{
    if (json_get_bool(request_body(q), "stream"))
        box_exec_stream(q);
    else
        box_call(q, "box/exec", json_incref(request_body(q)), -1);
}

static void box_tool_run(struct request *q)
{
    json_t *step = json_copy(request_body(q));
    json_object_set_new(step, "tool", json_string(request_param(q, 1)));
    box_call(q, "box/tool", step, -1);
}

/* --- files --- */

/* Bytes of a call as the body of the answer, which begins with the event {"size"}. */
struct download {
    struct request *q;
    const char *type, *name;
    bool begun;
};

static int download_event(void *data, const json_t *event)
{
    struct download *d = data;
    const json_t *size = json_object_get(event, "size");
    if (d->begun)
        return -EPROTO;
    d->begun = true;
    return respond_stream(d->q, d->type, d->name,
                          json_is_integer(size) && json_integer_value(size) >= 0
                              ? (uint64_t)json_integer_value(size)
                              : UINT64_MAX);
}

static int download_bytes(void *data, const void *bytes, size_t n)
{
    struct download *d = data;
    if (!d->begun)
        return -EPROTO;
    return n ? respond_write(d->q, bytes, n) : 0;
}

/* An answer that has begun and fails then is broken off. */
static void box_download(struct request *q, const char *op, json_t *input, const char *type,
                         const char *name)
{
    struct error err = {0};
    struct download d = {.q = q, .type = type, .name = name};
    const struct live_sink sink = {.event = download_event, .bytes = download_bytes, .data = &d};
    _cleanup_live_result_ struct live_result result = {0};
    int r = live_call(q, request_param(q, 0), op, input, &sink, -1, &result, &err);
    if (r == 0 && result.status == 200 && d.begun)
        respond_write(q, NULL, 0);
    else if (!d.begun && r == 0)
        respond_live(q, &result);
    else if (!d.begun)
        respond_error(q, &err);
}

static void box_diff_run(struct request *q)
{
    bool stat = strcmp(request_query(q, "stat") ? request_query(q, "stat") : "", "true") == 0;
    box_download(q, "box/diff", json_pack("{s:b}", "stat", stat), "text/x-diff", "box.diff");
}

static void box_changes_run(struct request *q)
{
    box_call(q, "box/changes", NULL, CALL_MS);
}

/* A path as the guest takes it; or an answer with the problem. The guest alone says what lies there,
 * and that it lies in the workspace. */
static bool box_path_check(struct request *q, const char *path)
{
    size_t n = strlen(path);
    size_t bare = n && path[n - 1] == '/' ? n - 1 : n;
    if (n > PATH_BYTES_MAX || (bare && !relpath_is_valid(path, bare)) ||
        !utf8_valid((const uint8_t *)path, n)) {
        respond_problem(q, 400, "invalid-path",
                        "the path must be relative to the workspace, without '.', '..' and empty "
                        "names, in UTF-8 and at most %d bytes long",
                        PATH_BYTES_MAX);
        return false;
    }
    return true;
}

static void box_files_answer(struct request *q, const char *path)
{
    const char *format = request_query(q, "format");
    size_t n = strlen(path);
    bool folder = n == 0 || path[n - 1] == '/';
    if (!box_path_check(q, path))
        return;
    if (format && strcmp(format, "tar") == 0) {
        const char *last = strrchr(path, '/');
        char name[300];
        snprintf(name, sizeof name, "%.255s.tar", folder ? "folder" : last ? last + 1 : path);
        box_download(q, "box/files_get", json_pack("{s:s, s:b}", "path", path, "tar", 1),
                     "application/x-tar", name);
    } else if (folder || (format && strcmp(format, "list") == 0)) {
        box_call(q, "box/files_list", json_pack("{s:s}", "path", n ? path : "."), CALL_MS);
    } else {
        box_download(q, "box/files_get", json_pack("{s:s}", "path", path),
                     "application/octet-stream", relpath_name(path));
    }
}

static void box_files_run(struct request *q)
{
    box_files_answer(q, "");
}

static void box_file_get_run(struct request *q)
{
    box_files_answer(q, request_param(q, 1));
}

static int box_file_send(struct live_stream *s, int fd, uint64_t size)
{
    char piece[UPLOAD_PIECE];
    for (uint64_t at = 0; at < size;) {
        ssize_t n = io_read_at(fd, piece, sizeof piece, at);
        int r = n > 0 ? live_stream_send(s, piece, (size_t)n) : -EIO;
        if (r < 0)
            return r;
        at += (uint64_t)n;
    }
    return live_stream_send(s, NULL, 0);
}

static void box_file_put_run(struct request *q)
{
    struct error err = {0};
    uint64_t size;
    const char *path = request_param(q, 1), *executable = request_query(q, "executable");
    int fd = request_upload(q, &size);
    if (!box_path_check(q, path))
        return;
    struct live_stream *s = NULL;
    struct live_result result;
    json_t *input = json_pack("{s:s, s:b}", "path", path, "executable",
                              executable && strcmp(executable, "true") == 0);
    int r = live_stream_open(q, request_param(q, 0), "box/files_put", input, NULL, &s, &err);
    if (r == 0) {
        /* If the worker takes no more it has answered, and says why. */
        r = box_file_send(s, fd, size);
        if (r == 0 || r == -EPIPE)
            r = live_stream_wait(s, CALL_MS, &result, &err);
        else
            error_errno(&err, -r, "cannot send the file");
    }
    live_stream_close(s);
    if (r < 0)
        respond_error(q, &err);
    else
        respond_live(q, &result);
}

/* --- terminals --- */

struct terminal_client {
    struct request *q;
    struct live_stream *stream;
    char id[64]; /* of the terminal; empty until it is announced */
};

static int terminal_send_json(struct request *q, const char *name, const json_t *value)
{
    _cleanup_json_ json_t *message = json_pack("{s:O}", name, value);
    _cleanup_buf_ struct buf text = BUF_INIT(64u << 10);
    int r = message ? json_append(&text, message, JSON_COMPACT) : -ENOMEM;
    return r < 0 ? r : websocket_send(q, text.data, text.len, false);
}

/* The first event names the terminal: only then there is one to look at. */
static int terminal_event(void *data, const json_t *event)
{
    struct terminal_client *t = data;
    if (*t->id)
        return -EPROTO;
    snprintf(t->id, sizeof t->id, "%s", json_get_string_or(event, "terminal", "?"));
    int r = websocket_accept(t->q);
    _cleanup_json_ json_t *terminal =
        json_pack("{s:s, s:O*, s:O*}", "id", t->id, "rows", json_object_get(event, "rows"), "cols",
                  json_object_get(event, "cols"));
    return r < 0 ? r : terminal_send_json(t->q, "terminal", terminal);
}

static int terminal_bytes(void *data, const void *bytes, size_t n)
{
    struct terminal_client *t = data;
    if (!*t->id)
        return -EPROTO;
    return n ? websocket_send(t->q, bytes, n, true) : 0;
}

/* {"resize": {"cols", "rows"}}. Negative: it is something else. */
static int terminal_text(struct terminal_client *t, const struct buf *message)
{
    struct live_result result = {0};
    if (json_count_values((const char *)message->data, message->len, 16) > 16)
        return -EPROTO;
    _cleanup_json_ json_t *given = json_loadb((const char *)message->data, message->len, 0, NULL);
    json_t *size = json_object_get(given, "resize");
    if (!json_is_integer(json_object_get(size, "cols")) ||
        !json_is_integer(json_object_get(size, "rows")))
        return -EPROTO;
    json_t *input = json_pack("{s:s, s:O, s:O}", "id", t->id, "cols", json_object_get(size, "cols"),
                              "rows", json_object_get(size, "rows"));
    if (live_call(t->q, request_param(t->q, 0), "box/terminal_resize", input, NULL, CALL_MS,
                  &result, NULL) == 0)
        live_result_free(&result);
    return 0;
}

/* Takes what the client typed, or waits for the worker while it takes no input. */
static int terminal_take_input(struct terminal_client *t, struct buf *message)
{
    bool binary = false;
    int fd = live_stream_fd(t->stream);
    if (live_stream_room(t->stream) < TERMINAL_INPUT) {
        int r = cancel_wait(fd, POLLIN, TERMINAL_POLL, request_cancel(t->q));
        return r < 0 ? r : 0;
    }
    int r = websocket_receive(t->q, message, &binary, TERMINAL_POLL, fd);
    if (r <= 0)
        return r;
    return binary ? live_stream_send(t->stream, message->data, message->len)
                  : terminal_text(t, message);
}

/* Until the terminal ends, or its client goes; *ret is the end of the call. */
static int terminal_serve(struct terminal_client *t, struct live_result *ret, struct error *err)
{
    _cleanup_buf_ struct buf message = BUF_INIT(TERMINAL_INPUT);
    int r = 0;
    while (r == 0) {
        r = live_stream_next(t->stream, ret, err);
        if (r != 0)
            return r;
        if (*t->id) {
            r = terminal_take_input(t, &message);
        } else {
            r = cancel_wait(live_stream_fd(t->stream), POLLIN, CALL_MS, request_cancel(t->q));
            r = r == 0 ? -ETIMEDOUT : r < 0 ? r : 0;
        }
        if (r == -EPROTO)
            websocket_close(t->q, 1003, "send bytes, or {\"resize\": {\"cols\", \"rows\"}}");
        if (r < 0)
            error_errno(err, -r, "the terminal's client");
    }
    return r;
}

static void box_terminal_run(struct request *q)
{
    struct error err = {0};
    struct terminal_client t = {.q = q};
    const struct live_sink sink = {.event = terminal_event, .bytes = terminal_bytes, .data = &t};
    _cleanup_live_result_ struct live_result result = {0};
    json_t *input =
        json_pack("{s:s*, s:s*, s:s*, s:s*, s:I, s:I}", "id", request_query(q, "id"), "command",
                  request_query(q, "command"), "cwd", request_query(q, "cwd"), "term",
                  request_query(q, "term"), "cols", (json_int_t)request_query_int(q, "cols", 80),
                  "rows", (json_int_t)request_query_int(q, "rows", 24));
    int r = live_stream_open(q, request_param(q, 0), "box/terminal", input, &sink, &t.stream, &err);
    if (r == 0)
        r = terminal_serve(&t, &result, &err);
    if (r == 1 && !*t.id) {
        respond_live(q, &result);
    } else if (r == 1) {
        terminal_send_json(q, result.status == 200 ? "exit" : "error", result.body);
        websocket_close(q, result.status == 200 ? 1000 : 1011, "the terminal has ended");
    } else if (!*t.id) {
        respond_error(q, &err);
    } else {
        websocket_close(q, 1012, "the box lost its worker; connect again");
    }
    live_stream_close(t.stream);
}

/* --- the table --- */

/* clang-format off */
#define TEXT(max)      "{\"type\": \"string\", \"maxLength\": " #max "}"
#define OPEN_OBJECT    "{\"type\": \"object\"}"
#define BOX_OPTIONS_IN \
    SCHEMA({"type": "object", "description": \
        "Options of hutch run: net, memory, disk, pids, files, cpus, timeout, cpu_time, image, env."})
#define WORKSPACE_IN \
    SCHEMA({"type": "object", "additionalProperties": false, "properties": { \
        "upload": {"type": "string"}, "git": {"type": "string"}, "ref": {"type": "string"}, \
        "job": {"type": "string"}}})
#define BOX \
    SCHEMA({"type": "object", "required": ["id", "state", "title", "created_at"], "properties": { \
        "id": {"type": "string"}, "state": {"type": "string", "enum": \
            ["scheduled", "running", "completed", "failed", "cancelled"]}, \
        "title": {"type": ["string", "null"]}, "user": {"type": ["string", "null"]}, \
        "labels": {"type": ["object", "null"]}, "created_at": {"type": ["string", "null"]}, \
        "started_at": {"type": ["string", "null"]}, "finished_at": {"type": ["string", "null"]}, \
        "exit_reason": {"type": ["string", "null"]}, "error": {"type": ["string", "null"]}, \
        "worker": {"type": ["string", "null"]}, "box": {"type": ["object", "null"]}, \
        "workspace": {"type": ["object", "null"]}, "ttl": {"type": ["string", "null"]}, \
        "fork_of": {"type": ["string", "null"]}}})
#define BOX_LIVE \
    SCHEMA({"type": "object", "required": ["net", "memory", "pids", "terminals"], "properties": { \
        "net": {"type": ["string", "null"]}, "memory": {"type": "integer"}, \
        "pids": {"type": "integer"}, "cpus": {"type": ["number", "null"]}, \
        "timeout_seconds": {"type": ["number", "null"]}, "commands": {"type": "integer"}, \
        "snapshots": {"type": "integer"}, "terminals": {"type": "array", "items": { \
            "type": "object", "properties": {"id": {"type": "string"}, \
            "rows": {"type": "integer"}, "cols": {"type": "integer"}, \
            "viewers": {"type": "integer"}}}}}})
#define SNAPSHOT \
    SCHEMA({"type": "object", "required": ["id", "name", "created_at"], "properties": { \
        "id": {"type": "string"}, "name": {"type": ["string", "null"]}, \
        "created_at": {"type": "string"}}})
#define TOOL_RESULT \
    SCHEMA({"type": "object", "properties": {"failed": {"type": "boolean"}, \
        "text": {"type": "string"}, "data": {"type": ["object", "null"]}}})

const struct route ROUTES_BOXES[] = {
    {"POST", "/v1/boxes", "box_new", "boxes", "Open a box", ACCESS_USER, ROUTE_AUDIT, 201,
     .input = "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
         "\"title\": " TEXT(200) ", \"labels\": {\"type\": \"object\", \"maxProperties\": 32,"
         " \"additionalProperties\": " TEXT(200) "}, \"box\": " BOX_OPTIONS_IN
         ", \"workspace\": " WORKSPACE_IN ", \"ttl\": {\"type\": \"string\", \"maxLength\": 20,"
         " \"description\": \"The box ends after it was not used so long. Default: 15m.\"},"
         " \"wait\": {\"type\": \"boolean\","
         " \"description\": \"Answer once the box is up, within 30 s. Default: true.\"}}}",
     .output = BOX, .run = box_new_run},
    {"GET", "/v1/boxes", "box_list", "boxes", "List boxes, the newest first", ACCESS_READ, 0, 200,
     .query = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
         "state": {"type": "string", "description": "One state, or several with commas."},
         "label": {"type": "string", "description": "key=value"},
         "before": {"type": "string", "description": "An ID: older ones only."},
         "limit": {"type": "integer", "minimum": 1, "maximum": 500}}}),
     .output = "{\"type\": \"object\", \"required\": [\"boxes\", \"next\"], \"properties\": {"
         "\"boxes\": {\"type\": \"array\", \"items\": " BOX "},"
         " \"next\": {\"type\": [\"string\", \"null\"]}}}", .run = box_list_run},
    {"GET", "/v1/boxes/{id}", "box_get", "boxes", "Read a box", ACCESS_READ, 0, 200,
     .output = BOX, .run = box_get_run},
    {"DELETE", "/v1/boxes/{id}", "box_delete", "boxes", "End a box with everything in it",
     ACCESS_USER, ROUTE_AUDIT, 204, .run = box_delete_run},
    {"PATCH", "/v1/boxes/{id}", "box_set", "boxes", "Change the network and limits of a box",
     ACCESS_USER, ROUTE_AUDIT, 200,
     .input = SCHEMA({"type": "object", "additionalProperties": false, "minProperties": 1,
         "properties": {"net": {"type": "string"}, "memory": {"type": ["string", "integer"]},
         "cpus": {"type": ["string", "number"]}, "pids": {"type": ["string", "integer"]},
         "timeout": {"type": "string"}}}),
     .output = BOX_LIVE, .run = box_set_run},
    {"GET", "/v1/boxes/{id}/live", "box_live", "boxes",
     "Read the limits, commands and terminals that a box has now", ACCESS_READ, 0, 200,
     .output = BOX_LIVE, .run = box_live_run},
    {"POST", "/v1/boxes/{id}/exec", "box_exec", "boxes",
     "Run a command; with `stream` its output comes as events", ACCESS_USER,
     ROUTE_SSE | ROUTE_AUDIT, 200,
     .input = SCHEMA({"type": "object", "additionalProperties": false, "required": ["command"],
         "properties": {"command": {"description":
             "A string goes to a shell; a list is a program with its arguments.",
             "anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "minItems": 1,
             "maxItems": 1024, "items": {"type": "string"}}]},
         "cwd": {"type": "string", "maxLength": 4096},
         "env": {"type": "object", "additionalProperties": {"type": "string"}},
         "stdin": {"type": "string"},
         "timeout": {"type": "string", "description": "Such as 30s. Default: the box's limit."},
         "stream": {"type": "boolean", "description":
             "Answer with server-sent events: output, then result or error."}}}),
     .output = SCHEMA({"type": "object", "required": ["exit_code", "signal", "timed_out"],
         "properties": {"exit_code": {"type": "integer"}, "signal": {"type": ["string", "null"]},
         "timed_out": {"type": "boolean"}, "killed_by": {"type": ["string", "null"]},
         "stdout": {"type": "string"}, "stdout_base64": {"type": "string"},
         "stderr": {"type": "string"}, "stderr_base64": {"type": "string"},
         "stdout_bytes": {"type": "integer"}, "stderr_bytes": {"type": "integer"},
         "truncated": {"type": "boolean"}, "duration_ms": {"type": "integer"},
         "cpu_ms": {"type": "integer"}, "max_rss": {"type": "integer"}}}), .run = box_exec_run},
    {"POST", "/v1/boxes/{id}/tools/{name}", "box_tool", "boxes", "Call a tool in a box",
     ACCESS_USER, ROUTE_AUDIT, 200, .input = OPEN_OBJECT, .output = TOOL_RESULT,
     .run = box_tool_run},
    {"POST", "/v1/boxes/{id}/fork", "box_fork", "boxes", "Fork a box, or a snapshot of it",
     ACCESS_USER, ROUTE_AUDIT, 201,
     .input = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
         "count": {"type": "integer", "minimum": 1, "maximum": 16},
         "snapshot": {"type": "string", "maxLength": 40}}}),
     .output = "{\"type\": \"object\", \"required\": [\"boxes\"], \"properties\": {"
         "\"boxes\": {\"type\": \"array\", \"items\": " BOX "}}}", .run = box_fork_run},
    {"POST", "/v1/boxes/{id}/snapshots", "box_snapshot", "boxes", "Take a snapshot of a box's files",
     ACCESS_USER, ROUTE_AUDIT, 201,
     .input = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
         "name": {"type": "string", "maxLength": 200}}}),
     .output = SNAPSHOT, .run = box_snapshot_run},
    {"GET", "/v1/boxes/{id}/snapshots", "box_snapshots", "boxes", "List the snapshots of a box",
     ACCESS_READ, 0, 200,
     .output = "{\"type\": \"object\", \"required\": [\"snapshots\"], \"properties\": {"
         "\"snapshots\": {\"type\": \"array\", \"items\": " SNAPSHOT "}}}",
     .run = box_snapshots_run},
    {"POST", "/v1/boxes/{id}/restore", "box_restore", "boxes",
     "Put a box back to a snapshot; s0 is its beginning", ACCESS_USER, ROUTE_AUDIT, 200,
     .input = SCHEMA({"type": "object", "additionalProperties": false, "required": ["snapshot"],
         "properties": {"snapshot": {"type": "string", "maxLength": 40}}}),
     .output = SCHEMA({"type": "object", "required": ["snapshot"], "properties": {
         "snapshot": {"type": "string"}}}), .run = box_restore_run},
    {"GET", "/v1/boxes/{id}/diff", "box_diff", "boxes",
     "Read the changes of the workspace, in git's format", ACCESS_READ, ROUTE_BYTES, 200,
     .query = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
         "stat": {"type": "boolean", "description": "A summary instead."}}}),
     .run = box_diff_run},
    {"GET", "/v1/boxes/{id}/changes", "box_changes", "boxes", "List the changed paths", ACCESS_READ,
     0, 200,
     .output = SCHEMA({"type": "object", "required": ["changes", "count", "truncated"],
         "properties": {"count": {"type": "integer"}, "truncated": {"type": "boolean"},
         "changes": {"type": "array", "items": {"type": "object", "properties": {
             "path": {"type": "string"}, "kind": {"type": "string"}}}}}}),
     .run = box_changes_run},
    {"GET", "/v1/boxes/{id}/files", "box_files", "boxes",
     "List the workspace, or download it as tar", ACCESS_READ, ROUTE_BYTES, 200,
     .query = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
         "format": {"type": "string", "enum": ["list", "tar"]}}}),
     .run = box_files_run},
    {"GET", "/v1/boxes/{id}/files/{path*}", "box_file_get", "boxes",
     "Download a file; a folder is listed, or downloaded as tar", ACCESS_READ, ROUTE_BYTES, 200,
     .query = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
         "format": {"type": "string", "enum": ["list", "tar"], "description":
             "Of a folder. A path that ends with a slash is listed without it."}}}),
     .run = box_file_get_run},
    {"PUT", "/v1/boxes/{id}/files/{path*}", "box_file_put", "boxes",
     "Write a file in one step; folders are made", ACCESS_USER, ROUTE_UPLOAD | ROUTE_AUDIT, 200,
     .query = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
         "executable": {"type": "boolean"}}}),
     .output = SCHEMA({"type": "object", "required": ["path", "size", "created"], "properties": {
         "path": {"type": "string"}, "size": {"type": "integer"},
         "created": {"type": "boolean"}}}), .run = box_file_put_run},
    {"GET", "/v1/boxes/{id}/terminal", "box_terminal", "boxes",
     "A terminal, as a WebSocket: binary messages are bytes; docs/server.md has the rest",
     ACCESS_USER, ROUTE_WEBSOCKET | ROUTE_AUDIT, 101,
     .query = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
         "id": {"type": "string", "maxLength": 40, "description":
             "A terminal that is there already: sends its last megabyte first."},
         "cols": {"type": "integer", "minimum": 1, "maximum": 1000},
         "rows": {"type": "integer", "minimum": 1, "maximum": 1000},
         "command": {"type": "string", "maxLength": 65536, "description":
             "For the shell of a new terminal. Default: an interactive shell."},
         "cwd": {"type": "string", "maxLength": 4096},
         "term": {"type": "string", "maxLength": 64, "description":
             "The client's kind of terminal. Default: xterm-256color."}}}),
     .run = box_terminal_run},
    {0},
};
/* clang-format on */
