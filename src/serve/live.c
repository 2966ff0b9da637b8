/*
 * Calls of live jobs, on the server's side.
 *
 * A worker keeps one WebSocket per live job open (the channel). Its thread only reads: it hands each
 * frame to the stream of its call, and the thread that made the call takes it from there, so that a
 * slow client stops nothing but its own call. The credit that each side gives bounds what is queued.
 *
 * Everything that a worker sends is checked: a worker is trusted less than the server, and what it
 * passes on comes from boxes.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "encoding.h"
#include "json.h"
#include "serve.h"
#include "thread.h"
#include "banned.h"

#define WINDOW         (256u << 10) /* bytes that a side may send before it gets credit */
#define DATA_MAX       (64u << 10)  /* of one message of ours */
#define MESSAGE_MAX    (1u << 20)
#define ANSWER_MAX     (24u << 20)
#define BINARY_MAX     ((256u << 10) + 4)
#define VALUES_MAX     200000
#define CALLS_MAX      1024 /* of one job */
#define WORKER_WAIT_MS 30000
#define LEASE_CHECK_MS 5000
#define TOUCH_MS       1000 /* of a job that is used all the time */
#define IDLE_TOUCH_MS  4000 /* while a call waits: well below the shortest ttl */
#define BUCKETS        256
#define DETAIL_MAX     2000

struct live_channel {
    struct live_channel *next; /* in its bucket */
    char job[JOB_ID_LEN + 1];
    char *user, *kind;
    struct request *socket;
    int wake; /* an eventfd: it has been replaced */
    /* Guarded by the lock: */
    pthread_mutex_t lock;
    pthread_cond_t left; /* a thread has sent what it wanted */
    bool ended;
    unsigned sending; /* threads that use the socket */
    unsigned refs;
    struct live_stream *streams;
    unsigned n_streams;
    uint32_t last_number;
};

/* A thread that waits for a job to get a channel, or to end. */
struct live_waiter {
    struct live_waiter *next;
    const char *job;
    int wake;
};

struct live {
    pthread_mutex_t lock; /* before a channel's */
    struct live_channel *buckets[BUCKETS];
    struct live_waiter *waiters;
};

/* An event, or data: n 0 is its end. */
struct live_item {
    struct live_item *next;
    json_t *event;
    size_t size; /* as it counts for credit */
    uint8_t data[];
};

struct live_stream {
    struct live_stream *next;
    struct live_channel *channel;
    struct request *client;
    struct live_sink sink;
    uint32_t number;
    int wake; /* an eventfd: something is queued, or there is credit */
    int64_t next_touch;
    size_t owed; /* bytes that the sink had and no credit was given for */
    /* Guarded by the channel's lock: */
    pthread_cond_t credit_came;
    struct live_item *first, **last;
    int64_t window;     /* what the worker may send */
    int64_t credit;     /* what we may send */
    bool ended, broken; /* it has answered; the channel broke before */
    struct live_result result;
};

static void event_set(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) < 0) {
        /* The counter is full: it is readable, which is all that matters. */
    }
}

static void event_clear(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof count) < 0) {
        /* It was not set. */
    }
}

/* --- all channels --- */

struct live *live_new(void)
{
    struct live *l = calloc(1, sizeof *l);
    if (l)
        pthread_mutex_init(&l->lock, NULL);
    return l;
}

struct live *live_free(struct live *l)
{
    if (l)
        pthread_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

static struct live_channel **live_bucket(struct live *l, const char *job)
{
    return &l->buckets[digest(DIGEST_BEGIN, job, strlen(job)) % BUCKETS];
}

void live_job_changed(struct live *l, const char *job)
{
    LOCKED(&l->lock);
    for (struct live_waiter *w = l->waiters; w; w = w->next)
        if (strcmp(w->job, job) == 0)
            event_set(w->wake);
}

static void channel_unref(struct live_channel *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    bool last = --c->refs == 0;
    pthread_mutex_unlock(&c->lock);
    if (!last)
        return;
    cleanup_close(&c->wake);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->left);
    free(c->user);
    free(c->kind);
    free(c);
}

