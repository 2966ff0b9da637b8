/* Answers. The first one counts; what comes after it, or after the client has gone, is dropped. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "server.h"
#include "banned.h"

static void respond_put_header(struct request *q, const char *name, const char *value)
{
    if (strpbrk(value, "\r\n") || strpbrk(name, "\r\n"))
        return;
    buf_append(&q->headers_out, name, strlen(name) + 1);
    buf_append(&q->headers_out, value, strlen(value) + 1);
}

void respond_header(struct request *q, const char *name, const char *value)
{
    LOCKED(&q->lock);
    if (!q->answer)
        respond_put_header(q, name, value);
}

/* Under the lock: sets what all answers have. False: there is one, or no client. */
static bool respond_begin(struct request *q, enum answer_kind kind, int status, const char *type)
{
    if (q->answer || q->gone)
        return false;
    q->answer = kind;
    q->status = status;
    if (type)
        respond_put_header(q, "content-type", type);
    return true;
}

void respond_bytes(struct request *q, int status, const char *type, const void *data, size_t n)
{
    LOCKED(&q->lock);
    if (!respond_begin(q, ANSWER_WHOLE, status, type))
        return;
    q->out.max = n > q->out.max ? n : q->out.max;
    if (buf_append(&q->out, data, n) < 0) {
        q->status = 503;
        n = 0;
    }
    q->left = n;
    loop_wake(q);
}

void respond_empty(struct request *q, int status)
{
    respond_bytes(q, status, NULL, "", 0);
}

static void respond_value(struct request *q, int status, const char *type, json_t *body)
{
    _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX);
    if (!body || json_append(&text, body, JSON_COMPACT | JSON_ENCODE_ANY) < 0 ||
        buf_append_str(&text, "\n") < 0)
        respond_bytes(q, 500, "application/problem+json",
                      SCHEMA({"type" : "urn:hutch:problem:no-memory", "title" : "no memory"}), 62);
    else
        respond_bytes(q, status, type, text.data, text.len);
    json_decref(body);
}

void respond_json(struct request *q, int status, json_t *body)
{
    respond_value(q, status, "application/json", body);
}

static const char *status_title(int status)
{
    static const struct {
        int status;
        const char *title;
    } TITLES[] = {
        {400, "Bad request"},
        {401, "No valid key"},
        {403, "Not allowed"},
        {404, "Not found"},
        {405, "Method not allowed"},
        {408, "Request timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length required"},
        {413, "Content too large"},
        {415, "Unsupported media type"},
        {416, "Range not satisfiable"},
        {421, "Misdirected request"},
        {422, "Invalid content"},
        {429, "Too many requests"},
        {431, "Headers too large"},
        {500, "Internal error"},
        {502, "Bad worker"},
        {503, "Unavailable"},
        {504, "Timeout"},
        {507, "No space"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(TITLES); i++)
        if (TITLES[i].status == status)
            return TITLES[i].title;
    return "Error";
}

void respond_problem(struct request *q, int status, const char *type, const char *fmt, ...)
{
    char detail[ERROR_TEXT_MAX], uri[100];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    snprintf(uri, sizeof uri, "urn:hutch:problem:%s", type);
    if (q->ws) {
        LOCKED(&q->lock);
        if (!q->answer)
            snprintf(q->ws->close_why, sizeof q->ws->close_why, "%s: %.80s", type, detail);
    }
    char *clean = foreign_text(detail, strlen(detail), sizeof detail);
    for (char *c = clean; c && *c; c++) /* it may quote the request, and stays one line */
        *c = *c == '\n' ? ' ' : *c;
    respond_value(q, status, "application/problem+json",
                  json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", uri, "title", status_title(status),
                            "status", status, "detail", clean ? clean : "", "request_id", q->id));
    free(clean);
}

