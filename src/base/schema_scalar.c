/* Strings and numbers. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <math.h>
#include <pcre2.h>
#include <string.h>

#include "schema_private.h"
#include "banned.h"

#define MATCH_LIMIT 100000
#define HEAP_KIB    1024

int schema_matches(const char *pattern, const char *text, size_t n)
{
    int code;
    PCRE2_SIZE at;
    uint32_t options =
        PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY;
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &code, &at, NULL);
    pcre2_match_data *data = re ? pcre2_match_data_create(1, NULL) : NULL;
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    int r = -EINVAL;
    if (data && context) {
        pcre2_set_match_limit(context, MATCH_LIMIT);
        pcre2_set_heap_limit(context, HEAP_KIB);
        int found = pcre2_match(re, (PCRE2_SPTR)text, n, 0, PCRE2_NO_UTF_CHECK, data, context);
        r = found >= 0 ? 1 : found == PCRE2_ERROR_NOMATCH ? 0 : -EINVAL;
    }
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    pcre2_code_free(re);
    return r;
}

static json_int_t count_characters(const char *s, size_t n)
{
    json_int_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

int schema_check_string(struct check *c, const json_t *schema, const json_t *value)
{
    const json_t *min = json_object_get(schema, "minLength"),
                 *max = json_object_get(schema, "maxLength");
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    const char *text = json_string_value(value);
    size_t n = json_string_length(value);
    json_int_t length = min || max ? count_characters(text, n) : 0;
    if (min && length < json_integer_value(min))
        return length ? schema_say(c, "is shorter than %" JSON_INTEGER_FORMAT " characters",
                                   json_integer_value(min))
                      : schema_say(c, "must not be empty");
    if (max && json_is_number(max) && length > json_integer_value(max))
        return schema_say(c, "is longer than %" JSON_INTEGER_FORMAT " characters",
                          json_integer_value(max));
    if (pattern && schema_matches(pattern, text, n) != 1)
        return schema_say(c, "does not match the pattern %.200s", pattern);
    return 0;
}

static int check_bound(struct check *c, const json_t *schema, const char *name, double value,
                       double sign, bool exclusive, const char *words)
{
    const json_t *bound = json_object_get(schema, name);
    if (!json_is_number(bound))
        return 0;
    double over = sign * (value - json_number_value(bound));
    if (over < 0 || (over == 0 && !exclusive))
        return 0;
    return schema_say(c, "must be %s %g, is %g", words, json_number_value(bound), value);
}

int schema_check_number(struct check *c, const json_t *schema, const json_t *value)
{
    double v = json_number_value(value);
    double of = json_number_value(json_object_get(schema, "multipleOf"));
    int r = check_bound(c, schema, "maximum", v, 1, false, "at most");
    if (r == 0)
        r = check_bound(c, schema, "minimum", v, -1, false, "at least");
    if (r == 0)
        r = check_bound(c, schema, "exclusiveMaximum", v, 1, true, "less than");
    if (r == 0)
        r = check_bound(c, schema, "exclusiveMinimum", v, -1, true, "more than");
    if (r == 0 && of > 0 && fabs(v / of - round(v / of)) > 1e-9)
        r = schema_say(c, "must be a multiple of %g, is %g", of, v);
    return r;
}
