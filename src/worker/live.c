/*
 * Live jobs: the calls that come on a job's channel, their threads, and the flow of their data.
 *
 * Both sides may send so much of a call's data as the other gave credit for, so no queue here grows
 * beyond LIVE_WINDOW, whatever the client does. What belongs to calls of a channel that broke is
 * dropped: the server has ended them.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "channel.h"
#include "json.h"
#include "live.h"
#include "thread.h"
#include "worker.h"
#include "banned.h"

#define LIVE_WINDOW     (256u << 10) /* credit of a new call */
#define LIVE_DATA_MAX   (64u << 10)  /* bytes of one message of data */
#define LIVE_CALLS_MAX  256
#define LIVE_NOTES_MAX  256 /* kept while there is no connection */
#define LIVE_VALUES_MAX 100000
#define MESSAGE_MAX     (1u << 20)
#define ANSWER_MAX      (24u << 20) /* a tool's picture alone may have 16 MiB */

struct live_job {
    struct worker *worker;
    struct job_lease *lease;
    const struct live_kind *kind;
    void *state;
    struct channel *channel;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a call has */
    struct live_call *calls;
    unsigned n_calls;
    bool closing;
    json_t *notes; /* an array: not sent yet */
};

struct live_call {
    struct live_call *next;
    struct live_job *job;
    const struct live_op *op;
    uint32_t number;
    char *user;
    json_t *input;
    bool answered; /* the thread's own */
    /* Guarded by the job's lock: */
    pthread_cond_t changed;
    int wake, credit_wake, cancel; /* eventfds */
    bool cancelled;
    int64_t credit; /* that we may send; may be overdrawn by one message */
    bool wants_credit;
    struct buf in;
    bool in_ended;
    size_t owed; /* bytes received that no credit was given back for */
};

const struct live_kind *const LIVE_KINDS[] = {&LIVE_BOX, &LIVE_GYM, &LIVE_SESSION, &LIVE_MCP, NULL};

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

/* --- the job --- */

const char *live_job_id(const struct live_job *l)
{
    return l->lease->id;
}

const char *live_job_user(const struct live_job *l)
{
    return l->lease->user;
}

const json_t *live_job_spec(const struct live_job *l)
{
    return l->lease->spec;
}

const json_t *live_job_resume(const struct live_job *l)
{
    return l->lease->resume;
}

struct worker *live_job_worker(const struct live_job *l)
{
    return l->worker;
}

const char *live_job_folder(const struct live_job *l)
{
    return l->lease->folder;
}

struct job_lease *live_job_lease(const struct live_job *l)
{
    return l->lease;
}

int live_job_cancel(const struct live_job *l)
{
    return l->lease->cancel;
}

int live_job_set_resume(struct live_job *l, json_t *resume, struct error *err)
{
    json_t *body = json_pack("{s:i, s:o}", "token", (int)l->lease->token, "resume", resume);
    if (!body)
        return error_set(err, ENOMEM, "no memory");
    return server_post(l->worker, l->lease, "resume", body, NULL, err);
}

/* {"note": …}; the lock is held. False: there is no connection. */
static bool live_job_send_note(struct live_job *l, const json_t *event)
{
    static const char prefix[] = "{\"note\":";
    _cleanup_buf_ struct buf text = BUF_INIT(MESSAGE_MAX - sizeof prefix);
    json_append(&text, event, JSON_COMPACT);
    buf_append_str(&text, "}");
    return text.failed || (l->channel && channel_send(l->channel, prefix, sizeof prefix - 1,
                                                      text.data, text.len, false));
}

void live_job_note(struct live_job *l, json_t *event)
{
    LOCKED(&l->lock);
    size_t waiting = json_array_size(l->notes);
    bool sent = event && !waiting && live_job_send_note(l, event);
    if (!sent && waiting < LIVE_NOTES_MAX)
        json_array_append(l->notes, event);
    json_decref(event);
}

int live_job_adopt(struct live_job *from, const char *id, unsigned token, const json_t *spec,
                   json_t *resume, void *state, struct error *err)
{
    return worker_adopt(from->worker, from->lease, id, token, spec, resume, state, err);
}

/* --- what calls send --- */

