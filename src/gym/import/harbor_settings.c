/* The settings in task.toml or task.yaml that have a meaning here; other members are ignored. */
#include <errno.h>
#include <linux/limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <yaml.h>

#include "harbor.h"
#include "options.h"
#include "text.h"
#include "thread.h"
#include "toml.h"
#include "banned.h"

#define SETTINGS_MAX (256u << 10)
#define STEPS        100
#define PIDS         512
#define TEST_SECONDS 600.0
#define MEMORY_MIN   (512ull << 20)
#define DISK_MAX     (4ull << 30) /* what boxes write lies in memory */
#define ENV_MAX      64

struct settings {
    struct harbor *h;
    double test_seconds;
    uint64_t memory, disk;
    char title[256];
    char parser[64];
    char *instruction;
    bool steps;    /* several, one after another */
    bool separate; /* the tests have a container of their own */
    bool services; /* several containers */
    unsigned n_services;
    int code;
};

static void setting_seconds(const char *text, double *ret)
{
    char *end;
    double v = strtod(text, &end);
    if (*end == 0 && isfinite(v) && v > 0 && v <= 86400)
        *ret = v;
}

static void setting_megabytes(const char *text, uint64_t *ret)
{
    uint64_t v;
    if (units_parse_count(text, &v) == 0 && v > 0 && v <= 1u << 20)
        *ret = v << 20;
}

static void setting_size(const char *text, uint64_t *ret)
{
    uint64_t v;
    if (units_parse_size(text, &v) == 0 && v > 0 && v <= 1ull << 40)
        *ret = v;
}

/* A variable of one of three tables. Values that refer to variables of the host are not set: boxes
 * have none of these. */
static void setting_variable(struct settings *s, const char *name, const char *value)
{
    static const char NAME[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const struct {
        const char *table;
        struct task_list *list;
    } places[] = {{"environment.env.", &s->h->env},
                  {"verifier.env.", &s->h->checks},
                  {"solution.env.", &s->h->solves}};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        size_t n = strlen(places[i].table);
        const char *key = name + n;
        char entry[4096];
        if (strncmp(name, places[i].table, n) != 0 || !*key || key[strspn(key, NAME)] ||
            strstr(value, "${") || places[i].list->count >= ENV_MAX)
            continue;
        snprintf(entry, sizeof entry, "%s=%s", key, value);
        if (task_list_add(places[i].list, entry) < 0)
            s->code = -ENOMEM;
    }
}

static void toml_value(void *data, const char *name, const char *value)
{
    struct settings *s = data;
    if (strcmp(name, "verifier.timeout_sec") == 0)
        setting_seconds(value, &s->test_seconds);
    else if (strcmp(name, "environment.memory_mb") == 0)
        setting_megabytes(value, &s->memory);
    else if (strcmp(name, "environment.storage_mb") == 0)
        setting_megabytes(value, &s->disk);
    else if (strcmp(name, "environment.memory") == 0)
        setting_size(value, &s->memory);
    else if (strcmp(name, "environment.storage") == 0)
        setting_size(value, &s->disk);
    else if (strcmp(name, "task.description") == 0)
        snprintf(s->title, sizeof s->title, "%.*s", (int)strcspn(value, "\n"), value);
    else if (strcmp(name, "environment.workdir") == 0)
        snprintf(s->h->workdir, sizeof s->h->workdir, "%s", value);
    else if (strcmp(name, "environment.docker_image") == 0)
        snprintf(s->h->docker_image, sizeof s->h->docker_image, "%s", value);
    else if (strcmp(name, "verifier.environment_mode") == 0)
        s->separate = strcmp(value, "separate") == 0;
    else
        setting_variable(s, name, value);
}

static void toml_table(void *data, const char *name)
{
    struct settings *s = data;
    s->steps |= strcmp(name, "steps[]") == 0;
    s->separate |= strcmp(name, "verifier.environment") == 0;
}