void respond_error(struct request *q, const struct error *err)
{
    static const struct {
        int code, status;
        const char *type;
    } PROBLEMS[] = {
        {ENOENT, 404, "not-found"},  {ESTALE, 409, "lost-lease"},  {EALREADY, 409, "ended"},
        {EEXIST, 409, "exists"},     {EBUSY, 409, "busy"},         {EDQUOT, 413, "quota"},
        {EFBIG, 413, "too-large"},   {EMSGSIZE, 413, "too-large"}, {EINVAL, 400, "bad-request"},
        {EPERM, 403, "not-allowed"}, {ENOSPC, 507, "no-space"},    {EAGAIN, 503, "unavailable"},
        {ETIMEDOUT, 504, "timeout"}, {EPROTO, 502, "bad-worker"},  {ECANCELED, 503, "cancelled"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(PROBLEMS); i++)
        if (PROBLEMS[i].code == err->code) {
            respond_problem(q, PROBLEMS[i].status, PROBLEMS[i].type, "%s", err->text);
            return;
        }
    log_message(LOG_WARN, "request %s failed: %s", q->id, err->text);
    respond_problem(q, 500, "internal", "%s", err->text);
}

void respond_busy(struct request *q)
{
    respond_header(q, "Retry-After", "1");
    respond_problem(q, 503, "busy", "the server has too many requests under way; try again");
}

/* --- files --- */

int range_parse(const char *text, uint64_t size, uint64_t *ret_first, uint64_t *ret_n)
{
    unsigned long long first, last = 0;
    int used = 0;
    if (!text || strncmp(text, "bytes=", 6) != 0)
        return 0;
    text += 6;
    if (strlen(text) > 40 || strspn(text, "0123456789-") != strlen(text) ||
        strchr(text, '-') != strrchr(text, '-'))
        return 0;
    if (sscanf(text, "-%llu%n", &last, &used) == 1 && !text[used]) {
        first = last < size ? size - last : 0;
        last = size ? size - 1 : 0;
    } else if (sscanf(text, "%llu-%llu%n", &first, &last, &used) == 2 && !text[used]) {
        if (last < first)
            return 0;
        last = last < size ? last : size - 1;
    } else if (sscanf(text, "%llu-%n", &first, &used) == 1 && used > 0 && !text[used]) {
        last = size ? size - 1 : 0;
    } else {
        return 0;
    }
    if (first >= size)
        return -1;
    *ret_first = first;
    *ret_n = last - first + 1;
    return 1;
}

/* `attachment; filename*=UTF-8''NAME`: RFC 6266, with everything but letters and digits encoded. */
static void respond_disposition(struct request *q, const char *name)
{
    char value[1024] = "attachment; filename*=UTF-8''";
    size_t n = strlen(value);
    for (const uint8_t *c = (const uint8_t *)name; *c && n + 4 < sizeof value; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || strchr("._-", *c);
        n += (size_t)snprintf(value + n, sizeof value - n, plain ? "%c" : "%%%02X", *c);
    }
    respond_put_header(q, "content-disposition", value);
}

void respond_file(struct request *q, int fd, const char *type, const char *name)
{
    _cleanup_fd_ int file = fd;
    struct stat st;
    if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode)) {
        respond_problem(q, 500, "internal", "the file cannot be read");
        return;
    }
    uint64_t first = 0, size = (uint64_t)st.st_size, n = size;
    int range = range_parse(request_header(q, "range"), size, &first, &n);
    char text[100];
    if (range < 0) {
        snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)size);
        respond_header(q, "content-range", text);
        respond_problem(q, 416, "bad-range", "the file has %llu bytes", (unsigned long long)size);
        return;
    }
    LOCKED(&q->lock);
    if (!respond_begin(q, ANSWER_FILE, range ? 206 : 200, type))
        return;
    respond_put_header(q, "accept-ranges", "bytes");
    if (range) {
        snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)first,
                 (unsigned long long)(first + n - 1), (unsigned long long)size);
        respond_put_header(q, "content-range", text);
    }
    if (name)
        respond_disposition(q, name);
    q->file = TAKE_FD(file);
    q->file_at = first;
    q->left = n;
    loop_wake(q);
}

/* --- from the function's thread --- */

int respond_stream(struct request *q, const char *type, const char *name, uint64_t size)
{
    LOCKED(&q->lock);
    if (!respond_begin(q, ANSWER_STREAM, 200, type))
        return -EPIPE;
    if (name)
        respond_disposition(q, name);
    q->left = size;
    loop_watch(q);
    loop_wake(q);
    return 0;
}

int respond_write(struct request *q, const void *data, size_t n)
{
    LOCKED(&q->lock);
    if (n == 0)
        q->complete = true;
    const uint8_t *at = data;
    while (n > 0) {
        while (q->out.len >= UNSENT_MAX && !q->gone && !q->stopping)
            pthread_cond_wait(&q->drained, &q->lock);
        if (q->gone || q->stopping || q->answer != ANSWER_STREAM)
            return -EPIPE;
        size_t piece = n < UNSENT_MAX ? n : UNSENT_MAX;
        if (buf_append(&q->out, at, piece) < 0)
            return -ENOMEM;
        at += piece;
        n -= piece;
        loop_wake(q);
    }
    return q->gone ? -EPIPE : 0;
}