struct live_job *call_job(const struct live_call *c)
{
    return c->job;
}

void *call_state(const struct live_call *c)
{
    return c->job->state;
}

json_t *call_input(const struct live_call *c)
{
    return c->input;
}

const char *call_user(const struct live_call *c)
{
    return c->user;
}

int call_cancel(const struct live_call *c)
{
    return c->cancel;
}

int call_fd(const struct live_call *c)
{
    return c->wake;
}

int call_credit_fd(const struct live_call *c)
{
    return c->credit_wake;
}

/* {"call": N, MEMBER: value …} of at most `max` bytes; the lock is held. Takes the value over. The
 * size of the message, or -EMSGSIZE. */
static ssize_t call_send_json(struct live_call *c, const char *member, json_t *value, size_t max)
{
    char prefix[64];
    _cleanup_json_ json_t *taken = value;
    _cleanup_buf_ struct buf text = BUF_INIT(max - sizeof prefix);
    int n = snprintf(prefix, sizeof prefix, "{\"call\":%" PRIu32 ",%s", c->number, member);
    json_append(&text, value, JSON_COMPACT | JSON_ENCODE_ANY);
    buf_append_str(&text, "}");
    if (text.failed || !value)
        return -EMSGSIZE;
    channel_send(c->job->channel, prefix, (size_t)n, text.data, text.len, false);
    return (ssize_t)text.len + n;
}

/* Waits until there is credit and room in the queue; the lock is held. */
static int call_wait_credit(struct live_call *c)
{
    while (!c->cancelled && (c->credit <= 0 || channel_is_full(c->job->channel)))
        pthread_cond_wait(&c->changed, &c->job->lock);
    return c->cancelled ? -ECANCELED : 0;
}

int call_event(struct live_call *c, json_t *event)
{
    LOCKED(&c->job->lock);
    int r = call_wait_credit(c);
    if (r < 0) {
        json_decref(event);
        return r;
    }
    ssize_t size = call_send_json(c, "\"event\":", event, MESSAGE_MAX);
    c->credit -= size > 0 ? size : 0;
    return size < 0 ? (int)size : 0;
}

/* At most LIVE_DATA_MAX bytes of them; the lock is held. */
static size_t call_send_piece(struct live_call *c, const void *data, size_t n)
{
    const uint32_t number = htole32(c->number);
    size_t piece = n < LIVE_DATA_MAX ? n : LIVE_DATA_MAX;
    if (n && (int64_t)piece > c->credit)
        piece = (size_t)c->credit;
    channel_send(c->job->channel, &number, sizeof number, data, piece, true);
    c->credit -= (int64_t)piece;
    return piece;
}

int call_send(struct live_call *c, const void *data, size_t n)
{
    LOCKED(&c->job->lock);
    const char *at = data;
    do {
        int r = n ? call_wait_credit(c) : 0;
        if (r < 0)
            return r;
        size_t piece = call_send_piece(c, at, n);
        at += piece;
        n -= piece;
    } while (n);
    return 0;
}

ssize_t call_send_now(struct live_call *c, const void *data, size_t n)
{
    LOCKED(&c->job->lock);
    size_t sent = 0;
    if (c->cancelled)
        return -ECANCELED;
    event_clear(c->credit_wake);
    while (sent < n && c->credit > 0 && !channel_is_full(c->job->channel))
        sent += call_send_piece(c, (const char *)data + sent, n - sent);
    c->wants_credit = sent < n;
    return (ssize_t)sent;
}

/* --- what they receive --- */

/* Waits for data, the end, or that it is cancelled; the lock is held. */
static void call_wait_data(struct live_call *c, int timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * NS_PER_MS;
    if (until.tv_nsec >= NS_PER_S) {
        until.tv_sec++;
        until.tv_nsec -= NS_PER_S;
    }
    int r = 0;
    while (r == 0 && !c->in.len && !c->in_ended && !c->cancelled)
        r = timeout_ms < 0 ? pthread_cond_wait(&c->changed, &c->job->lock)
                           : pthread_cond_timedwait(&c->changed, &c->job->lock, &until);
}

