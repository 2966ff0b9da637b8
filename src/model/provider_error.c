/* Errors of providers: see http.h. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"
#include "json.h"
#include "provider.h"
#include "text.h"
#include "banned.h"

#define SAID_MAX     400
#define MESSAGE_MAX  700 /* bytes of the provider's message in the line */
#define DELAY_MAX_MS (24LL * 60 * 60 * 1000)

struct said {
    char message[SAID_MAX];
    char code[96]; /* type and code, where there are any */
};

void provider_error_line(const char *key, const char *text, size_t n, char *ret, size_t size)
{
    size_t n_key = key ? strlen(key) : 0, len = 0, read;
    for (size_t at = 0; at < n && len + 8 < size; at += read) {
        const uint8_t *s = (const uint8_t *)text + at;
        size_t c = utf8_character(s, n - at), n_put = c;
        const char *put = text + at;
        read = c ? c : 1;
        if (key && n_key >= 4 && n - at >= n_key && memcmp(s, key, n_key) == 0) {
            put = "…";
            n_put = 3;
            read = n_key;
        } else if (c == 0 || utf8_is_control(s, c)) {
            put = c ? " " : "?";
            n_put = 1;
        }
        if (*put == ' ' && (len == 0 || ret[len - 1] == ' '))
            continue;
        memcpy(ret + len, put, n_put);
        len += n_put;
    }
    while (len > 0 && (ret[len - 1] == ' ' || ret[len - 1] == '.'))
        len--;
    ret[len] = 0;
}

static bool is_too_long(const char *said)
{
    static const char *const WORDS[] = {
        "prompt is too long",     "context_length_exceeded",  "maximum context length",
        "context window",         "exceed context limit",     "exceed_context_size",
        "available context size", "input is too long",        "input token count",
        "request_too_large",      "maximum number of tokens", "context length",
        "too many input tokens",  "prompt too long",          "model_max_prompt_tokens_exceeded"};
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strcasestr(said, WORDS[i]))
            return true;
    return false;
}

/* "1m2.5s", "28ms", "20 seconds". */
static int64_t delay_parse(const char *s)
{
    double ms = -1;
    while (isdigit((unsigned char)*s)) {
        char *end;
        size_t n = 0;
        double number = strtod(s, &end), unit = 0;
        s = end + (*end == ' ');
        while (isalpha((unsigned char)s[n]))
            n++;
        if (n >= 2 && (strncasecmp(s, "ms", n) == 0 || strncasecmp(s, "millis", 6) == 0))
            unit = 1;
        else if (n >= 1 && strchr("sSmMhH", s[0]))
            unit = strchr("sS", s[0]) ? 1000 : strchr("mM", s[0]) ? 60 * 1000 : 3600 * 1000;
        if (unit == 0)
            break;
        ms = (ms < 0 ? 0 : ms) + number * unit;
        s += n;
    }
    return ms < 0 ? -1 : ms < DELAY_MAX_MS ? (int64_t)ms : DELAY_MAX_MS;
}

int64_t provider_error_delay_ms(const char *message)
{
    static const char *const BEFORE[] = {"try again in ", "retry in ", "retry after ",
                                         "try again after "};
    for (size_t i = 0; i < ARRAY_SIZE(BEFORE); i++) {
        const char *at = strcasestr(message, BEFORE[i]);
        int64_t ms = at ? delay_parse(at + strlen(BEFORE[i])) : -1;
        if (ms >= 0)
            return ms;
    }
    return -1;
}

static void said_take_string(const char *key, const json_t *value, char *to, size_t size)
{
    if (!*to && json_is_string(value))
        provider_error_line(key, json_string_value(value), json_string_length(value), to, size);
}

