/* See api.h. One request is one libcurl handle; connections are not kept, since a command makes few
 * requests. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "cli.h"
#include "http.h"
#include "io.h"
#include "json.h"
#include "sse.h"
#include "thread.h"
#include "banned.h"

#define SERVER_DEFAULT   "http://127.0.0.1:8642"
#define PATIENCE_FIRST   (10 * NS_PER_S)
#define PATIENCE_REACHED (300 * NS_PER_S)
#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS   5000
#define PROBLEM_MAX      (64u << 10)
#define EVENT_MAX        (4u << 20)
#define SILENCE          (60 * NS_PER_S) /* events: a comment comes every 15 s */
#define STALLED_S        60L

int api_open(const char *server, const char *key, struct api *ret, struct error *err)
{
    const char *text = server ? server : getenv("HUTCH_SERVER");
    const char *from = server ? "--server" : "HUTCH_SERVER";
    if (!key)
        key = getenv("HUTCH_API_KEY");
    if (!text || !*text)
        text = SERVER_DEFAULT;
    bool local = strncmp(text, "unix:", 5) == 0;
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '/')
        n--;
    if (local ? n <= 5 : strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
        return error_set(err, EINVAL, "%s: '%s' must start with http://, https:// or unix:", from,
                         text);
    for (const char *c = key ? key : ""; *c; c++)
        if (*c <= ' ' || *c > '~')
            return error_set(err, EINVAL, "the key has a character that no key has");
    struct api a = {.name = strndup(text, n),
                    .base = local ? strdup("http://localhost") : strndup(text, n),
                    .socket = local ? strdup(text + 5) : NULL,
                    .key = key && *key ? strdup(key) : NULL};
    if (!a.name || !a.base || (local && !a.socket) || (key && *key && !a.key)) {
        api_free(&a);
        return error_set(err, ENOMEM, "no memory");
    }
    *ret = a;
    return 0;
}

void api_free(struct api *a)
{
    free(a->name);
    free(a->base);
    free(a->socket);
    free(a->key);
    *a = (struct api){0};
}

void api_quote(struct buf *out, const char *text, const char *keep)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~", c) || strchr(keep, c);
        buf_printf(out, plain ? "%c" : "%%%02X", c);
    }
}

/* --- one attempt --- */

struct attempt {
    const struct api_request *request;
    CURL *easy;
    CURLM *multi;
    struct curl_slist *headers;
    char *url;
    char why[CURL_ERROR_SIZE];
    struct buf problem;
    int64_t heard; /* when the last bytes came or went */
    int failed;    /* of the sink */
    CURLcode code; /* how it ended */
    long status;   /* 0: there was no answer */
    long retry_after_s;
};

static size_t attempt_take(char *data, size_t size, size_t n, void *attempt)
{
    struct attempt *t = attempt;
    long status = 0;
    t->heard = clock_now();
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400) {
        buf_append(&t->problem, data, n);
        return n;
    }
    t->failed = t->request->sink.take(t->request->sink.data, data, n);
    return t->failed ? CURL_WRITEFUNC_ERROR : n;
}

