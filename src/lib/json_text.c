#include <errno.h>
#include <string.h>

#include "json_text.h"
#include "banned.h"

int json_take(const char *name, const char *text, json_t **ret, struct error *err)
{
    json_error_t why;
    if (!text) {
        *ret = NULL;
        return 0;
    }
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!value)
        return error_set(err, EINVAL, "'%s' is not JSON: line %d, column %d: %s", name, why.line,
                         why.column, why.text);
    *ret = value;
    return 0;
}

int json_take_object(const char *name, const char *text, json_t **ret, struct error *err)
{
    json_t *value = NULL;
    int r = json_take(name, text, &value, err);
    if (r < 0)
        return r;
    if (value && !json_is_object(value)) {
        json_decref(value);
        return error_set(err, EINVAL, "'%s' is not a JSON object", name);
    }
    *ret = value;
    return 0;
}

int json_give(json_t *value, char **ret_text, struct error *err)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (!text)
        return error_set(err, ENOMEM, "no memory for the result");
    *ret_text = text;
    return 0;
}