/* With a reference, or NULL. */
static struct live_channel *live_find(struct live *l, const char *job)
{
    LOCKED(&l->lock);
    struct live_channel *c = *live_bucket(l, job);
    while (c && strcmp(c->job, job) != 0)
        c = c->next;
    if (c) {
        pthread_mutex_lock(&c->lock);
        c->refs++;
        pthread_mutex_unlock(&c->lock);
    }
    return c;
}

/* Ends a channel for all who use it; its thread learns it by `wake`. */
static void channel_end(struct live_channel *c)
{
    LOCKED(&c->lock);
    c->ended = true;
    for (struct live_stream *s = c->streams; s; s = s->next) {
        s->broken = !s->ended;
        event_set(s->wake);
        pthread_cond_broadcast(&s->credit_came);
    }
    event_set(c->wake);
}

static void live_enter(struct live *l, struct live_channel *c)
{
    pthread_mutex_lock(&l->lock);
    struct live_channel **at = live_bucket(l, c->job);
    while (*at && strcmp((*at)->job, c->job) != 0)
        at = &(*at)->next;
    struct live_channel *old = *at;
    c->next = old ? old->next : NULL;
    *at = c;
    if (old)
        channel_end(old); /* the worker connected again before we saw that it was gone */
    for (struct live_waiter *w = l->waiters; w; w = w->next)
        if (strcmp(w->job, c->job) == 0)
            event_set(w->wake);
    pthread_mutex_unlock(&l->lock);
}

static void live_leave(struct live *l, struct live_channel *c)
{
    LOCKED(&l->lock);
    struct live_channel **at = live_bucket(l, c->job);
    while (*at && *at != c)
        at = &(*at)->next;
    if (*at)
        *at = c->next;
}

/* From any thread: -EPIPE if it has ended. May wait while much is unsent. */
static int channel_send(struct live_channel *c, const void *data, size_t n, bool binary)
{
    pthread_mutex_lock(&c->lock);
    bool ended = c->ended;
    c->sending += !ended;
    pthread_mutex_unlock(&c->lock);
    if (ended)
        return -EPIPE;
    int r = websocket_send(c->socket, data, n, binary);
    LOCKED(&c->lock);
    c->sending--;
    pthread_cond_broadcast(&c->left);
    return r;
}

static int channel_printf(struct live_channel *c, const char *fmt, uint32_t number, size_t bytes)
{
    char text[96];
    int n = snprintf(text, sizeof text, fmt, number, bytes);
    return channel_send(c, text, (size_t)n, false);
}

/* --- what the worker sends: on the channel's thread, with the channel's lock held --- */

static struct live_stream *channel_find(const struct live_channel *c, uint32_t number)
{
    struct live_stream *s = c->streams;
    while (s && (s->number != number || s->ended))
        s = s->next;
    return s;
}

/* Negative: the worker sent more than it may. */
static int stream_queue(struct live_stream *s, json_t *event, const void *data, size_t n)
{
    struct live_item *item = s->window > 0 || n == 0 ? malloc(sizeof *item + (data ? n : 0)) : NULL;
    if (!item)
        return -EPROTO;
    *item = (struct live_item){.event = event ? json_incref(event) : NULL, .size = n};
    if (data && n)
        memcpy(item->data, data, n);
    *s->last = item;
    s->last = &item->next;
    s->window -= (int64_t)n;
    event_set(s->wake);
    return 0;
}

static bool status_is_known(json_int_t status)
{
    static const int KNOWN[] = {200, 400, 403, 404, 409, 413, 422, 429, 500, 502, 503, 504, 507};
    for (size_t i = 0; i < ARRAY_SIZE(KNOWN); i++)
        if (KNOWN[i] == status)
            return true;
    return false;
}

/* Text that a worker words, as a new JSON string. */
static json_t *worker_text(const json_t *body, const char *name)
{
    const char *given = json_get_string_or(body, name, "");
    _cleanup_free_ char *text = foreign_text(given, strlen(given), DETAIL_MAX);
    return json_string(text ? text : "");
}