static size_t attempt_read(char *data, size_t size, size_t n, void *attempt)
{
    struct attempt *t = attempt;
    ssize_t got = read(t->request->upload, data, size * n);
    t->heard = clock_now();
    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static int attempt_add_headers(struct attempt *t, const struct api *a)
{
    const struct api_request *q = t->request;
    int r = http_headers_add(&t->headers, "Accept: %s", q->accept ? q->accept : "application/json");
    if (r == 0 && a->key)
        r = http_headers_add(&t->headers, "Authorization: Bearer %s", a->key);
    if (r == 0 && q->body)
        r = http_headers_add(&t->headers, "Content-Type: application/json");
    if (r == 0 && q->upload_size)
        r = http_headers_add(&t->headers, "Content-Type: application/octet-stream");
    if (r == 0 && q->idempotency)
        r = http_headers_add(&t->headers, "Idempotency-Key: %s", q->idempotency);
    if (r == 0 && q->from)
        r = http_headers_add(&t->headers, "Range: bytes=%" PRIu64 "-", q->from);
    if (r == 0 && q->last_event)
        r = http_headers_add(&t->headers, "Last-Event-ID: %s", q->last_event);
    return r == 0 ? http_headers_add(&t->headers, "Expect:") : r;
}

static int attempt_open(struct attempt *t, const struct api *a)
{
    const struct api_request *q = t->request;
    t->url = str_printf("%s%s", a->base, q->path);
    if (!t->url || attempt_add_headers(t, a) < 0 ||
        !(t->easy = http_easy_new(t->url, t->headers, t->why)) || !(t->multi = curl_multi_init()))
        return -ENOMEM;
    CURL *e = t->easy;
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, q->method);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, attempt_take);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    if (a->socket) {
        curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, a->socket);
        curl_easy_setopt(e, CURLOPT_PROXY, "");
    }
    if (q->upload_size) {
        lseek(q->upload, 0, SEEK_SET);
        curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(e, CURLOPT_READFUNCTION, attempt_read);
        curl_easy_setopt(e, CURLOPT_READDATA, t);
        curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->upload_size);
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, STALLED_S);
    } else if (q->body) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(q->body));
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, q->body);
    }
    return curl_multi_add_handle(t->multi, e) == CURLM_OK ? 0 : -ENOMEM;
}

static void attempt_close(struct attempt *t)
{
    if (t->multi && t->easy)
        curl_multi_remove_handle(t->multi, t->easy);
    curl_multi_cleanup(t->multi);
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    buf_free(&t->problem);
    free(t->url);
}

/* Until the transfer has ended: 0, or -ECANCELED. */
static int attempt_drive(struct attempt *t)
{
    struct curl_waitfd wait = {.fd = interrupt_descriptor(), .events = CURL_WAIT_POLLIN};
    curl_off_t retry_after = 0;
    int running = 1, left;
    t->heard = clock_now();
    while (running) {
        if (curl_multi_perform(t->multi, &running) != CURLM_OK ||
            (running && curl_multi_poll(t->multi, &wait, wait.fd >= 0, 1000, NULL) != CURLM_OK))
            return -ENOMEM;
        if (interrupt_signal())
            return -ECANCELED;
        if (running && !t->request->upload_size && clock_now() - t->heard > SILENCE)
            break;
    }
    CURLMsg *m = running ? NULL : curl_multi_info_read(t->multi, &left);
    t->code = m ? m->data.result : CURLE_OPERATION_TIMEDOUT;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &t->status);
    curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after);
    t->retry_after_s = (long)retry_after;
    return 0;
}

/* The error of a status: the problem's detail. */
static int attempt_problem(const struct attempt *t, const struct api *a, struct error *err)
{
    int code = t->status == 404                       ? ENOENT
               : t->status == 401 || t->status == 403 ? EACCES
               : t->status == 409                     ? EBUSY
               : t->status == 416                     ? ERANGE
               : t->status == 400 || t->status == 422 ? EINVAL
                                                      : EPROTO;
    bool again = t->status == 429 || t->status == 502 || t->status == 503 || t->status == 504;
    _cleanup_json_ json_t *problem =
        json_loadb((const char *)t->problem.data, t->problem.len, 0, NULL);
    const char *detail = json_get_string(problem, "detail");
    if (!detail)
        error_set(err, code, "%s answered with status %ld: is it a hutch server?", a->name,
                  t->status);
    else if (t->status == 401)
        error_set(err, code, "%s %s; set HUTCH_API_KEY, or give --key FILE", a->name,
                  a->key ? "refused the key" : "needs a key");
    else
        error_set(err, code, "%s", detail);
    return again ? -EAGAIN : -code;
}

