/*
 * task.json: what is in it, by a schema (types, unknown members, ranges of numbers), and then what
 * a schema cannot say: names, paths, sizes and times.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "json.h"
#include "options.h"
#include "schema.h"
#include "task_build.h"
#include "tool.h"
#include "banned.h"

/* clang-format off */
static const char TASK_SCHEMA[] = SCHEMA({
    "type": "object",
    "additionalProperties": false,
    "required": ["title", "instruction", "tests", "solution"],
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "instruction": {"type": "string", "minLength": 1, "maxLength": 200000},
        "language": {"type": "string", "minLength": 1, "maxLength": 32},
        "tests": {
            "type": "object",
            "additionalProperties": false,
            "required": ["runner"],
            "properties": {
                "runner": {"enum": ["pytest", "command"]},
                "paths": {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string"}},
                "import": {"type": "array", "maxItems": 64, "items": {"type": "string"}},
                "command": {"type": "string", "minLength": 1, "maxLength": 60000},
                "format": {"enum": ["auto", "junit", "json", "go", "meson", "tap", "libtest", "automake", "exit", "reward"]},
                "report": {"type": "string", "minLength": 1, "maxLength": 4000},
                "own": {"type": "array", "maxItems": 10000, "items": {"type": "string"}},
                "expected": {"type": "array", "minItems": 1, "maxItems": 100000,
                             "items": {"type": "string", "minLength": 1, "maxLength": 4000}}
            }
        },
        "solution": {"type": "array", "minItems": 1, "maxItems": 256, "items": {"type": "string"}},
        "reads": {"type": "array", "maxItems": 256, "items": {"type": "string"}},
        "limits": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "steps": {"type": "integer", "minimum": 1, "maximum": 100000},
                "test_time": {"type": "string"},
                "test_cpu": {"type": "string"},
                "memory": {"type": "string"},
                "pids": {"type": "integer", "minimum": 8, "maximum": 65536},
                "disk": {"type": "string"}
            }
        },
        "prices": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "call": {"type": "number", "minimum": 0, "maximum": 1},
                "second": {"type": "number", "minimum": 0, "maximum": 1}
            }
        },
        "seed": {"type": "integer", "minimum": 0}
    }
});
static const char PATCHES_SCHEMA[] = SCHEMA({
    "type": "array",
    "maxItems": 256,
    "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "diff"],
        "properties": {
            "name": {"type": "string"},
            "diff": {"type": "string", "minLength": 1}
        }
    }
});
/* clang-format on */

int task_json(const char *text, size_t n, json_t **ret, struct error *err)
{
    json_error_t at;
    if (json_count_values(text, n, TASK_VALUES_MAX) > TASK_VALUES_MAX)
        return error_set(err, E2BIG, "has more than %u values", TASK_VALUES_MAX);
    json_t *value = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    if (!value)
        return error_set(err, EINVAL, "line %d, column %d: %s", at.line, at.column, at.text);
    *ret = value;
    return 0;
}

/* Reads JSON that must be as a schema says. The schema's checker begins its paths with the name it
 * is given: that is left out, so that a line begins with the member. */
static int json_parse_checked(const char *schema_text, const char *text, size_t n, json_t **ret,
                              struct error *err)
{
    struct error why = {0};
    json_t *value = NULL, *schema = json_loads(schema_text, 0, NULL);
    if (!schema)
        return task_no_memory(err);
    int r = task_json(text, n, &value, &why);
    if (r == 0)
        r = schema_check(schema, value, "task", &why);
    json_decref(schema);
    if (r < 0) {
        json_decref(value);
        size_t skip = strncmp(why.text, "task.", 5) == 0   ? 5
                      : strncmp(why.text, "task[", 5) == 0 ? 4
                                                           : 0;
        return error_set(err, -r, "%s", why.text + skip);
    }
    *ret = value;
    return 0;
}

static int json_take_text(const json_t *o, const char *name, char **ret, struct error *err)
{
    const char *text = json_string_value(json_object_get(o, name));
    if (!text)
        return 0;
    free(*ret);
    *ret = strdup(text);
    return *ret ? 0 : task_no_memory(err);
}

enum list_kind { LIST_PATHS, LIST_FILES, LIST_NAMES };

/* A list of words, each once. What they may be depends on the kind: paths also ".", files not. */
static int json_take_list(const json_t *o, const char *in, const char *name, enum list_kind kind,
                          struct task_list *ret, struct error *err)
{
    size_t i;
    json_t *one;
    json_t *seen = json_object();
    int r = seen ? 0 : task_no_memory(err);
    json_array_foreach(json_object_get(o, name), i, one)
    {
        const char *text = json_string_value(one);
        if (r < 0)
            break;
        if (json_object_get(seen, text))
            r = error_set(err, EINVAL, "%s%s[%zu]: %.200s is named twice", in, name, i, text);
        else if (kind != LIST_NAMES &&
                 (!task_path_ok(text) || (kind == LIST_FILES && strcmp(text, ".") == 0)))
            r = error_set(err, EINVAL,
                          "%s%s[%zu]: \"%.200s\" is not a path within the workspace (relative, "
                          "without . and ..)",
                          in, name, i, text);
        else if (json_object_set_new(seen, text, json_true()) < 0 || task_list_add(ret, text) < 0)
            r = task_no_memory(err);
    }
    json_decref(seen);
    return r;
}