static void yaml_value(void *data, const char *name, const char *value)
{
    struct settings *s = data;
    if (strcmp(name, "max_test_timeout_sec") == 0)
        setting_seconds(value, &s->test_seconds);
    else if (strcmp(name, "parser_name") == 0)
        snprintf(s->parser, sizeof s->parser, "%s", value);
    else if (strcmp(name, "instruction") == 0 && !s->instruction && *value)
        s->code = (s->instruction = strdup(value)) ? 0 : -ENOMEM;
}

static void yaml_deeper(void *data, const char *name, const char *inner)
{
    struct settings *s = data;
    s->n_services += strcmp(name, "services") == 0;
}

static int settings_read_yaml(struct harbor *h, const char *name, struct settings *s,
                              struct error *err)
{
    char shown[2 * PATH_MAX];
    _cleanup_buf_ struct buf b = BUF_INIT(SETTINGS_MAX);
    struct yaml_sink sink = {yaml_value, yaml_deeper, s};
    snprintf(shown, sizeof shown, "%s/%s", h->folder, name);
    int r = harbor_read(h, name, &b, err);
    if (r < 0)
        return r;
    r = yaml_scan(b.data ? (const char *)b.data : "", b.len, &sink, err);
    return r < 0 ? error_wrap(err, "%s", shown) : 0;
}

static int settings_read_toml(struct harbor *h, struct settings *s, struct error *err)
{
    char shown[2 * PATH_MAX];
    _cleanup_buf_ struct buf b = BUF_INIT(SETTINGS_MAX), text = BUF_INIT(SETTINGS_MAX);
    struct toml_sink sink = {toml_value, toml_table, s};
    snprintf(shown, sizeof shown, "%s/task.toml", h->folder);
    int r = harbor_read(h, "task.toml", &b, err);
    if (r < 0)
        return r;
    r = toml_scan(b.data ? (const char *)b.data : "", b.len, &sink, err);
    if (r < 0)
        return error_wrap(err, "%s", shown);
    if (s->steps)
        return error_set(err, EOPNOTSUPP, "tasks of several steps are not supported");
    if (s->separate)
        return error_set(
            err, EOPNOTSUPP,
            "its tests are made for a container of their own (verifier.environment_mode)");
    if (s->code < 0)
        return task_no_memory(err);
    r = harbor_read(h, "instruction.md", &text, err);
    if (r < 0)
        return r;
    s->instruction = buf_cstr(&text) ? strdup(buf_cstr(&text)) : NULL;
    return s->instruction ? 0 : task_no_memory(err);
}

/* Several containers at once are nothing that a box could stand for. */
static int settings_check_services(struct harbor *h, struct error *err)
{
    const char *name = h->old ? "docker-compose.yaml" : "environment/docker-compose.yaml";
    struct settings s = {.h = h};
    struct error why = {0};
    int r = settings_read_yaml(h, name, &s, &why);
    free(s.instruction);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return error_set(err, -r, "%s", why.text);
    return s.n_services > 1 ? error_set(err, EOPNOTSUPP, "%s: has more than one service", name) : 0;
}

static int settings_apply(const struct settings *s, struct task *t, struct error *err)
{
    const char *text = s->instruction ? s->instruction : "";
    if (!text[strspn(text, " \t\r\n")])
        return error_set(err, EINVAL, "it has no instruction");
    if (s->parser[0] && strcmp(s->parser, "pytest") != 0)
        return error_set(err, EOPNOTSUPP, "parser_name: %s is not supported, only pytest is",
                         s->parser);
    double seconds = s->test_seconds > 0 ? s->test_seconds : TEST_SECONDS;
    t->test_timeout_ns = (int64_t)(seconds * (double)NS_PER_S);
    if (t->test_timeout_ns < NS_PER_S)
        t->test_timeout_ns = NS_PER_S;
    t->test_cpu_ns = t->test_timeout_ns;
    t->limits.memory = s->memory > MEMORY_MIN ? s->memory : MEMORY_MIN;
    t->limits.disk =
        s->disk > 0 && s->disk < DISK_MAX && s->disk > t->limits.disk ? s->disk : DISK_MAX;
    t->limits.pids = PIDS;
    t->max_steps = STEPS;
    if (!utf8_valid((const uint8_t *)text, strlen(text)))
        return error_set(err, EINVAL, "its instruction is not UTF-8");
    text += strspn(text, "# \t\r\n");
    int r = import_text(&t->instruction, err, "%s", s->instruction);
    return r == 0 ? import_title(&t->title, "", s->title[0] ? s->title : text, err) : r;
}