/* One level of an error object: the members that any provider uses. */
static void said_take_object(const char *key, const json_t *o, struct said *s)
{
    static const char *const TEXTS[] = {"message", "error", "detail", "msg", "error_description"};
    static const char *const CODES[] = {"code", "type"};
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
        said_take_string(key, json_object_get(o, TEXTS[i]), s->message, sizeof s->message);
    for (size_t i = 0; i < ARRAY_SIZE(CODES); i++) {
        char one[64] = "";
        said_take_string(key, json_object_get(o, CODES[i]), one, sizeof one);
        size_t used = strlen(s->code);
        if (*one && strcmp(one, "error") != 0)
            snprintf(s->code + used, sizeof s->code - used, "%s%s", used ? " " : "", one);
    }
}

static void said_read(const char *key, const char *body, size_t n, struct said *ret)
{
    json_t *answer = n ? json_loadb(body, n, JSON_ALLOW_NUL, NULL) : NULL;
    size_t blank = 0;
    const json_t *at = json_is_array(answer) ? json_array_get(answer, 0) : answer;
    const json_t *error = json_object_get(at, "error"), *detail = json_object_get(at, "detail");
    said_take_object(key, error, ret);
    said_take_object(key, json_is_array(detail) ? json_array_get(detail, 0) : detail, ret);
    said_take_object(key, at, ret);
    json_decref(answer);
    while (blank < n && strchr(" \t\r\n", body[blank]))
        blank++;
    if (*ret->message)
        return;
    if (blank < n && body[blank] == '<')
        snprintf(ret->message, sizeof ret->message, "a web page");
    else
        provider_error_line(key, body, n, ret->message, sizeof ret->message);
}

int provider_error_of_status(const struct model_spec *spec, const char *name, int status,
                             const char *body, size_t n, int64_t *ret_after_ms, struct error *err)
{
    struct said s = {0};
    const char *who = spec->provider, *why = s.message;
    said_read(spec->key, body, n, &s);
    *ret_after_ms = provider_error_delay_ms(s.message);
    if (!*s.message)
        snprintf(s.message, sizeof s.message, "%s", *s.code ? s.code : "no details");
    bool about_size = status == 400 || status == 413 || status == 422 || status == 500;
    if (status == 413 || (about_size && (is_too_long(why) || is_too_long(s.code))))
        return error_set(err, EMSGSIZE,
                         "the conversation is too long for %s: compact it, or start a new one (%s)",
                         name, why);
    if (status == 402 || strcasestr(s.code, "insufficient_quota") ||
        strcasestr(why, "credit balance is too low"))
        return error_set(err, EDQUOT, "%s: no credit left: see the account's billing (%s)", who,
                         why);
    if (status == 401 && !spec->key && !spec->headers)
        return error_set(err, EACCES, "%s: no API key: set %s (%s)", who, provider_key_setting(who),
                         why);
    if (status == 401)
        return error_set(err, EACCES, "%s: the API key was rejected: check %s (%s)", who,
                         provider_key_setting(who), why);
    if (status == 403)
        return error_set(err, EACCES, "%s: permission denied: the key does not allow this (%s)",
                         who, why);
    if (status == 404 && (strcasestr(why, "model") || strcasestr(s.code, "model") ||
                          strcasestr(s.code, "not_found_error")))
        return error_set(err, ENOENT, "%s: no model \"%s\": check its name (%s)", who, name, why);
    if (status == 404)
        return error_set(err, ENOENT, "%s: not found (404): check the base URL (%s)", who, why);
    if (status == 429)
        return error_set(err, EBUSY, "%s: too many requests (%s)", who, why);
    if (status == 529 || status == 503)
        return error_set(err, EIO, "%s: overloaded, status %d (%s)", who, status, why);
    if (status >= 500)
        return error_set(err, EIO, "%s: server error %d (%s)", who, status, why);
    return error_set(err, status == 408 || status == 409 ? EIO : EINVAL,
                     "%s: request refused, status %d (%s)", who, status, why);
}

/* Names of errors, of one kind each, ended by NULL. */
static const char *const OVERLOADED[] = {"overloaded_error",
                                         "overloaded",
                                         "server_is_overloaded",
                                         "slow_down",
                                         "api_error",
                                         "server_error",
                                         "internal_error",
                                         "internal_server_error",
                                         "service_unavailable",
                                         "unavailable_error",
                                         "timeout_error",
                                         "timeout",
                                         NULL};
