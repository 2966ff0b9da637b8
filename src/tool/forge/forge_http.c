/* Calls of a forge's REST API. */
#include <errno.h>
#include <string.h>

#include "buf.h"
#include "foreign.h"
#include "forge.h"
#include "http.h"
#include "banned.h"

#define ANSWER_MAX (8u << 20)
#define TIMEOUT_MS 60000

int forge_call(const struct forge *f, const struct forge_token *t, const char *path,
               const json_t *body, int cancel, json_int_t *ret_status, json_t **ret_answer,
               struct error *err)
{
    _cleanup_buf_ struct buf answer = BUF_INIT(ANSWER_MAX);
    _cleanup_free_ char *url = NULL, *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct curl_slist *headers = NULL;
    long status = 0;
    int r = asprintf(&url, "%s%s", f->api, path) < 0 || (body && !text) ? -ENOMEM : 0;
    if (r == 0)
        r = http_headers_add(&headers, "Authorization: %s %s", f->kind->authorization, t->text);
    if (r == 0)
        r = http_headers_add(&headers, "Accept: %s", f->kind->accept);
    if (r == 0)
        r = http_headers_add(&headers, "Expect:"); /* do not wait for "100 Continue" */
    if (r == 0 && body)
        r = http_headers_add(&headers, "Content-Type: application/json");
    struct http_exchange x = {
        .url = url, .headers = headers, .body = text, .timeout_ms = TIMEOUT_MS, .cancel = cancel};
    r = r == 0 ? http_exchange(&x, &answer, &status, err) : error_set(err, ENOMEM, "no memory");
    curl_slist_free_all(headers);
    if (r == -EIO) {
        forge_redact(err->text, t->text);
        error_wrap(err, "cannot reach %s", f->api);
    }
    if (r < 0)
        return r;
    *ret_status = status;
    *ret_answer = answer.len ? json_loadb((const char *)answer.data, answer.len, 0, NULL) : NULL;
    return 0;
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
