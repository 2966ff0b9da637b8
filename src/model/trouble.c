#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "refusal.h"
#include "trouble.h"
#include "banned.h"

#define MESSAGE_MAX  700 /* bytes of what the provider says that go into the line */
#define DELAY_MAX_MS (24LL * 60 * 60 * 1000)

struct kind {
    const char *name;
    int code;
    bool retry;
};

static const struct kind KINDS[] = {
    {"overloaded_error", EIO, true},
    {"overloaded", EIO, true},
    {"server_is_overloaded", EIO, true},
    {"slow_down", EIO, true},
    {"rate_limit_error", EBUSY, true},
    {"rate_limit_exceeded", EBUSY, true},
    {"rate_limit", EBUSY, true},
    {"too_many_requests", EBUSY, true},
    {"api_error", EIO, true},
    {"server_error", EIO, true},
    {"internal_error", EIO, true},
    {"internal_server_error", EIO, true},
    {"service_unavailable", EIO, true},
    {"unavailable_error", EIO, true},
    {"timeout_error", EIO, true},
    {"timeout", EIO, true},
    {"invalid_request_error", EINVAL, false},
    {"invalid_request", EINVAL, false},
    {"invalid_prompt", EINVAL, false},
    {"bad_request", EINVAL, false},
    {"badrequesterror", EINVAL, false},
    {"content_filter", EINVAL, false},
    {"content_policy_violation", EINVAL, false},
    {"authentication_error", EACCES, false},
    {"invalid_api_key", EACCES, false},
    {"permission_error", EACCES, false},
    {"permission_denied", EACCES, false},
    {"insufficient_quota", EDQUOT, false},
    {"billing_error", EDQUOT, false},
    {"billing_not_active", EDQUOT, false},
    {"billing_hard_limit_reached", EDQUOT, false},
    {"usage_limit_reached", EDQUOT, false},
    {"not_found_error", ENOENT, false},
    {"notfounderror", ENOENT, false},
    {"model_not_found", ENOENT, false},
    {"request_too_large", EMSGSIZE, false},
    {"context_length_exceeded", EMSGSIZE, false},
    {"exceed_context_size_error", EMSGSIZE, false},
};

static const struct kind *kind_named(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_SIZE(KINDS); i++)
        if (strcasecmp(KINDS[i].name, name) == 0)
            return &KINDS[i];
    return NULL;
}

static struct kind kind_of_status(json_int_t status)
{
    switch (status) {
    case 401:
    case 403:
        return (struct kind){.code = EACCES};
    case 402:
        return (struct kind){.code = EDQUOT};
    case 404:
        return (struct kind){.code = ENOENT};
    case 413:
        return (struct kind){.code = EMSGSIZE};
    case 429:
        return (struct kind){.code = EBUSY, .retry = true};
    case 408:
    case 409:
        return (struct kind){.code = EIO, .retry = true};
    default:
        return (struct kind){.code = status >= 400 && status < 500 ? EINVAL : EIO,
                             .retry = status >= 500};
    }
}

/* A number, also where it is written as a string. */
static json_int_t status_of(const json_t *value)
{
    json_int_t status =
        json_is_string(value) ? atoi(json_string_value(value)) : json_integer_value(value);
    return status >= 400 && status < 600 ? status : 0;
}

/* Where nothing is known, the server has failed in its own way, and may not do so again. */
static struct kind kind_of(const json_t *error)
{
    static const char *const MEMBERS[] = {"code", "type", "status"};
    for (size_t i = 0; i < ARRAY_SIZE(MEMBERS); i++) {
        const json_t *value = json_object_get(error, MEMBERS[i]);
        const struct kind *named = kind_named(json_string_value(value));
        if (named)
            return *named;
        if (status_of(value))
            return kind_of_status(status_of(value));
    }
    return (struct kind){.code = EIO, .retry = true};
}

/* What one unit is in ms, and how long its name is; 0: it is none. */
static double unit_at(const char *s, size_t *ret_n)
{
    size_t n = 0;
    while (isalpha((unsigned char)s[n]))
        n++;
    *ret_n = n;
    if (n >= 2 && (strncasecmp(s, "ms", n) == 0 || strncasecmp(s, "millis", 6) == 0))
        return 1;
    if (n >= 1 && (s[0] == 's' || s[0] == 'S'))
        return 1000;
    if (n >= 1 && (s[0] == 'm' || s[0] == 'M'))
        return 60 * 1000;
    return n >= 1 && (s[0] == 'h' || s[0] == 'H') ? 3600 * 1000 : 0;
}

/* "1m2.5s", "28ms", "20 seconds". */
static int64_t read_delay(const char *s)
{
    double ms = -1;
    while (isdigit((unsigned char)*s)) {
        char *end;
        size_t n;
        double number = strtod(s, &end);
        s = end + (*end == ' ');
        double unit = unit_at(s, &n);
        if (unit == 0)
            break;
        ms = (ms < 0 ? 0 : ms) + number * unit;
        s += n;
    }
    return ms < 0 ? -1 : ms < DELAY_MAX_MS ? (int64_t)ms : DELAY_MAX_MS;
}

int64_t trouble_delay(const char *message)
{
    static const char *const BEFORE[] = {"try again in ", "retry in ", "retry after ",
                                         "try again after "};
    for (size_t i = 0; i < ARRAY_SIZE(BEFORE); i++) {
        const char *at = strcasestr(message, BEFORE[i]);
        int64_t ms = at ? read_delay(at + strlen(BEFORE[i])) : -1;
        if (ms >= 0)
            return ms;
    }
    return -1;
}

static int tell(struct kind kind, const json_t *message, const char *type, struct error *err)
{
    char what[MESSAGE_MAX], which[64];
    refusal_one_line(NULL, json_is_string(message) ? json_string_value(message) : "",
                     json_string_length(message), what, sizeof what);
    refusal_one_line(NULL, type, strlen(type), which, sizeof which);
    if (*what && *which)
        return error_set(err, kind.code, "the provider says: %s (%s)", what, which);
    if (*what)
        return error_set(err, kind.code, "the provider says: %s", what);
    return error_set(err, kind.code, "the provider reports an error%s%s", *which ? ": " : "",
                     which);
}

int trouble_take(const json_t *error, struct decoder_trouble *ret, struct error *err)
{
    const json_t *message = json_is_string(error) ? error : json_object_get(error, "message");
    const char *type = json_string_value(json_object_get(error, "type"));
    if (!type || strcmp(type, "error") == 0)
        type = json_string_value(json_object_get(error, "code"));
    const char *words = json_is_string(message) ? json_string_value(message) : "";
    struct kind kind = kind_of(error);
    /* Where there is no name for it, or only the most general one, words may say more. */
    bool open = kind.code == EINVAL || (kind.retry && !type);
    if (open && refusal_is_too_long(words))
        kind = (struct kind){.code = EMSGSIZE};
    *ret = (struct decoder_trouble){.retry = kind.retry, .retry_ms = trouble_delay(words)};
    return tell(kind, message, type ? type : "", err);
}
