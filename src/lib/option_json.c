#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "option_json.h"
#include "thread.h"
#include "banned.h"

#define NOT_GIVEN INT64_MIN

/* Text that somebody made: it lives in the array. */
static const char *text_keep(json_t *texts, const char *text)
{
    json_t *kept = json_string_nocheck(text);
    return kept && json_array_append_new(texts, kept) == 0 ? json_string_value(kept) : NULL;
}

static bool option_is_time(const char *name)
{
    return strcmp(name, "timeout") == 0 || strcmp(name, "cpu_time") == 0;
}

/* A number as people write it. Times are seconds. Never by printf's own way with fractions: the
 * program may have chosen a locale in which they have a comma. */
static void option_number_text(const char *name, const json_t *value, char *text, size_t size)
{
    double real = json_number_value(value);
    bool whole = json_is_integer(value);
    if (whole)
        snprintf(text, size, "%" JSON_INTEGER_FORMAT "%s", json_integer_value(value),
                 option_is_time(name) ? "s" : "");
    else if (!(real >= 0 && real < 9e9))
        snprintf(text, size, "%s", real < 0 ? "-" : "+");
    else if (option_is_time(name))
        snprintf(text, size, "%" PRId64 "ns", (int64_t)llround(real * (double)NS_PER_S));
    else
        snprintf(text, size, "%" PRId64 ".%06" PRId64, (int64_t)real,
                 (int64_t)(real * 1e6) % 1000000);
}

static int option_set_text(struct box_spec *w, const char *name, const char *text,
                           struct error *err)
{
    int r = text ? box_spec_set(w, name, text, err) : error_set(err, ENOMEM, "no memory");
    return r == -ENOENT ? -EINVAL : r;
}

static int option_set_list(struct box_spec *w, const char *name, json_t *list, struct error *err)
{
    size_t i;
    json_t *one;
    int r = 0;
    json_array_foreach(list, i, one)
    {
        if (!json_is_string(one))
            return error_set(err, EINVAL, "%s: item %zu is not a string", name, i);
        r = option_set_text(w, name, json_string_value(one), err);
        if (r < 0)
            break;
    }
    return r;
}

static int option_set_env(struct box_spec *w, json_t *env, json_t *texts, struct error *err)
{
    const char *key;
    json_t *value;
    int r = 0;
    json_object_foreach(env, key, value)
    {
        char *text = NULL;
        if (!json_is_string(value))
            return error_set(err, EINVAL, "env: the value of '%.100s' is not a string", key);
        if (strchr(key, '='))
            return error_set(err, EINVAL, "env: '%.100s' is not a name", key);
        if (asprintf(&text, "%s=%s", key, json_string_value(value)) < 0)
            return error_set(err, ENOMEM, "no memory");
        r = option_set_text(w, "env", text_keep(texts, text), err);
        free(text);
        if (r < 0)
            break;
    }
    return r;
}

static int option_set(struct box_spec *w, const char *name, json_t *value, json_t *texts,
                      struct error *err)
{
    char text[64];
    bool many = strcmp(name, "ro") == 0 || strcmp(name, "rw") == 0;
    if (strcmp(name, "env") == 0 && json_is_object(value))
        return option_set_env(w, value, texts, err);
    if (many && json_is_array(value))
        return option_set_list(w, name, value, err);
    if (strcmp(name, "workspace") == 0 && json_is_null(value)) {
        w->empty = true;
        return 0;
    }
    if (json_is_number(value) && !many && strcmp(name, "workspace") != 0) {
        option_number_text(name, value, text, sizeof text);
        return option_set_text(w, name, text_keep(texts, text), err);
    }
    if (json_is_string(value) && strcmp(name, "env") != 0)
        return option_set_text(w, name, json_string_value(value), err);
    if (box_spec_set(w, name, "", err) == -ENOENT) /* which says what it knows of such a name */
        return -EINVAL;
    return error_set(err, EINVAL, "%s: %s", name,
                     strcmp(name, "env") == 0 ? "is not an object of strings"
                     : many                   ? "is not a list of strings"
                                              : "is neither a string nor a number");
}

int options_box(json_t *options, json_t *texts, struct box_spec *w, struct error *err)
{
    const char *name;
    json_t *value;
    int r = 0;
    json_object_foreach(options, name, value)
    {
        r = option_set(w, name, value, texts, err);
        if (r < 0)
            break;
    }
    return r;
}

static int exec_set_option(struct exec_options *o, const char *name, json_t *value, json_t *texts,
                           struct error *err)
{
    const char *text = json_string_value(value);
    if (strcmp(name, "cwd") == 0) {
        if (!text || text[0] != '/')
            return error_set(err, EINVAL, "cwd: '%s' is not an absolute path in the box",
                             text ? text : "");
        o->cwd = text;
        return 0;
    }
    if (strcmp(name, "stdin") == 0) {
        if (!text)
            return error_set(err, EINVAL, "stdin: is not a string");
        o->input = text;
        o->n_input = json_string_length(value);
        return 0;
    }
    if (strcmp(name, "env") == 0 || option_is_time(name))
        return option_set(&o->spec, name, value, texts, err);
    return error_set(err, EINVAL,
                     "a command has no option '%.100s'; it is cwd, env, timeout, cpu_time or stdin",
                     name);
}

/* box_command's way to say it: 0 is the box's limit, -1 is none. */
static int64_t exec_limit(int64_t given)
{
    return given == NOT_GIVEN ? 0 : given == 0 ? -1 : given;
}

int options_exec(json_t *options, json_t *texts, struct exec_options *ret, struct error *err)
{
    const char *name;
    json_t *value;
    box_spec_init(&ret->spec, "");
    ret->cwd = ret->input = NULL;
    ret->n_input = 0;
    struct box_limits *limits = &ret->spec.box.limits;
    limits->timeout_ns = limits->cpu_time_ns = NOT_GIVEN;
    json_object_foreach(options, name, value)
    {
        int r = exec_set_option(ret, name, value, texts, err);
        if (r < 0)
            return r;
    }
    ret->timeout_ns = exec_limit(limits->timeout_ns);
    ret->cpu_time_ns = exec_limit(limits->cpu_time_ns);
    return 0;
}