int call_receive(struct live_call *c, struct buf *ret, int timeout_ms, bool *ret_end)
{
    LOCKED(&c->job->lock);
    if (timeout_ms != 0)
        call_wait_data(c, timeout_ms);
    if (c->cancelled)
        return -ECANCELED;
    event_clear(c->wake);
    ret->len = 0;
    *ret_end = c->in_ended && !c->in.len;
    if (!c->in.len)
        return 0;
    if (buf_append(ret, c->in.data, c->in.len) < 0)
        return -ENOMEM;
    c->owed += c->in.len;
    buf_free(&c->in);
    c->in = BUF_INIT(2 * LIVE_WINDOW);
    if (c->in_ended)
        event_set(c->wake);
    if (c->owed >= LIVE_WINDOW / 4) {
        call_send_json(c, "\"credit\":", json_integer((json_int_t)c->owed), MESSAGE_MAX);
        c->owed = 0;
    }
    return 1;
}

/* --- their end --- */

/* The body, and its status; the size of a message is a limit of answers. */
static void call_answer(struct live_call *c, int status, json_t *body)
{
    char member[48];
    if (c->answered) {
        json_decref(body);
        return;
    }
    c->answered = true;
    snprintf(member, sizeof member, "\"status\":%d,\"body\":", status);
    LOCKED(&c->job->lock);
    if (!c->cancelled && call_send_json(c, member, body, ANSWER_MAX) < 0)
        call_send_json(c, "\"status\":500,\"body\":",
                       json_pack("{s:s, s:s, s:s}", "type", "too-large", "title",
                                 "The answer is too large", "detail",
                                 "the answer is longer than 24 MiB; ask for less at once"),
                       MESSAGE_MAX);
    else if (c->cancelled)
        json_decref(body);
}

void call_end(struct live_call *c, json_t *body)
{
    call_answer(c, 200, body ? body : json_null());
}

/* The statuses that workers use, and their titles. */
static const char *status_title(int status)
{
    switch (status) {
    case 400:
        return "The request is wrong";
    case 403:
        return "Not allowed";
    case 404:
        return "Not found";
    case 409:
        return "Not possible now";
    case 413:
        return "Too large";
    case 503:
        return "Not available";
    case 504:
        return "It took too long";
    case 507:
        return "No space left";
    default:
        return "The worker failed";
    }
}

void call_problem(struct live_call *c, int status, const char *type, const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    _cleanup_free_ char *detail = foreign_text(text, strlen(text), sizeof text);
    call_answer(c, status,
                json_pack("{s:s, s:s, s:s}", "type", type, "title", status_title(status), "detail",
                          detail ? detail : ""));
}