/* The error of a transfer that broke, or did not begin. */
static int attempt_broken(const struct attempt *t, const struct api *a, struct error *err)
{
    long code = 0;
    const char *why = t->why[0] ? t->why : curl_easy_strerror(t->code);
    curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &code);
    if (t->code == CURLE_COULDNT_CONNECT && code)
        why = strerror((int)code);
    error_set(err, EIO, t->status ? "the connection to %s broke: %s" : "cannot reach %s: %s",
              a->name, why);
    bool hopeless = t->code == CURLE_PEER_FAILED_VERIFICATION ||
                    t->code == CURLE_SSL_CACERT_BADFILE || t->code == CURLE_URL_MALFORMAT;
    return hopeless ? -EIO : -EAGAIN;
}

/* One attempt: 0, an error of api_call, or -EAGAIN: it can be repeated. */
static int attempt_run(struct attempt *t, struct api *a, struct error *err)
{
    const struct api_sink *sink = &t->request->sink;
    struct sigpipe before;
    sigpipe_block(&before); /* OpenSSL writes without MSG_NOSIGNAL */
    int r = attempt_open(t, a);
    if (r < 0)
        error_set(err, ENOMEM, "no memory");
    else if ((r = sink->begin ? sink->begin(sink->data) : 0) < 0)
        error_set(err, EIO, "the connection to %s broke in the middle of the answer", a->name);
    else if ((r = attempt_drive(t)) < 0)
        error_set(err, -r, r == -ECANCELED ? "interrupted" : "no memory");
    else if (t->failed)
        r = t->failed;
    else if (t->status >= 400)
        r = attempt_problem(t, a, err);
    else if (t->code != CURLE_OK)
        r = attempt_broken(t, a, err);
    a->reached |= t->status > 0;
    attempt_close(t);
    sigpipe_restore(&before);
    return r;
}

int api_call(struct api *a, const struct api_request *q, long *ret_status, struct error *err)
{
    int64_t began = clock_now(); /* of the time without an answer */
    for (unsigned n = 0;; n++) {
        struct attempt t = {.request = q, .problem = BUF_INIT(PROBLEM_MAX)};
        struct error failure = {0};
        int r = attempt_run(&t, a, &failure);
        if (r == 0) {
            *ret_status = t.status;
            return 0;
        }
        if (t.status > 0 && t.status < 400) { /* it was an answer that broke off */
            began = clock_now();
            n = 0;
        }
        int64_t wait_ms = BACKOFF_FIRST_MS << (n < 6 ? n : 6);
        wait_ms = wait_ms < BACKOFF_MAX_MS ? wait_ms : BACKOFF_MAX_MS;
        if (t.retry_after_s * 1000 > wait_ms)
            wait_ms = t.retry_after_s * 1000;
        int64_t patience = a->reached ? PATIENCE_REACHED : PATIENCE_FIRST;
        bool late = clock_now() + wait_ms * NS_PER_MS > began + patience;
        if (r == -EAGAIN && late && !a->reached)
            return error_set(err, EIO, "%s; is 'hutch serve' running there? (--server)",
                             failure.text);
        if (r != -EAGAIN || q->once || late) {
            if (err)
                *err = failure;
            return r == -EAGAIN ? -EIO : r;
        }
        if (n == 0)
            say("%s; retrying for %" PRId64 " s", failure.text, (int64_t)(patience / NS_PER_S));
        if (cancel_wait(interrupt_descriptor(), POLLIN, (int)wait_ms, -1) > 0)
            return error_set(err, ECANCELED, "interrupted");
    }
}

/* --- answers --- */

static int text_begin(void *data)
{
    ((struct buf *)data)->len = 0;
    return 0;
}

static int text_take(void *data, const void *bytes, size_t n)
{
    return buf_append(data, bytes, n);
}

int api_json_call(struct api *a, const struct api_request *q, json_t **ret, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(API_ANSWER_MAX);
    struct api_request full = *q;
    json_error_t where;
    long status;
    full.sink = (struct api_sink){text_begin, text_take, &text};
    int r = api_call(a, &full, &status, err);
    if (r == -ENOBUFS)
        return error_set(err, EPROTO, "the answer of %s is too long", a->name);
    if (r < 0)
        return r;
    json_t *answer = text.len ? json_loadb((const char *)text.data, text.len, 0, &where) : NULL;
    if (text.len && !answer)
        return error_set(err, EPROTO, "the answer of %s is not JSON: is it a hutch server?",
                         a->name);
    *ret = answer;
    return 0;
}