static const char *const RATE_LIMIT[] = {"rate_limit_error", "rate_limit_exceeded", "rate_limit",
                                         "too_many_requests", NULL};
static const char *const BAD_REQUEST[] = {
    "invalid_request_error", "invalid_request", "invalid_prompt",           "bad_request",
    "badrequesterror",       "content_filter",  "content_policy_violation", NULL};
static const char *const NO_ACCESS[] = {"authentication_error", "invalid_api_key",
                                        "permission_error", "permission_denied", NULL};
static const char *const NO_CREDIT[] = {"insufficient_quota",  "billing_error",
                                        "billing_not_active",  "billing_hard_limit_reached",
                                        "usage_limit_reached", NULL};
static const char *const NOT_FOUND[] = {"not_found_error", "notfounderror", "model_not_found",
                                        NULL};
static const char *const TOO_LONG[] = {"request_too_large", "context_length_exceeded",
                                       "exceed_context_size_error", NULL};

static const struct error_kind {
    int code;
    bool retry;
    const char *const *names;
    int statuses[2]; /* besides the general meaning of 4xx and 5xx */
} ERROR_KINDS[] = {
    {EIO, true, OVERLOADED, {408, 409}}, {EBUSY, true, RATE_LIMIT, {429}},
    {EINVAL, false, BAD_REQUEST, {0}},   {EACCES, false, NO_ACCESS, {401, 403}},
    {EDQUOT, false, NO_CREDIT, {402}},   {ENOENT, false, NOT_FOUND, {404}},
    {EMSGSIZE, false, TOO_LONG, {413}},
};

/* By its name, or by its status, which may be a string. An unknown error counts as a temporary one
 * of the server. */
static struct error_kind error_kind_of(const json_t *error)
{
    static const char *const MEMBERS[] = {"code", "type", "status"};
    const struct error_kind *end = ERROR_KINDS + ARRAY_SIZE(ERROR_KINDS);
    for (size_t i = 0; i < ARRAY_SIZE(MEMBERS); i++) {
        const json_t *value = json_object_get(error, MEMBERS[i]);
        const char *name = json_string_value(value);
        json_int_t status = name ? atoi(name) : json_integer_value(value);
        for (const struct error_kind *k = ERROR_KINDS; k < end; k++) {
            for (const char *const *n = k->names; name && *n; n++)
                if (strcasecmp(*n, name) == 0)
                    return *k;
            if (status > 0 && (k->statuses[0] == status || k->statuses[1] == status))
                return *k;
        }
        if (status >= 400 && status < 600)
            return (struct error_kind){.code = status < 500 ? EINVAL : EIO, .retry = status >= 500};
    }
    return (struct error_kind){.code = EIO, .retry = true};
}

int provider_error_of_event(const json_t *error, struct retry_hint *ret, struct error *err)
{
    char what[MESSAGE_MAX], which[64];
    const json_t *message = json_is_string(error) ? error : json_object_get(error, "message");
    const char *type = json_get_string(error, "type");
    if (!type || strcmp(type, "error") == 0)
        type = json_get_string(error, "code");
    const char *words = json_is_string(message) ? json_string_value(message) : "";
    struct error_kind kind = error_kind_of(error);
    /* Without a name, or with the most general one, the message may say more. */
    bool open = kind.code == EINVAL || (kind.retry && !type);
    if (open && is_too_long(words))
        kind = (struct error_kind){.code = EMSGSIZE};
    *ret = (struct retry_hint){.retry = kind.retry, .after_ms = provider_error_delay_ms(words)};
    provider_error_line(NULL, words, json_string_length(message), what, sizeof what);
    provider_error_line(NULL, type ? type : "", type ? strlen(type) : 0, which, sizeof which);
    if (*what && *which)
        return error_set(err, kind.code, "the provider says: %s (%s)", what, which);
    if (*what)
        return error_set(err, kind.code, "the provider says: %s", what);
    return error_set(err, kind.code, "the provider reports an error%s%s", *which ? ": " : "",
                     which);
}