int harbor_settings(struct harbor *h, struct task *t, struct error *err)
{
    struct settings s = {.h = h};
    int r = h->old ? settings_read_yaml(h, "task.yaml", &s, err) : settings_read_toml(h, &s, err);
    if (r == 0)
        r = settings_check_services(h, err);
    if (r == 0)
        r = settings_apply(&s, t, err);
    free(s.instruction);
    return r;
}

#define DEPTH_MAX  64
#define EVENTS_MAX 200000u
#define NAME_SIZE  256

/* Where the reader stands: names are taken of the first two levels. */
struct yaml_place {
    unsigned depth;
    bool mapping[DEPTH_MAX]; /* what lies on each level: a mapping, or a list */
    bool value[DEPTH_MAX];   /* of a mapping: its value is next, not a name */
    char name[NAME_SIZE];
    const struct yaml_sink *sink;
};

static bool yaml_at_name(const struct yaml_place *p)
{
    return p->depth > 0 && p->mapping[p->depth - 1] && !p->value[p->depth - 1];
}

/* One value is complete: the next thing of its mapping is a name, or the other way round. */
static void yaml_turn(struct yaml_place *p)
{
    if (p->depth > 0)
        p->value[p->depth - 1] = p->mapping[p->depth - 1] && !p->value[p->depth - 1];
}

static void yaml_take_scalar(struct yaml_place *p, const char *text)
{
    if (p->depth == 1 && yaml_at_name(p))
        snprintf(p->name, sizeof p->name, "%s", text);
    else if (p->depth == 1 && p->mapping[0])
        p->sink->value(p->sink->data, p->name, text);
    else if (p->depth == 2 && p->mapping[0] && yaml_at_name(p) && p->sink->deeper)
        p->sink->deeper(p->sink->data, p->name, text);
    yaml_turn(p);
}

static int yaml_take_event(struct yaml_place *p, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        yaml_take_scalar(p, (const char *)e->data.scalar.value);
        return 0;
    case YAML_ALIAS_EVENT:
        yaml_turn(p);
        return 0;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        if (p->depth == DEPTH_MAX)
            return -ELOOP;
        p->mapping[p->depth] = e->type == YAML_MAPPING_START_EVENT;
        p->value[p->depth++] = false;
        return 0;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        p->depth--;
        yaml_turn(p);
        return 0;
    default:
        return 0;
    }
}

int yaml_scan(const char *text, size_t n, const struct yaml_sink *sink, struct error *err)
{
    yaml_parser_t parser;
    struct yaml_place p = {.sink = sink};
    bool end = false;
    int r = 0;
    if (!yaml_parser_initialize(&parser))
        return error_set(err, ENOMEM, "no memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    for (unsigned count = 0; r == 0 && !end; count++) {
        yaml_event_t e;
        if (count == EVENTS_MAX) {
            r = error_set(err, E2BIG, "is too long");
        } else if (!yaml_parser_parse(&parser, &e)) {
            r = error_set(err, EINVAL, "line %zu: %s", parser.problem_mark.line + 1,
                          parser.problem ? parser.problem : "is not YAML");
        } else {
            end = e.type == YAML_STREAM_END_EVENT || e.type == YAML_DOCUMENT_END_EVENT;
            if (yaml_take_event(&p, &e) < 0)
                r = error_set(err, ELOOP, "is nested too deeply");
            yaml_event_delete(&e);
        }
    }
    yaml_parser_delete(&parser);
    return r;
}