int api_json(struct api *a, const char *method, const char *path, json_t *body, json_t **ret,
             struct error *err)
{
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    struct api_request q = {.method = method, .path = path, .body = text};
    if (body && !text)
        return error_set(err, ENOMEM, "no memory");
    return api_json_call(a, &q, ret, err);
}

struct download {
    int fd;
    uint64_t wrote;
    struct harmless clean; /* for a terminal: the bytes come from a box */
    bool terminal;
};

/* Only a file can begin anew. */
static int download_begin(void *data)
{
    struct download *d = data;
    if (d->wrote > 0 && (ftruncate(d->fd, 0) < 0 || lseek(d->fd, 0, SEEK_SET) < 0))
        return -EPIPE;
    d->wrote = 0;
    return 0;
}

static int download_take(void *data, const void *bytes, size_t n)
{
    struct download *d = data;
    _cleanup_buf_ struct buf text = BUF_INIT(HARMLESS_GROWTH * (n + 4));
    d->wrote += n;
    if (d->terminal && harmless_append(&d->clean, bytes, n, &text) < 0)
        return -ENOMEM;
    return d->fd != STDOUT_FILENO ? io_write_all(d->fd, bytes, n)
           : d->terminal          ? output_write(text.data, text.len)
                                  : output_write(bytes, n);
}

int api_download(struct api *a, const char *path, uint64_t from, int fd, uint64_t *ret_size,
                 struct error *err)
{
    struct download d = {.fd = fd, .terminal = fd == STDOUT_FILENO && isatty(fd)};
    struct api_request q = {.method = "GET",
                            .path = path,
                            .accept = "*/*",
                            .from = from,
                            .sink = {download_begin, download_take, &d}};
    long status;
    int r = api_call(a, &q, &status, err);
    *ret_size = d.wrote;
    return r < 0 && !err->code ? error_errno(err, -r, "cannot write the answer of %s", a->name) : r;
}

/* --- events --- */

struct follow {
    struct sse sse;
    int (*each)(void *data, const json_t *event);
    void *data;
    char last[24];
    int failed; /* what `each` returned */
};

static int follow_begin(void *data)
{
    struct follow *f = data;
    sse_free(&f->sse);
    f->sse = SSE_INIT(EVENT_MAX);
    return 0;
}

static int follow_take(void *data, const void *bytes, size_t n)
{
    struct follow *f = data;
    const char *at = bytes;
    struct sse_event e;
    bool any = false;
    int r = 0;
    while (f->failed == 0 && (r = sse_take(&f->sse, &at, &n, &e)) > 0) {
        _cleanup_json_ json_t *event = json_loadb(e.data, e.n, 0, NULL);
        const char *id = sse_last_id(&f->sse);
        if (id)
            snprintf(f->last, sizeof f->last, "%.20s", id);
        if (event)
            f->failed = f->each(f->data, event);
        any = true;
    }
    if (any && f->failed == 0)
        f->failed = f->each(f->data, NULL);
    return f->failed ? -ECONNABORTED : r;
}

int api_follow(struct api *a, const char *path, int (*each)(void *data, const json_t *event),
               void *data, struct error *err)
{
    struct follow f = {.sse = SSE_INIT(EVENT_MAX), .each = each, .data = data, .last = "0"};
    struct api_request q = {.method = "GET",
                            .path = path,
                            .accept = "text/event-stream",
                            .last_event = f.last,
                            .sink = {follow_begin, follow_take, &f}};
    long status = 0;
    int r = 0;
    while (r == 0 && status != 204) {
        int64_t began = clock_now();
        r = api_call(a, &q, &status, err);
        if (r == 0 && status != 204 && clock_now() - began < 200 * NS_PER_MS &&
            cancel_wait(interrupt_descriptor(), POLLIN, 200, -1) > 0)
            r = error_set(err, ECANCELED, "interrupted");
    }
    sse_free(&f.sse);
    return f.failed ? f.failed : r;
}