static int json_take_limits(struct task *t, const json_t *o, struct error *err)
{
    const json_t *steps = json_object_get(o, "steps"), *pids = json_object_get(o, "pids");
    const struct {
        const char *name;
        int64_t *ns;     /* a time, */
        uint64_t *bytes; /* or a size */
    } rows[] = {{"test_time", &t->test_timeout_ns, NULL},
                {"test_cpu", &t->test_cpu_ns, NULL},
                {"memory", NULL, &t->limits.memory},
                {"disk", NULL, &t->limits.disk}};
    if (steps)
        t->max_steps = (unsigned)json_number_value(steps);
    if (pids)
        t->limits.pids = (uint64_t)json_number_value(pids);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *text = json_get_string(o, rows[i].name);
        if (!text)
            continue;
        if (rows[i].ns && units_parse_time(text, rows[i].ns) < 0)
            return error_set(err, EINVAL, "limits.%s: \"%.40s\" is not a time (250ms, 20s, 5m)",
                             rows[i].name, text);
        if (rows[i].bytes && units_parse_size(text, rows[i].bytes) < 0)
            return error_set(err, EINVAL, "limits.%s: \"%.40s\" is not a size (64M, 1G)",
                             rows[i].name, text);
    }
    return 0;
}

static int json_take_tests(struct task_tests *s, const json_t *o, struct error *err)
{
    static const char *const FORMATS[] = {
        [WIRE_REPORT_AUTO] = "auto",       [WIRE_REPORT_JUNIT] = "junit",
        [WIRE_REPORT_JSON] = "json",       [WIRE_REPORT_GO] = "go",
        [WIRE_REPORT_MESON] = "meson",     [WIRE_REPORT_TAP] = "tap",
        [WIRE_REPORT_LIBTEST] = "libtest", [WIRE_REPORT_AUTOMAKE] = "automake",
    };
    const char *runner = json_get_string(o, "runner"),
               *format = json_get_string_or(o, "format", "");
    bool pytest = strcmp(runner, "pytest") == 0;
    s->runner = pytest ? TASK_PYTEST : TASK_COMMAND;
    if (strcmp(format, "exit") == 0)
        s->verdict = VERDICT_EXIT;
    else if (strcmp(format, "reward") == 0)
        s->verdict = VERDICT_REWARD;
    for (size_t i = 0; i < ARRAY_SIZE(FORMATS); i++)
        if (strcmp(format, FORMATS[i]) == 0)
            s->format = (enum wire_report_format)i;
    /* a member that has no effect with this runner is a mistake */
    const char *const others[] = {pytest ? "format" : "paths", pytest ? "report" : "import"};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (json_object_get(o, others[i]))
            return error_set(err, EINVAL, "tests.%s: has no meaning with the runner \"%s\"",
                             others[i], runner);
    int r = json_take_text(o, "command", &s->command, err);
    if (r == 0)
        r = json_take_text(o, "report", &s->report, err);
    if (r == 0)
        r = json_take_list(o, "tests.", "paths", LIST_PATHS, &s->paths, err);
    if (r == 0)
        r = json_take_list(o, "tests.", "import", LIST_PATHS, &s->import, err);
    if (r == 0)
        r = json_take_list(o, "tests.", "own", LIST_FILES, &s->own, err);
    return r == 0 ? json_take_list(o, "tests.", "expected", LIST_NAMES, &s->expected, err) : r;
}

/* A message that quotes the file stays one line. */
static int error_one_line(struct error *err, int code)
{
    for (char *at = err && code < 0 ? err->text : NULL; at && *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    return code;
}

int task_parse(struct task *t, const char *text, size_t n, struct error *err)
{
    _cleanup_json_ json_t *o = NULL;
    int r = json_parse_checked(TASK_SCHEMA, text, n, &o, err);
    if (r < 0)
        return error_one_line(err, r);
    const json_t *prices = json_object_get(o, "prices"), *seed = json_object_get(o, "seed");
    const json_t *call = json_object_get(prices, "call"),
                 *second = json_object_get(prices, "second");
    if (call)
        t->call_price = json_number_value(call);
    if (second)
        t->second_price = json_number_value(second);
    if (seed)
        t->seed = (uint64_t)(json_is_integer(seed) ? json_integer_value(seed)
                                                   : (json_int_t)json_real_value(seed));
    r = json_take_text(o, "title", &t->title, err);
    if (r == 0)
        r = json_take_text(o, "instruction", &t->instruction, err);
    if (r == 0)
        r = json_take_text(o, "language", &t->language, err);
    if (r == 0)
        r = json_take_tests(&t->tests, json_object_get(o, "tests"), err);
    if (r == 0)
        r = json_take_list(o, "", "solution", LIST_NAMES, &t->solution, err);
    if (r == 0)
        r = json_take_list(o, "", "reads", LIST_FILES, &t->reads, err);
    if (r == 0)
        r = json_take_limits(t, json_object_get(o, "limits"), err);
    return error_one_line(err, r);
}

int task_parse_patches(struct task *t, const char *text, size_t n, struct error *err)
{
    _cleanup_json_ json_t *list = NULL;
    json_t *one;
    size_t i;
    int r = json_parse_checked(PATCHES_SCHEMA, text, n, &list, err);
    json_array_foreach(list, i, one)
    {
        const char *name = json_get_string(one, "name"), *diff = json_get_string(one, "diff");
        size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
        if (len == 0 || len > TASK_NAME_MAX || name[len])
            r = error_set(err, EINVAL,
                          "[%zu].name: \"%.100s\" is not a valid name (a to z, 0 to 9 and -)", i,
                          name);
        else if (task_patch_find(t, name))
            r = error_set(err, EINVAL, "[%zu].name: there is another patch called %s", i, name);
        else if (!strstr(diff, "@@") && strncmp(diff, "diff ", 5) != 0)
            r = error_set(err, EINVAL, "[%zu].diff: is not a unified diff (no line begins with @@)",
                          i);
        else if (task_patch_add(t, name, diff) < 0)
            r = task_no_memory(err);
        if (r < 0)
            break;
    }
    return error_one_line(err, r);
}