void call_fail(struct live_call *c, const struct error *err)
{
    static const struct {
        int code, status;
        const char *type;
    } KNOWN[] = {
        {EINVAL, 400, "invalid"},        {ENOENT, 404, "not-found"},   {EISDIR, 409, "is-a-folder"},
        {ENOTDIR, 409, "no-folder"},     {EXDEV, 403, "outside"},      {ELOOP, 403, "outside"},
        {EACCES, 403, "forbidden"},      {EPERM, 403, "forbidden"},    {EFBIG, 413, "too-large"},
        {E2BIG, 413, "too-large"},       {EMSGSIZE, 413, "too-large"}, {EBUSY, 409, "busy"},
        {EEXIST, 409, "exists"},         {ENOSPC, 507, "no-space"},    {EDQUOT, 507, "no-space"},
        {ETIMEDOUT, 504, "timeout"},     {EPIPE, 409, "box-ended"},    {ESRCH, 404, "not-found"},
        {ENOTSUP, 409, "not-supported"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(KNOWN); i++)
        if (KNOWN[i].code == err->code) {
            call_problem(c, KNOWN[i].status, KNOWN[i].type, "%s", err->text);
            return;
        }
    call_problem(c, 500, "worker-failed", "%s", err->text);
}

static void call_free(struct live_call *c)
{
    cleanup_close(&c->wake);
    cleanup_close(&c->credit_wake);
    cleanup_close(&c->cancel);
    pthread_cond_destroy(&c->changed);
    buf_free(&c->in);
    json_decref(c->input);
    free(c->user);
    free(c);
}

static void *call_thread(void *data)
{
    struct live_call *c = data;
    struct live_job *l = c->job;
    c->op->run(c);
    call_end(c, NULL);
    pthread_mutex_lock(&l->lock);
    struct live_call **at = &l->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    l->n_calls--;
    call_free(c);
    pthread_cond_broadcast(&l->ended);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* --- the channel's thread --- */

/* The lock is held. */
static void call_mark_cancelled(struct live_call *c)
{
    c->cancelled = true;
    event_set(c->cancel);
    event_set(c->wake);
    event_set(c->credit_wake);
    pthread_cond_broadcast(&c->changed);
}

static struct live_call *live_job_find(const struct live_job *l, uint32_t number)
{
    struct live_call *c = l->calls;
    while (c && (c->number != number || c->cancelled))
        c = c->next;
    return c;
}

/* Answers a call that was not begun; the lock is held. */
static void live_job_refuse(struct live_job *l, uint32_t number, int status, const char *type,
                            const char *detail)
{
    char text[512];
    int n = snprintf(text, sizeof text,
                     "{\"call\":%" PRIu32 ",\"status\":%d,\"body\":{\"type\":\"%s\",\"title\":"
                     "\"%s\",\"detail\":\"%s\"}}",
                     number, status, type, status_title(status), detail);
    channel_send(l->channel, text, (size_t)n, NULL, 0, false);
}

/* The lock is held. */
static void live_job_begin_call(struct live_job *l, uint32_t number, json_t *message)
{
    const char *name = json_get_string_or(message, "op", "");
    const struct live_op *op = l->kind->ops;
    while (op->name && strcmp(op->name, name) != 0)
        op++;
    if (!op->name) {
        live_job_refuse(l, number, 404, "not-found", "this worker does not know the operation");
        return;
    }
    if (l->closing || l->n_calls >= LIVE_CALLS_MAX) {
        live_job_refuse(l, number, 503, "busy",
                        l->closing ? "the job ends" : "256 calls of this job are under way");
        return;
    }
    struct live_call *c = calloc(1, sizeof *c);
    json_t *input = json_object_get(message, "input");
    if (c) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        *c = (struct live_call){.job = l,
                                .op = op,
                                .number = number,
                                .user = strdup(json_get_string_or(message, "user", "")),
                                .input = json_is_object(input) ? json_incref(input) : json_object(),
                                .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                .credit_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                .cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                .credit = LIVE_WINDOW,
                                .in = BUF_INIT(2 * LIVE_WINDOW)};
        pthread_cond_init(&c->changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
    }
    pthread_t thread;
    if (c && c->user && c->input && c->wake >= 0 && c->credit_wake >= 0 && c->cancel >= 0 &&
        thread_start(&thread, NULL, call_thread, c) == 0) {
        pthread_detach(thread); /* it waits for the lock before it leaves the list */
        c->next = l->calls;
        l->calls = c;
        l->n_calls++;
        return;
    }
    if (c)
        call_free(c);
    live_job_refuse(l, number, 503, "busy", "the worker has no memory or threads left");
}

/* The lock is held. Negative: not what the server may send. */
static int live_job_text(struct live_job *l, const char *text, size_t n)
{
    if (json_count_values(text, n, LIVE_VALUES_MAX) > LIVE_VALUES_MAX)
        return -EPROTO;
    _cleanup_json_ json_t *message = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *call = json_object_get(message, "call");
    const json_t *cancel = json_object_get(message, "cancel");
    const json_t *credit = json_object_get(message, "credit");
    json_int_t id = json_integer_value(call ? call : cancel);
    if (!json_is_integer(call ? call : cancel) || id < 0 || id > UINT32_MAX)
        return -EPROTO;
    struct live_call *c = live_job_find(l, (uint32_t)id);
    if (cancel) {
        if (c)
            call_mark_cancelled(c);
    } else if (credit) {
        json_int_t bytes = json_integer_value(credit);
        if (bytes < 0 || bytes > LIVE_WINDOW + MESSAGE_MAX)
            return -EPROTO;
        if (!c)
            return 0;
        c->credit += bytes;
        if (c->wants_credit && c->credit > 0)
            event_set(c->credit_wake);
        pthread_cond_broadcast(&c->changed);
    } else if (!c) {
        live_job_begin_call(l, (uint32_t)id, message);
    } else {
        return -EPROTO;
    }
    return 0;
}

static int live_job_data(struct live_job *l, const uint8_t *bytes, size_t n)
{
    uint32_t number;
    if (n < sizeof number)
        return -EPROTO;
    memcpy(&number, bytes, sizeof number);
    struct live_call *c = live_job_find(l, le32toh(number));
    n -= sizeof number;
    if (!c)
        return 0; /* it ended meanwhile */
    if (n == 0)
        c->in_ended = true;
    else if (c->in_ended || buf_append(&c->in, bytes + sizeof number, n) < 0)
        return -EPROTO; /* beyond its credit */
    event_set(c->wake);
    pthread_cond_broadcast(&c->changed);
    return 0;
}

static int live_job_message(void *data, const void *bytes, size_t n, bool binary)
{
    struct live_job *l = data;
    LOCKED(&l->lock);
    return binary ? live_job_data(l, bytes, n) : live_job_text(l, bytes, n);
}

static void live_job_up(void *data)
{
    struct live_job *l = data;
    LOCKED(&l->lock);
    while (json_array_size(l->notes) && live_job_send_note(l, json_array_get(l->notes, 0)))
        json_array_remove(l->notes, 0);
}

static void live_job_down(void *data)
{
    struct live_job *l = data;
    LOCKED(&l->lock);
    for (struct live_call *c = l->calls; c; c = c->next)
        call_mark_cancelled(c);
}

static void live_job_room(void *data)
{
    struct live_job *l = data;
    LOCKED(&l->lock);
    for (struct live_call *c = l->calls; c; c = c->next) {
        if (c->wants_credit)
            event_set(c->credit_wake);
        pthread_cond_broadcast(&c->changed);
    }
}

/* --- its course --- */

static int live_job_open(struct live_job *l, struct error *err)
{
    struct job_lease *lease = l->lease;
    if (!lease->adopted)
        return l->kind->open(l, &l->state, err);
    l->state = lease->adopted;
    return lease->resume ? live_job_set_resume(l, json_incref(lease->resume), err) : 0;
}

/* Ends all calls and waits for their threads. */
static void live_job_end_calls(struct live_job *l)
{
    LOCKED(&l->lock);
    l->closing = true;
    for (struct live_call *c = l->calls; c; c = c->next)
        call_mark_cancelled(c);
    while (l->n_calls)
        pthread_cond_wait(&l->ended, &l->lock);
}

int live_run(struct worker *w, struct job_lease *lease, struct error *err)
{
    struct live_job l = {.worker = w, .lease = lease, .notes = json_array()};
    for (size_t i = 0; LIVE_KINDS[i]; i++)
        if (strcmp(LIVE_KINDS[i]->name, lease->kind) == 0)
            l.kind = LIVE_KINDS[i];
    if (!l.kind || !l.notes) {
        json_decref(l.notes);
        return l.kind ? error_set(err, ENOMEM, "no memory")
                      : error_set(err, EINVAL, "this worker has no jobs of kind '%s'", lease->kind);
    }
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.ended, NULL);
    const struct channel_events events = {.message = live_job_message,
                                          .up = live_job_up,
                                          .down = live_job_down,
                                          .room = live_job_room,
                                          .data = &l};
    char path[128];
    snprintf(path, sizeof path, "/v1/worker/jobs/%s/channel?token=%u", lease->id, lease->token);
    int r = live_job_open(&l, err);
    bool opened = r == 0 || lease->adopted;
    pthread_mutex_lock(&l.lock); /* no message is looked at before `channel` is set */
    if (r == 0)
        r = channel_open(worker_channels(w), path, &events, &l.channel, err);
    pthread_mutex_unlock(&l.lock);
    if (r == 0) {
        cancel_wait(-1, 0, -1, lease->cancel);
        live_job_end_calls(&l);
    }
    channel_close(l.channel);
    if (opened)
        l.kind->close(&l, l.state, !lease->cancelled && r == 0);
    json_decref(l.notes);
    pthread_cond_destroy(&l.ended);
    pthread_mutex_destroy(&l.lock);
    /* What failed because the job was to end is no failure of it. */
    return cancel_asked(lease->cancel) ? 0 : r;
}
