/*
 * Calls of a forge's REST API. The request goes to hutch-http on its stdin, token included: hutch
 * itself is static and has no TLS, and everybody on the host can read a command line. hutch-http
 * checks certificates, follows no redirection, and bounds time and answer.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "child.h"
#include "clock.h"
#include "forge.h"
#include "foreign.h"
#include "parts.h"
#include "buf.h"
#include "banned.h"

#define ANSWER_MAX (8u << 20)
#define TIMEOUT_S  60
#define END_MS     1000
#define ENV_MAX    16

static const char *const INHERITED[] = {
    "PATH",     "http_proxy", "https_proxy", "HTTPS_PROXY",   "no_proxy",
    "NO_PROXY", "all_proxy",  "ALL_PROXY",   "SSL_CERT_FILE", "SSL_CERT_DIR"};

/* A frontend may not ignore SIGPIPE, and a helper that ends early must not end hutch. */
static ssize_t http_write(int fd, const void *data, size_t n)
{
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    ssize_t done = write(fd, data, n);
    int code = errno;
    if (done < 0 && code == EPIPE)
        sigtimedwait(&pipe, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = code;
    return done;
}

/* Sends the request and reads the answer, one line, to its end. */
static int http_exchange(struct child *c, const char *request, int cancel, struct buf *answer,
                         struct error *err)
{
    size_t left = strlen(request);
    int64_t deadline = clock_now() + (TIMEOUT_S + 10) * NS_PER_S;
    for (;;) {
        char piece[16384];
        struct pollfd fds[] = {{.fd = c->out, .events = POLLIN},
                               {.fd = left ? c->in : -1, .events = POLLOUT},
                               {.fd = cancel, .events = POLLIN}};
        int wait = clock_poll_ms(deadline);
        if (poll(fds, ARRAY_SIZE(fds), wait) < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot wait for hutch-http");
        if (cancel >= 0 && fds[2].revents)
            return error_set(err, ECANCELED, "the call was cancelled");
        if (wait == 0)
            return error_set(err, ETIMEDOUT, "the server did not answer within %d seconds",
                             TIMEOUT_S);
        if (fds[1].revents) {
            ssize_t n = http_write(c->in, request, left);
            if (n < 0 && errno != EAGAIN && errno != EINTR)
                left = 0; /* it ended: its answer says why */
            request += n > 0 ? n : 0;
            left -= n > 0 ? (size_t)n : 0;
        }
        ssize_t n = fds[0].revents ? read(c->out, piece, sizeof piece) : -1;
        if (n == 0)
            return 0;
        if (n > 0 && buf_append(answer, piece, (size_t)n) < 0)
            return error_set(err, EFBIG, "the server's answer is too long");
    }
}

/* Runs hutch-http for one request. */
static int http_run(const char *request, int cancel, json_t **ret, struct error *err)
{
    char path[PARTS_PATH_MAX], *env[ENV_MAX] = {0};
    _cleanup_buf_ struct buf answer = BUF_INIT(2 * ANSWER_MAX);
    struct child c = CHILD_NONE;
    size_t n = 0;
    int r = parts_find("hutch-http", path, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(INHERITED); i++) {
        const char *value = getenv(INHERITED[i]);
        if (value && asprintf(&env[n], "%s=%s", INHERITED[i], value) >= 0)
            n++;
    }
    char *argv[] = {path, NULL};
    r = child_start(&(struct child_options){.command = path, .argv = argv, .env = env, .cwd = "/"},
                    &c, err);
    if (r == 0)
        r = http_exchange(&c, request, cancel, &answer, err);
    child_end(&c, r < 0 ? 0 : END_MS);
    for (size_t i = 0; i < n; i++)
        free(env[i]);
    if (r < 0)
        return r;
    *ret = json_loadb(answer.data ? (const char *)answer.data : "", answer.len, 0, NULL);
    return *ret ? 0 : error_set(err, EPROTO, "hutch-http ended without an answer");
}

static json_t *http_request(const struct forge *f, const struct forge_token *t, const char *path,
                            const json_t *body)
{
    json_t *headers =
        json_pack("{s:o}", "Authorization", json_sprintf("%s %s", f->kind->authorization, t->text));
    json_t *o = json_pack("{s:s, s:o, s:o, s:s, s:i, s:i}", "method", body ? "POST" : "GET", "url",
                          json_sprintf("%s%s", f->api, path), "headers", headers, "accept",
                          f->kind->accept, "timeout", TIMEOUT_S, "answer_max", (int)ANSWER_MAX);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (text)
        json_object_set_new(o, "body", json_string(text));
    free(text);
    return o;
}

int forge_call(const struct forge *f, const struct forge_token *t, const char *path,
               const json_t *body, int cancel, json_int_t *ret_status, json_t **ret_answer,
               struct error *err)
{
    _cleanup_free_ char *line = NULL;
    json_t *request = http_request(f, t, path, body), *answer = NULL;
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    if (!text || asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    int r = line ? http_run(line, cancel, &answer, err) : error_set(err, ENOMEM, "no memory");
    if (r < 0)
        return r;
    const char *trouble = json_string_value(json_object_get(answer, "error"));
    if (trouble) {
        char shown[600];
        snprintf(shown, sizeof shown, "%s", trouble);
        forge_redact(shown, t->text);
        r = error_set(err, EIO, "cannot reach %s: %s", f->api, shown);
    } else {
        const char *said = json_string_value(json_object_get(answer, "body"));
        *ret_status = json_integer_value(json_object_get(answer, "status"));
        *ret_answer = said ? json_loads(said, 0, NULL) : NULL;
    }
    json_decref(answer);
    return r;
}

/* What the server says about its refusal: "message" with "errors" (GitHub), "message" or "error"
 * (GitLab, Gitea). */
static void forge_said(const json_t *answer, const char *secret, char *ret, size_t size)
{
    const json_t *message = json_object_get(answer, "message");
    const json_t *more = json_object_get(answer, "errors");
    message = message ? message : json_object_get(answer, "error");
    char *text = json_is_string(message) ? strdup(json_string_value(message))
                 : message               ? json_dumps(message, JSON_COMPACT | JSON_ENCODE_ANY)
                                         : NULL;
    char *details = json_array_size(more) ? json_dumps(more, JSON_COMPACT) : NULL;
    char both[700];
    snprintf(both, sizeof both, "%.300s%s%.300s", text ? text : "", details ? " " : "",
             details ? details : "");
    char *clean = foreign_text(both, strlen(both), size - 8);
    snprintf(ret, size, "%s", clean ? clean : "");
    forge_redact(ret, secret);
    free(clean);
    free(text);
    free(details);
}

int forge_explain(const struct forge *f, const struct forge_token *t, json_int_t status,
                  const json_t *answer, struct error *err)
{
    char said[500], advice[400];
    forge_said(answer, t->text, said, sizeof said);
    forge_token_advice(f, advice, sizeof advice);
    const char *colon = said[0] ? ": " : "";
    switch (status) {
    case 401:
        return error_set(err, EACCES, "%s does not accept the token from %s (401%s%s); %s",
                         f->authority, t->source, colon, said, advice);
    case 403:
        return error_set(err, EACCES, "%s forbids it (403%s%s); the token from %s must have %s",
                         f->authority, colon, said, t->source, f->kind->rights);
    case 404:
        return error_set(err, ENOENT,
                         "%s has no such repository, or hides it from the token from %s (404%s%s); "
                         "it must have %s",
                         f->authority, t->source, colon, said, f->kind->rights);
    case 409:
    case 422:
        return error_set(
            err, EINVAL,
            "%s refused the %s (%lld%s%s); check that base exists, that the branch has commits that"
            " base has not, and that there is none for it already",
            f->authority, f->kind->noun, (long long)status, colon, said);
    case 301:
    case 302:
    case 307:
    case 308:
        return error_set(
            err, EIO,
            "%s redirects elsewhere (%lld); if the repository moved, update the remote's URL with"
            " `git remote set-url`",
            f->authority, (long long)status);
    case 429:
        return error_set(err, EBUSY, "%s limits the rate of requests (429%s%s); try again later",
                         f->authority, colon, said);
    default:
        return error_set(err, EIO, "%s answered with status %lld%s%s", f->authority,
                         (long long)status, colon, said);
    }
}

void forge_redact(char *text, const char *secret)
{
    size_t n = strlen(secret);
    for (char *at = text; n >= 4 && (at = strstr(at, secret)); at += n)
        memset(at, '*', n);
}