static int stream_end(struct live_stream *s, json_int_t status, json_t *body)
{
    if (!status_is_known(status) || !body)
        return -EPROTO;
    const char *type = json_get_string_or(body, "type", "");
    bool plain = *type && strlen(type) <= 40 &&
                 strspn(type, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(type);
    s->result.status = (int)status;
    s->result.body =
        status == 200
            ? json_incref(body)
            : json_pack("{s:s, s:o, s:o}", "type", plain ? type : "worker-failed", "title",
                        worker_text(body, "title"), "detail", worker_text(body, "detail"));
    s->ended = true;
    event_set(s->wake);
    pthread_cond_broadcast(&s->credit_came);
    return 0;
}

static int channel_call_message(struct live_channel *c, const json_t *message, size_t n)
{
    json_int_t number = json_get_integer(message, "call");
    json_t *event = json_object_get(message, "event");
    const json_t *credit = json_object_get(message, "credit");
    const json_t *status = json_object_get(message, "status");
    if (!json_is_integer(json_object_get(message, "call")) || number < 0 || number > UINT32_MAX)
        return -EPROTO;
    struct live_stream *s = channel_find(c, (uint32_t)number);
    if (!s)
        return 0; /* nobody waits for it any more */
    if (json_is_integer(status))
        return stream_end(s, json_integer_value(status), json_object_get(message, "body"));
    if (n > MESSAGE_MAX)
        return -EPROTO;
    if (json_is_object(event))
        return stream_queue(s, event, NULL, n);
    json_int_t more = json_integer_value(credit);
    if (!json_is_integer(credit) || more < 0 || more > INT32_MAX || s->credit > INT32_MAX)
        return -EPROTO;
    s->credit += more;
    event_set(s->wake);
    pthread_cond_broadcast(&s->credit_came);
    return 0;
}

/* The lock is not held. */
static int channel_text(struct live_channel *c, struct jobs *jobs, const char *text, size_t n)
{
    if (json_count_values(text, n, VALUES_MAX) > VALUES_MAX)
        return -EPROTO;
    _cleanup_json_ json_t *message =
        json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    json_t *note = json_object_get(message, "note");
    if (json_is_object(note) && n <= MESSAGE_MAX) {
        jobs_note(jobs, c->job, note, NULL);
        return 0;
    }
    LOCKED(&c->lock);
    return channel_call_message(c, message, n);
}

static int channel_data(struct live_channel *c, const uint8_t *bytes, size_t n)
{
    uint32_t number;
    if (n < sizeof number || n > BINARY_MAX)
        return -EPROTO;
    memcpy(&number, bytes, sizeof number);
    LOCKED(&c->lock);
    struct live_stream *s = channel_find(c, le32toh(number));
    return s ? stream_queue(s, NULL, bytes + sizeof number, n - sizeof number) : 0;
}

/* Until the worker goes, breaks the protocol, or loses the lease. */
static void channel_serve(struct live_channel *c, struct jobs *jobs, const struct lease *lease)
{
    _cleanup_buf_ struct buf message = BUF_INIT(ANSWER_MAX);
    int64_t next_check = clock_now() + LEASE_CHECK_MS * NS_PER_MS;
    for (int r = 0; r >= 0;) {
        bool binary = false;
        r = websocket_receive(c->socket, &message, &binary, LEASE_CHECK_MS, c->wake);
        pthread_mutex_lock(&c->lock);
        bool ended = c->ended;
        pthread_mutex_unlock(&c->lock);
        if (r < 0 || ended)
            return;
        if (r > 0)
            r = binary ? channel_data(c, message.data, message.len)
                       : channel_text(c, jobs, (const char *)message.data, message.len);
        if (r < 0)
            websocket_close(c->socket, 1002, "not the protocol of docs/control-plane.md");
        if (clock_now() < next_check)
            continue;
        next_check = clock_now() + LEASE_CHECK_MS * NS_PER_MS;
        if (r >= 0 && jobs_lease_check(jobs, lease, NULL, NULL, NULL) == -ESTALE) {
            websocket_close(c->socket, 4409, "the lease is lost");
            return;
        }
    }
}

static void worker_channel_run(struct request *q)
{
    struct error err = {0};
    struct live *all = serve_live(request_serve(q));
    struct jobs *jobs = request_jobs(q);
    const struct lease lease = {.job = request_param(q, 0),
                                .token = (unsigned)request_query_int(q, "token", 0)};
    struct live_channel *c = calloc(1, sizeof *c);
    if (!c || strlen(lease.job) != JOB_ID_LEN) {
        free(c);
        respond_problem(q, 404, "not-found", "there is no such job");
        return;
    }
    *c = (struct live_channel){
        .socket = q, .refs = 1, .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    memcpy(c->job, lease.job, sizeof c->job);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->left, NULL);
    int r = jobs_lease_check(jobs, &lease, &c->user, &c->kind, &err);
    if (r < 0)
        respond_error(q, &err);
    else if (c->wake >= 0 && websocket_accept(q) == 0) {
        live_enter(all, c);
        channel_serve(c, jobs, &lease);
        live_leave(all, c);
        channel_end(c);
        pthread_mutex_lock(&c->lock);
        while (c->sending) /* the socket is gone when this function returns */
            pthread_cond_wait(&c->left, &c->lock);
        pthread_mutex_unlock(&c->lock);
    }
    channel_unref(c);
}

/* clang-format off */
const struct route ROUTES_LIVE[] = {
    {"GET", "/v1/worker/jobs/{id}/channel", "worker_channel", "workers",
     "The calls of a live job, as a WebSocket",
     ACCESS_WORKER, ROUTE_WEBSOCKET, 101,
     SCHEMA({
         "type": "object", "required": ["token"], "additionalProperties": false, "properties": {
         "token": {"type": "integer", "minimum": 1, "maximum": 4294967295,
             "description": "The number of the attempt, from the lease."}}}),
     NULL, NULL, worker_channel_run},
    {0},
};
/* clang-format on */

/* --- calls --- */

void live_result_free(struct live_result *r)
{
    json_decref(r->body);
    r->body = NULL;
}

/* Is it the caller's job of this kind, and does it go on? For a job without a channel. */
static int live_check_job(struct request *q, const char *job, const char *kind, struct error *err)
{
    _cleanup_json_ json_t *j = NULL;
    int r = jobs_get(request_jobs(q), request_caller(q)->user, job, &j, err);
    if (r < 0)
        return r;
    if (strcmp(json_get_string_or(j, "kind", ""), kind) != 0)
        return error_set(err, ENOENT, "there is no %s '%s'", kind, job);
    if (json_is_null(json_object_get(j, "finished_at")))
        return 0;
    const char *why = json_get_string(j, "error");
    return error_set(err, EALREADY, "the %s has ended (%s)%s%s", kind,
                     json_get_string_or(j, "exit_reason", "cancelled"), why ? ": " : "",
                     why ? why : "");
}

static void live_wait_begin(struct live *all, struct live_waiter *w)
{
    LOCKED(&all->lock);
    w->next = all->waiters;
    all->waiters = w;
}

static void live_wait_finish(struct live *all, struct live_waiter *w)
{
    LOCKED(&all->lock);
    struct live_waiter **at = &all->waiters;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
}

/* 1: something happened; 0: not in time; or negative. */
static int live_wait_change(struct request *q, const struct live_waiter *w, int64_t deadline,
                            struct error *err)
{
    int r = cancel_wait(w->wake, POLLIN, clock_poll_ms(deadline), request_cancel(q));
    event_clear(w->wake);
    if (r == -ECANCELED)
        return error_set(err, ECANCELED, "the client has gone");
    return r < 0 ? error_errno(err, -r, "cannot wait for a worker") : r;
}

/* Waits until the job's worker has connected; *ret has a reference. */
static int live_wait_channel(struct request *q, const char *job, const char *kind,
                             struct live_channel **ret, struct error *err)
{
    struct live *all = serve_live(request_serve(q));
    int64_t deadline = clock_now() + WORKER_WAIT_MS * NS_PER_MS;
    _cleanup_fd_ int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct live_waiter self = {.job = job, .wake = wake};
    if (wake < 0)
        return error_errno(err, errno, "cannot wait for a worker");
    live_wait_begin(all, &self);
    int r = 1;
    while (r > 0 && !(*ret = live_find(all, job))) {
        r = live_check_job(q, job, kind, err);
        if (r == 0)
            r = live_wait_change(q, &self, deadline, err);
    }
    live_wait_finish(all, &self);
    if (r == 0)
        return error_set(err, EAGAIN, "no worker has taken the %s within %d s; try again", kind,
                         WORKER_WAIT_MS / 1000);
    return r < 0 ? r : 0;
}

int live_wait_end(struct request *q, const char *job, int timeout_ms, json_t **ret,
                  struct error *err)
{
    struct live *all = serve_live(request_serve(q));
    int64_t deadline = timeout_ms < 0 ? 0 : clock_now() + timeout_ms * NS_PER_MS;
    _cleanup_fd_ int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct live_waiter self = {.job = job, .wake = wake};
    _cleanup_json_ json_t *j = NULL;
    if (wake < 0)
        return error_errno(err, errno, "cannot wait for a job");
    live_wait_begin(all, &self);
    int r = 1;
    while (r > 0) {
        json_decref(j);
        j = NULL;
        r = jobs_get(request_jobs(q), request_caller(q)->user, job, &j, err);
        if (r < 0 || !json_is_null(json_object_get(j, "finished_at")))
            break;
        r = live_wait_change(q, &self, deadline, err);
        if (r == 0)
            r = error_set(err, ETIMEDOUT, "the job has not ended within %d s", timeout_ms / 1000);
    }
    live_wait_finish(all, &self);
    if (r == 0)
        *ret = TAKE_PTR(j);
    return r;
}

static int live_get_channel(struct request *q, const char *job, const char *kind,
                            struct live_channel **ret, struct error *err)
{
    const char *user = request_caller(q)->user;
    if (strlen(job) != JOB_ID_LEN)
        return error_set(err, ENOENT, "there is no %s '%.40s'", kind, job);
    struct live_channel *c = live_find(serve_live(request_serve(q)), job);
    if (!c) {
        int r = live_wait_channel(q, job, kind, &c, err);
        if (r < 0)
            return r;
    }
    if (strcmp(c->kind, kind) != 0 || (user && strcmp(c->user, user) != 0)) {
        channel_unref(c);
        return error_set(err, ENOENT, "there is no %s '%s'", kind, job);
    }
    *ret = c;
    return 0;
}

static void stream_free(struct live_stream *s)
{
    for (struct live_item *item = s->first, *next; item; item = next) {
        next = item->next;
        json_decref(item->event);
        free(item);
    }
    live_result_free(&s->result);
    cleanup_close(&s->wake);
    pthread_cond_destroy(&s->credit_came);
    channel_unref(s->channel);
    free(s);
}

/* Adds the call to its channel and sends it. */
static int stream_begin(struct live_stream *s, const char *name, json_t *input, struct error *err)
{
    struct live_channel *c = s->channel;
    _cleanup_buf_ struct buf text = BUF_INIT(MESSAGE_MAX);
    pthread_mutex_lock(&c->lock);
    bool busy = c->n_streams >= CALLS_MAX;
    s->number = ++c->last_number;
    if (!busy) {
        s->next = c->streams;
        c->streams = s;
        c->n_streams++;
    }
    pthread_mutex_unlock(&c->lock);
    if (busy)
        return error_set(err, EBUSY, "%d calls of the %s are under way", CALLS_MAX, c->kind);
    _cleanup_json_ json_t *call =
        json_pack("{s:I, s:s, s:O, s:s}", "call", (json_int_t)s->number, "op", name, "input", input,
                  "user", request_caller(s->client)->name);
    if (!call || json_append(&text, call, JSON_COMPACT) < 0)
        return error_set(err, EMSGSIZE, "the request is longer than 1 MiB");
    if (channel_send(c, text.data, text.len, false) < 0)
        return error_set(err, EAGAIN, "the worker of the %s lost its connection; try again",
                         c->kind);
    return 0;
}

int live_stream_open(struct request *q, const char *job, const char *op, json_t *input,
                     const struct live_sink *sink, struct live_stream **ret, struct error *err)
{
    char kind[16];
    size_t n = strcspn(op, "/");
    struct live_channel *c = NULL;
    _cleanup_json_ json_t *taken = input ? input : json_object();
    snprintf(kind, sizeof kind, "%.*s", (int)n, op);
    int r = live_get_channel(q, job, kind, &c, err);
    if (r < 0)
        return r;
    struct live_stream *s = calloc(1, sizeof *s);
    if (!s) {
        channel_unref(c);
        return error_set(err, ENOMEM, "no memory");
    }
    *s = (struct live_stream){.channel = c,
                              .client = q,
                              .sink = sink ? *sink : (struct live_sink){0},
                              .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                              .window = WINDOW,
                              .credit = WINDOW};
    s->last = &s->first;
    pthread_cond_init(&s->credit_came, NULL);
    r = s->wake < 0 ? error_errno(err, errno, "cannot wait for a worker")
                    : stream_begin(s, op + n + (op[n] == '/'), taken, err);
    if (r < 0) {
        live_stream_close(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct live_stream *live_stream_close(struct live_stream *s)
{
    if (!s)
        return NULL;
    struct live_channel *c = s->channel;
    pthread_mutex_lock(&c->lock);
    struct live_stream **at = &c->streams;
    while (*at && *at != s)
        at = &(*at)->next;
    bool runs = *at && !s->ended && !s->broken;
    if (*at) {
        *at = s->next;
        c->n_streams--;
    }
    pthread_mutex_unlock(&c->lock);
    if (runs)
        channel_printf(c, "{\"cancel\":%" PRIu32 "}", s->number, 0);
    stream_free(s);
    return NULL;
}

int live_stream_fd(const struct live_stream *s)
{
    return s->wake;
}

/* The job was used. */
static void stream_touch(struct live_stream *s)
{
    if (clock_now() < s->next_touch)
        return;
    s->next_touch = clock_now() + TOUCH_MS * NS_PER_MS;
    jobs_touch(request_jobs(s->client), s->channel->job);
}

/* Gives one item to the sink. Negative: the sink refused it. */
static int stream_deliver(struct live_stream *s, struct live_item *item)
{
    int r = 0;
    if (item->event && s->sink.event)
        r = s->sink.event(s->sink.data, item->event);
    else if (!item->event && s->sink.bytes)
        r = s->sink.bytes(s->sink.data, item->data, item->size);
    s->owed += item->size;
    json_decref(item->event);
    free(item);
    return r;
}

/* Gives the worker credit for what the sink had. */
static void stream_give_credit(struct live_stream *s)
{
    if (s->owed < WINDOW / 4)
        return;
    pthread_mutex_lock(&s->channel->lock);
    s->window += (int64_t)s->owed;
    pthread_mutex_unlock(&s->channel->lock);
    channel_printf(s->channel, "{\"call\":%" PRIu32 ",\"credit\":%zu}", s->number, s->owed);
    s->owed = 0;
}

int live_stream_next(struct live_stream *s, struct live_result *ret, struct error *err)
{
    struct live_channel *c = s->channel;
    event_clear(s->wake);
    stream_touch(s);
    for (;;) {
        pthread_mutex_lock(&c->lock);
        struct live_item *item = s->first;
        if (item && !(s->first = item->next))
            s->last = &s->first;
        bool ended = s->ended, broken = s->broken;
        pthread_mutex_unlock(&c->lock);
        if (item) {
            if (stream_deliver(s, item) < 0)
                return error_set(err, ECANCELED, "the client has gone");
            stream_give_credit(s);
        } else if (ended) {
            *ret = s->result;
            s->result = (struct live_result){0};
            return 1;
        } else if (broken) {
            return error_set(err, EAGAIN, "the worker of the %s lost its connection; try again",
                             c->kind);
        } else {
            return 0;
        }
    }
}

int live_stream_wait(struct live_stream *s, int timeout_ms, struct live_result *ret,
                     struct error *err)
{
    int64_t deadline = timeout_ms < 0 ? 0 : clock_now() + timeout_ms * NS_PER_MS;
    for (;;) {
        int r = live_stream_next(s, ret, err);
        if (r != 0)
            return r < 0 ? r : 0;
        int ms = clock_poll_ms(deadline);
        r = cancel_wait(s->wake, POLLIN, ms < 0 || ms > IDLE_TOUCH_MS ? IDLE_TOUCH_MS : ms,
                        request_cancel(s->client));
        if (r == -ECANCELED)
            return error_set(err, ECANCELED, "the client has gone");
        if (r < 0)
            return error_errno(err, -r, "cannot wait for the worker");
        if (r == 0 && deadline && clock_now() >= deadline)
            return error_set(err, ETIMEDOUT, "the worker did not answer within %d s",
                             timeout_ms / 1000);
    }
}

/* Waits until some of n bytes may be sent: how many. */
static ssize_t stream_take_credit(struct live_stream *s, size_t n)
{
    LOCKED(&s->channel->lock);
    while (s->credit <= 0 && !s->ended && !s->broken) {
        /* The client cannot wake a condition: look at it now and then. */
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&s->credit_came, &s->channel->lock, &until);
        if (cancel_asked(request_cancel(s->client)))
            return -ECANCELED;
    }
    if (s->ended || s->broken)
        return -EPIPE;
    if ((int64_t)n > s->credit)
        n = (size_t)s->credit;
    n = n < DATA_MAX ? n : DATA_MAX;
    s->credit -= (int64_t)n;
    return (ssize_t)n;
}

size_t live_stream_room(const struct live_stream *s)
{
    LOCKED(&s->channel->lock);
    return s->credit > 0 ? (size_t)s->credit : 0;
}

int live_stream_send(struct live_stream *s, const void *data, size_t n)
{
    _cleanup_buf_ struct buf frame = BUF_INIT(DATA_MAX + sizeof s->number);
    const uint32_t number = htole32(s->number);
    const char *at = data;
    stream_touch(s);
    do {
        ssize_t piece = n ? stream_take_credit(s, n) : 0;
        if (piece < 0)
            return (int)piece;
        frame.len = 0;
        buf_append(&frame, &number, sizeof number);
        if (piece)
            buf_append(&frame, at, (size_t)piece);
        int r = frame.failed ? -ENOMEM : channel_send(s->channel, frame.data, frame.len, true);
        if (r < 0)
            return r;
        at += piece;
        n -= (size_t)piece;
    } while (n);
    return 0;
}

int live_call(struct request *q, const char *job, const char *op, json_t *input,
              const struct live_sink *sink, int timeout_ms, struct live_result *ret,
              struct error *err)
{
    struct live_stream *s;
    int r = live_stream_open(q, job, op, input, sink, &s, err);
    if (r < 0)
        return r;
    r = live_stream_wait(s, timeout_ms, ret, err);
    live_stream_close(s);
    return r;
}

void respond_live(struct request *q, struct live_result *r)
{
    if (r->status == 200 && request_route(q)->status == 204)
        respond_empty(q, 204);
    else if (r->status == 200)
        respond_json(q, request_route(q)->status, json_incref(r->body));
    else
        respond_problem(q, r->status, json_get_string_or(r->body, "type", "worker-failed"), "%s",
                        json_get_string_or(r->body, "detail", ""));
    live_result_free(r);
}
