#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "refusal.h"
#include "trouble.h"
#include "utf8.h"
#include "banned.h"

#define SAID_MAX 400

struct said {
    char message[SAID_MAX];
    char code[96]; /* type and code, where there are any */
};

/* One character to the line, and how many bytes it was. */
static size_t put_character(const char *text, size_t n, char *ret, size_t *len, size_t size)
{
    size_t c = utf8_character((const uint8_t *)text, n);
    const char *put = text;
    size_t n_put = c;
    if (c == 0 || utf8_is_control((const uint8_t *)text, c)) {
        put = c ? " " : "?";
        n_put = 1;
    }
    if (*put == ' ' && (*len == 0 || ret[*len - 1] == ' '))
        n_put = 0;
    if (*len + n_put < size) {
        memcpy(ret + *len, put, n_put);
        *len += n_put;
    }
    return c ? c : 1;
}

void refusal_one_line(const char *key, const char *text, size_t n, char *ret, size_t size)
{
    size_t n_key = key ? strlen(key) : 0, len = 0;
    for (size_t at = 0; at < n && len + 8 < size;) {
        bool secret = n_key >= 4 && n - at >= n_key && memcmp(text + at, key, n_key) == 0;
        if (secret) {
            memcpy(ret + len, "…", 3);
            len += 3;
            at += n_key;
        } else {
            at += put_character(text + at, n - at, ret, &len, size);
        }
    }
    while (len > 0 && (ret[len - 1] == ' ' || ret[len - 1] == '.'))
        len--;
    ret[len] = 0;
}

static bool has(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

bool refusal_is_too_long(const char *said)
{
    static const char *const WORDS[] = {
        "prompt is too long",     "context_length_exceeded",  "maximum context length",
        "context window",         "exceed context limit",     "exceed_context_size",
        "available context size", "input is too long",        "input token count",
        "request_too_large",      "maximum number of tokens", "context length",
        "too many input tokens",  "prompt too long",          "model_max_prompt_tokens_exceeded"};
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (has(said, WORDS[i]))
            return true;
    return false;
}

static void take_string(const char *key, const json_t *value, char *to, size_t size)
{
    if (!*to && json_is_string(value))
        refusal_one_line(key, json_string_value(value), json_string_length(value), to, size);
}

/* One level of an error object, in the words of all providers. */
static void take_object(const char *key, const json_t *o, struct said *s)
{
    static const char *const TEXTS[] = {"message", "error", "detail", "msg", "error_description"};
    static const char *const CODES[] = {"code", "type"};
    for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
        take_string(key, json_object_get(o, TEXTS[i]), s->message, sizeof s->message);
    for (size_t i = 0; i < ARRAY_SIZE(CODES); i++) {
        char one[64] = "";
        take_string(key, json_object_get(o, CODES[i]), one, sizeof one);
        size_t used = strlen(s->code);
        if (*one && strcmp(one, "error") != 0)
            snprintf(s->code + used, sizeof s->code - used, "%s%s", used ? " " : "", one);
    }
}

static void take_json(const char *key, const json_t *answer, struct said *s)
{
    const json_t *at = json_is_array(answer) ? json_array_get(answer, 0) : answer;
    const json_t *error = json_object_get(at, "error"), *detail = json_object_get(at, "detail");
    take_object(key, error, s);
    take_object(key, json_is_array(detail) ? json_array_get(detail, 0) : detail, s);
    take_object(key, at, s);
}

static void read_said(const char *key, const char *body, size_t n, struct said *ret)
{
    json_t *answer = n ? json_loadb(body, n, JSON_ALLOW_NUL, NULL) : NULL;
    size_t blank = 0;
    if (answer)
        take_json(key, answer, ret);
    json_decref(answer);
    while (blank < n && strchr(" \t\r\n", body[blank]))
        blank++;
    if (*ret->message)
        return;
    if (blank < n && body[blank] == '<')
        snprintf(ret->message, sizeof ret->message, "it sent a web page");
    else
        refusal_one_line(key, body, n, ret->message, sizeof ret->message);
}

static const char *key_place(const struct model_spec *spec)
{
    if (strcmp(spec->provider, "anthropic") == 0)
        return "ANTHROPIC_API_KEY";
    return strcmp(spec->provider, "openai") == 0 ? "OPENAI_API_KEY"
                                                 : "the provider's key in the configuration";
}

static int explain_key(const struct refusal_from *f, const struct said *s, struct error *err)
{
    const struct model_spec *spec = f->spec;
    if (!spec->key && !spec->headers)
        return error_set(err, EACCES, "%s wants a key: set %s (%s)", f->host, key_place(spec),
                         s->message);
    return error_set(err, EACCES, "%s does not accept the key: check %s (%s)", f->host,
                     key_place(spec), s->message);
}

static int explain_missing(const struct refusal_from *f, const struct said *s, struct error *err)
{
    if (has(s->message, "model") || has(s->code, "model") || has(s->code, "not_found_error"))
        return error_set(err, ENOENT, "%s has no model \"%s\": check its name (%s)", f->host,
                         f->name, s->message);
    return error_set(err, ENOENT, "%s has nothing at this address: check the base URL (%s)",
                     f->host, s->message);
}

static int explain_quota(const struct refusal_from *f, const struct said *s, struct error *err)
{
    return error_set(err, EDQUOT, "no credit is left at %s: see the account's billing (%s)",
                     f->host, s->message);
}

static int explain_status(const struct refusal_from *f, int status, const struct said *s,
                          struct error *err)
{
    if (status == 401)
        return explain_key(f, s, err);
    if (status == 403)
        return error_set(err, EACCES, "%s refuses: what this key may do does not include it (%s)",
                         f->host, s->message);
    if (status == 404)
        return explain_missing(f, s, err);
    if (status == 429)
        return error_set(err, EBUSY, "too many requests for %s (%s)", f->host, s->message);
    if (status == 529 || status == 503)
        return error_set(err, EIO, "%s is overloaded (status %d: %s)", f->host, status, s->message);
    if (status >= 500)
        return error_set(err, EIO, "%s has trouble of its own (status %d: %s)", f->host, status,
                         s->message);
    return error_set(err, status == 408 || status == 409 ? EIO : EINVAL,
                     "%s refuses the request (status %d: %s)", f->host, status, s->message);
}

int refusal_explain(const struct refusal_from *from, int status, const char *body, size_t n,
                    int64_t *ret_told_ms, struct error *err)
{
    struct said s = {0};
    read_said(from->spec->key, body, n, &s);
    *ret_told_ms = trouble_delay(s.message);
    if (!*s.message)
        snprintf(s.message, sizeof s.message, "%s", *s.code ? s.code : "it says nothing more");
    bool about_size = status == 400 || status == 413 || status == 422 || status == 500;
    if (status == 413 ||
        (about_size && (refusal_is_too_long(s.message) || refusal_is_too_long(s.code))))
        return error_set(
            err, EMSGSIZE,
            "the conversation is longer than %s takes: compact it, or begin a new one (%s)",
            from->name, s.message);
    if (status == 402 || has(s.code, "insufficient_quota") ||
        has(s.message, "credit balance is too low"))
        return explain_quota(from, &s, err);
    return explain_status(from, status, &s, err);
}
