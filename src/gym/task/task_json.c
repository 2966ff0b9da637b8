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
static int parse_checked(const char *schema_text, const char *text, size_t n, json_t **ret,
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

static int take_text(const json_t *o, const char *name, char **ret, struct error *err)
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
static int take_list(const json_t *o, const char *in, const char *name, enum list_kind kind,
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

static int take_time(const json_t *o, const char *name, int64_t *ret, struct error *err)
{
    int64_t ns;
    const char *text = json_string_value(json_object_get(o, name));
    if (!text)
        return 0;
    if (units_parse_time(text, &ns) < 0)
        return error_set(err, EINVAL, "limits.%s: \"%.40s\" is not a time (250ms, 20s, 5m)", name,
                         text);
    *ret = ns;
    return 0;
}

static int take_size(const json_t *o, const char *name, uint64_t *ret, struct error *err)
{
    uint64_t bytes;
    const char *text = json_string_value(json_object_get(o, name));
    if (!text)
        return 0;
    if (units_parse_size(text, &bytes) < 0)
        return error_set(err, EINVAL, "limits.%s: \"%.40s\" is not a size (64M, 1G)", name, text);
    *ret = bytes;
    return 0;
}

static int take_limits(struct task *t, const json_t *o, struct error *err)
{
    const json_t *steps = json_object_get(o, "steps"), *pids = json_object_get(o, "pids");
    if (steps)
        t->max_steps = (unsigned)json_number_value(steps);
    if (pids)
        t->limits.pids = (uint64_t)json_number_value(pids);
    int r = take_time(o, "test_time", &t->test_timeout_ns, err);
    if (r == 0)
        r = take_time(o, "test_cpu", &t->test_cpu_ns, err);
    if (r == 0)
        r = take_size(o, "memory", &t->limits.memory, err);
    return r == 0 ? take_size(o, "disk", &t->limits.disk, err) : r;
}

static void take_price(const json_t *o, const char *name, double *ret)
{
    const json_t *price = json_object_get(o, name);
    if (price)
        *ret = json_number_value(price);
}

static void take_format(struct task_tests *s, const char *format)
{
    static const char *const FORMATS[] = {
        [WIRE_REPORT_AUTO] = "auto",       [WIRE_REPORT_JUNIT] = "junit",
        [WIRE_REPORT_JSON] = "json",       [WIRE_REPORT_GO] = "go",
        [WIRE_REPORT_MESON] = "meson",     [WIRE_REPORT_TAP] = "tap",
        [WIRE_REPORT_LIBTEST] = "libtest", [WIRE_REPORT_AUTOMAKE] = "automake",
    };
    if (!format)
        return;
    if (strcmp(format, "exit") == 0)
        s->verdict = VERDICT_EXIT;
    else if (strcmp(format, "reward") == 0)
        s->verdict = VERDICT_REWARD;
    for (size_t i = 0; i < ARRAY_SIZE(FORMATS); i++)
        if (strcmp(format, FORMATS[i]) == 0)
            s->format = (enum wire_report_format)i;
}

/* Members that only one of the two runners has would be without effect with the other: a
 * mistake. */
static int check_runner(const struct task_tests *s, const json_t *o, struct error *err)
{
    static const char *const ONLY_PYTEST[] = {"paths", "import"}, *const ONLY_COMMAND[] = {
                                                                      "format", "report"};
    const char *const *others = s->runner == TASK_PYTEST ? ONLY_COMMAND : ONLY_PYTEST;
    for (size_t i = 0; i < 2; i++)
        if (json_object_get(o, others[i]))
            return error_set(err, EINVAL, "tests.%s: has no meaning with the runner \"%s\"",
                             others[i], s->runner == TASK_PYTEST ? "pytest" : "command");
    return 0;
}

static int take_tests(struct task_tests *s, const json_t *o, struct error *err)
{
    const char *runner = json_string_value(json_object_get(o, "runner"));
    s->runner = strcmp(runner, "pytest") == 0 ? TASK_PYTEST : TASK_COMMAND;
    take_format(s, json_string_value(json_object_get(o, "format")));
    int r = check_runner(s, o, err);
    if (r == 0)
        r = take_text(o, "command", &s->command, err);
    if (r == 0)
        r = take_text(o, "report", &s->report, err);
    if (r == 0)
        r = take_list(o, "tests.", "paths", LIST_PATHS, &s->paths, err);
    if (r == 0)
        r = take_list(o, "tests.", "import", LIST_PATHS, &s->import, err);
    if (r == 0)
        r = take_list(o, "tests.", "own", LIST_FILES, &s->own, err);
    return r == 0 ? take_list(o, "tests.", "expected", LIST_NAMES, &s->expected, err) : r;
}

static int take_members(struct task *t, const json_t *o, struct error *err)
{
    const json_t *prices = json_object_get(o, "prices"), *seed = json_object_get(o, "seed");
    take_price(prices, "call", &t->call_price);
    take_price(prices, "second", &t->second_price);
    if (seed)
        t->seed = (uint64_t)(json_is_integer(seed) ? json_integer_value(seed)
                                                   : (json_int_t)json_real_value(seed));
    int r = take_text(o, "title", &t->title, err);
    if (r == 0)
        r = take_text(o, "instruction", &t->instruction, err);
    if (r == 0)
        r = take_text(o, "language", &t->language, err);
    if (r == 0)
        r = take_tests(&t->tests, json_object_get(o, "tests"), err);
    if (r == 0)
        r = take_list(o, "", "solution", LIST_NAMES, &t->solution, err);
    if (r == 0)
        r = take_list(o, "", "reads", LIST_FILES, &t->reads, err);
    return r == 0 ? take_limits(t, json_object_get(o, "limits"), err) : r;
}

/* Words of the file are in what is said about it; it stays one line whatever they hold. */
static int in_one_line(struct error *err, int code)
{
    for (char *at = err && code < 0 ? err->text : NULL; at && *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    return code;
}

int task_parse(struct task *t, const char *text, size_t n, struct error *err)
{
    json_t *o = NULL;
    int r = parse_checked(TASK_SCHEMA, text, n, &o, err);
    if (r == 0)
        r = take_members(t, o, err);
    json_decref(o);
    return in_one_line(err, r);
}

static bool patch_name_ok(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return n > 0 && n <= TASK_NAME_MAX && name[n] == 0;
}

static int take_patch(struct task *t, size_t i, const json_t *o, struct error *err)
{
    const char *name = json_string_value(json_object_get(o, "name"));
    const char *diff = json_string_value(json_object_get(o, "diff"));
    if (!patch_name_ok(name))
        return error_set(err, EINVAL,
                         "[%zu].name: \"%.100s\" is not a valid name (a to z, 0 to 9 and -)", i,
                         name);
    if (task_patch_find(t, name))
        return error_set(err, EINVAL, "[%zu].name: there is another patch called %s", i, name);
    if (!strstr(diff, "@@") && strncmp(diff, "diff ", 5) != 0)
        return error_set(err, EINVAL, "[%zu].diff: is not a unified diff (no line begins with @@)",
                         i);
    return task_patch_add(t, name, diff) < 0 ? task_no_memory(err) : 0;
}

int task_parse_patches(struct task *t, const char *text, size_t n, struct error *err)
{
    json_t *list = NULL, *one;
    size_t i;
    int r = parse_checked(PATCHES_SCHEMA, text, n, &list, err);
    json_array_foreach(list, i, one)
    {
        if (r < 0)
            break;
        r = take_patch(t, i, one, err);
    }
    json_decref(list);
    return in_one_line(err, r);
}
