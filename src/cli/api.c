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
    struct buf problem;
    int64_t heard; /* when the last bytes came or went */
    int failed;    /* of the sink */
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

static int attempt_headers(const struct api *a, const struct api_request *q,
                           struct curl_slist **ret)
{
    int r = http_headers_add(ret, "Accept: %s", q->accept ? q->accept : "application/json");
    if (r == 0 && a->key)
        r = http_headers_add(ret, "Authorization: Bearer %s", a->key);
    if (r == 0 && q->body)
        r = http_headers_add(ret, "Content-Type: application/json");
    if (r == 0 && q->upload_size)
        r = http_headers_add(ret, "Content-Type: application/octet-stream");
    if (r == 0 && q->idempotency)
        r = http_headers_add(ret, "Idempotency-Key: %s", q->idempotency);
    if (r == 0 && q->from)
        r = http_headers_add(ret, "Range: bytes=%" PRIu64 "-", q->from);
    if (r == 0 && q->last_event)
        r = http_headers_add(ret, "Last-Event-ID: %s", q->last_event);
    return r == 0 ? http_headers_add(ret, "Expect:") : r;
}

static void attempt_set_up(struct attempt *t, const struct api *a)
{
    const struct api_request *q = t->request;
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
}

/* Until the transfer has ended: 0 with libcurl's code; -ECANCELED. */
static int attempt_drive(struct attempt *t, CURLM *multi, CURLcode *ret)
{
    struct curl_waitfd wait = {.fd = interrupt_descriptor(), .events = CURL_WAIT_POLLIN};
    int running = 1, left;
    t->heard = clock_now();
    while (running) {
        if (curl_multi_perform(multi, &running) != CURLM_OK ||
            (running && curl_multi_poll(multi, &wait, wait.fd >= 0, 1000, NULL) != CURLM_OK))
            return -ENOMEM;
        if (interrupt_signal())
            return -ECANCELED;
        if (running && !t->request->upload_size && clock_now() - t->heard > SILENCE) {
            *ret = CURLE_OPERATION_TIMEDOUT;
            return 0;
        }
    }
    CURLMsg *m = curl_multi_info_read(multi, &left);
    *ret = m ? m->data.result : CURLE_FAILED_INIT;
    return 0;
}

/* The error of a status: the problem's detail. */
static int attempt_problem(struct attempt *t, const struct api *a, long status, struct error *err)
{
    int code = status == 404                    ? ENOENT
               : status == 401 || status == 403 ? EACCES
               : status == 409                  ? EBUSY
               : status == 416                  ? ERANGE
               : status == 400 || status == 422 ? EINVAL
                                                : EPROTO;
    _cleanup_json_ json_t *problem =
        json_loadb((const char *)t->problem.data, t->problem.len, 0, NULL);
    const char *detail = json_get_string(problem, "detail");
    if (!detail)
        detail = json_get_string(problem, "title");
    if (status == 401)
        return error_set(err, code, "%s refused the key: %s; see --key", a->name,
                         detail ? detail : "no reason given");
    if (!detail)
        return error_set(err, code, "%s answered with status %ld: is it a hutch server?", a->name,
                         status);
    return error_set(err, code, "%s", detail);
}

/* One attempt: 0, an error of api_call, or -EAGAIN: it can be repeated. */
static int attempt_run(struct api *a, const struct api_request *q, long *ret_status,
                       struct attempt *t, struct error *err)
{
    char why[CURL_ERROR_SIZE];
    struct curl_slist *headers = NULL;
    struct sigpipe before;
    CURLcode code = CURLE_FAILED_INIT;
    curl_off_t retry_after = 0;
    long status = 0, os_errno = 0;
    _cleanup_free_ char *url = str_printf("%s%s", a->base, q->path);
    int r = url ? attempt_headers(a, q, &headers) : -ENOMEM;
    t->easy = r == 0 ? http_easy_new(url, headers, why) : NULL;
    CURLM *multi = t->easy ? curl_multi_init() : NULL;
    if (multi)
        attempt_set_up(t, a);
    sigpipe_block(&before); /* OpenSSL writes without MSG_NOSIGNAL */
    if (!multi || curl_multi_add_handle(multi, t->easy) != CURLM_OK)
        r = -ENOMEM;
    else if (!(r = q->sink.begin ? q->sink.begin(q->sink.data) : 0))
        r = attempt_drive(t, multi, &code);
    if (r == 0) {
        curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after);
        curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &os_errno);
    }
    const char *text = why[0] ? why : curl_easy_strerror(code);
    if (code == CURLE_COULDNT_CONNECT && os_errno)
        text = strerror((int)os_errno);
    if (r == -ECANCELED)
        error_set(err, ECANCELED, "interrupted");
    else if (r < 0)
        error_set(err, -r, "no memory");
    else if (t->failed)
        r = t->failed;
    else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
             code == CURLE_URL_MALFORMAT)
        r = error_set(err, EIO, "cannot reach %s: %s", a->name, text);
    else if (code != CURLE_OK && status < 400) {
        error_set(err, EIO, status ? "the connection to %s broke: %s" : "cannot reach %s: %s",
                  a->name, text);
        r = -EAGAIN;
    } else if (status >= 400) {
        r = attempt_problem(t, a, status, err);
        t->retry_after_s = (long)retry_after;
        if (status == 429 || status == 502 || status == 503 || status == 504)
            r = -EAGAIN;
    }
    if (multi)
        curl_multi_remove_handle(multi, t->easy);
    curl_multi_cleanup(multi);
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(headers);
    sigpipe_restore(&before);
    a->reached |= status > 0;
    *ret_status = status;
    return r;
}

int api_call(struct api *a, const struct api_request *q, long *ret_status, struct error *err)
{
    int64_t began = clock_now(); /* of the time without an answer */
    for (unsigned n = 0;; n++) {
        struct attempt t = {.request = q, .problem = BUF_INIT(PROBLEM_MAX)};
        struct error failure = {0};
        long status = 0;
        int r = attempt_run(a, q, &status, &t, &failure);
        buf_free(&t.problem);
        if (r >= 0) {
            *ret_status = status;
            return 0;
        }
        if (status > 0 && status < 400) { /* it was an answer that broke off */
            began = clock_now();
            n = 0;
        }
        int64_t wait_ms = BACKOFF_FIRST_MS << (n < 6 ? n : 6);
        wait_ms = wait_ms < BACKOFF_MAX_MS ? wait_ms : BACKOFF_MAX_MS;
        if (t.retry_after_s * 1000 > wait_ms)
            wait_ms = t.retry_after_s * 1000;
        int64_t patience = a->reached ? PATIENCE_REACHED : PATIENCE_FIRST;
        if (r != -EAGAIN || q->once || clock_now() + wait_ms * NS_PER_MS > began + patience) {
            if (r == -EAGAIN && !a->reached)
                return error_set(err, EIO, "%s; is 'hutch serve' running there? (--server)",
                                 failure.text);
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
