/* What task.toml or task.yaml say, as far as it has a meaning here. Members that nobody knows are let be. */
#include <errno.h>
#include <linux/limits.h>
#include <math.h>
#include <string.h>

#include "clock.h"
#include "import_harbor.h"
#include "import_toml.h"
#include "import_yaml.h"
#include "units.h"
#include "banned.h"

#define SETTINGS_MAX (256u << 10)
#define STEPS        100
#define PIDS         512
#define TEST_SECONDS 600.0
#define MEMORY_MIN   (512ull << 20)
#define DISK_MAX     (4ull << 30) /* what boxes write lies in memory */
#define TITLE_MAX    100

struct settings {
    double test_seconds;
    uint64_t memory, disk;
    char title[256];
    char parser[64];
    char *instruction;
    bool steps;    /* several, one after another */
    bool services; /* several containers */
    unsigned n_services;
    int code;
};

static void take_seconds(const char *text, double *ret)
{
    char *end;
    double v = strtod(text, &end);
    if (*end == 0 && isfinite(v) && v > 0 && v <= 86400)
        *ret = v;
}

static void take_megabytes(const char *text, uint64_t *ret)
{
    uint64_t v;
    if (units_parse_count(text, &v) == 0 && v > 0 && v <= 1u << 20)
        *ret = v << 20;
}

static void take_size(const char *text, uint64_t *ret)
{
    uint64_t v;
    if (units_parse_size(text, &v) == 0 && v > 0 && v <= 1ull << 40)
        *ret = v;
}

static void toml_value(void *data, const char *name, const char *value)
{
    struct settings *s = data;
    if (strcmp(name, "verifier.timeout_sec") == 0)
        take_seconds(value, &s->test_seconds);
    else if (strcmp(name, "environment.memory_mb") == 0)
        take_megabytes(value, &s->memory);
    else if (strcmp(name, "environment.storage_mb") == 0)
        take_megabytes(value, &s->disk);
    else if (strcmp(name, "environment.memory") == 0)
        take_size(value, &s->memory);
    else if (strcmp(name, "environment.storage") == 0)
        take_size(value, &s->disk);
    else if (strcmp(name, "task.description") == 0)
        snprintf(s->title, sizeof s->title, "%.*s", (int)strcspn(value, "\n"), value);
}

static void toml_table(void *data, const char *name)
{
    struct settings *s = data;
    s->steps |= strcmp(name, "steps[]") == 0;
}

static void yaml_value(void *data, const char *name, const char *value)
{
    struct settings *s = data;
    if (strcmp(name, "max_test_timeout_sec") == 0)
        take_seconds(value, &s->test_seconds);
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

static int read_file(struct harbor *h, const char *name, struct buf *b, char shown[2 * PATH_MAX],
                     struct error *err)
{
    snprintf(shown, 2 * PATH_MAX, "%s/%s", h->folder, name);
    return task_read_file(h->dir, name, shown, b, err);
}

static int read_yaml(struct harbor *h, const char *name, struct settings *s, struct error *err)
{
    char shown[2 * PATH_MAX];
    _cleanup_buf_ struct buf b = BUF_INIT(SETTINGS_MAX);
    struct yaml_sink sink = {yaml_value, yaml_deeper, s};
    int r = read_file(h, name, &b, shown, err);
    if (r < 0)
        return r;
    r = yaml_scan(b.data ? (const char *)b.data : "", b.len, &sink, err);
    return r < 0 ? error_wrap(err, "%s", shown) : 0;
}

static int read_toml(struct harbor *h, struct settings *s, struct error *err)
{
    char shown[2 * PATH_MAX];
    _cleanup_buf_ struct buf b = BUF_INIT(SETTINGS_MAX), text = BUF_INIT(SETTINGS_MAX);
    struct toml_sink sink = {toml_value, toml_table, s};
    int r = read_file(h, "task.toml", &b, shown, err);
    if (r < 0)
        return r;
    r = toml_scan(b.data ? (const char *)b.data : "", b.len, &sink, err);
    if (r < 0)
        return error_wrap(err, "%s", shown);
    if (s->steps)
        return error_set(err, EOPNOTSUPP, "tasks of several steps are not supported");
    r = read_file(h, "instruction.md", &text, shown, err);
    if (r < 0)
        return r;
    s->instruction = buf_cstr(&text) ? strdup(buf_cstr(&text)) : NULL;
    return s->instruction ? 0 : task_no_memory(err);
}

/* Several containers at once are nothing that a box could stand for. */
static int check_services(struct harbor *h, struct error *err)
{
    const char *name = h->old ? "docker-compose.yaml" : "environment/docker-compose.yaml";
    struct settings s = {0};
    struct error why = {0};
    int r = read_yaml(h, name, &s, &why);
    free(s.instruction);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return error_set(err, -r, "%s", why.text);
    return s.n_services > 1 ? error_set(err, EOPNOTSUPP, "%s: has more than one service", name) : 0;
}

static int apply(const struct settings *s, struct task *t, struct error *err)
{
    const char *text = s->instruction ? s->instruction : "";
    if (!text[strspn(text, " \t\r\n")])
        return error_set(err, EINVAL, "it has no instruction");
    if (s->parser[0] && strcmp(s->parser, "pytest") != 0)
        return error_set(err, EOPNOTSUPP, "parser_name: %s is not supported, only pytest is", s->parser);
    double seconds = s->test_seconds > 0 ? s->test_seconds : TEST_SECONDS;
    t->test_timeout_ns = (int64_t)(seconds * (double)NS_PER_S);
    if (t->test_timeout_ns < NS_PER_S)
        t->test_timeout_ns = NS_PER_S;
    t->test_cpu_ns = t->test_timeout_ns;
    t->limits.memory = s->memory > MEMORY_MIN ? s->memory : MEMORY_MIN;
    t->limits.disk = s->disk > 0 && s->disk < DISK_MAX && s->disk > t->limits.disk ? s->disk : DISK_MAX;
    t->limits.pids = PIDS;
    t->max_steps = STEPS;
    text += strspn(text, "# \t\r\n");
    int n = (int)strcspn(text, "\r\n");
    int r = import_text(&t->instruction, err, "%s", s->instruction);
    if (r == 0)
        r = s->title[0] ? import_text(&t->title, err, "%s", s->title)
                        : import_text(&t->title, err, "%.*s", n < TITLE_MAX ? n : TITLE_MAX, text);
    return r;
}

int harbor_settings(struct harbor *h, struct task *t, struct error *err)
{
    struct settings s = {0};
    int r = h->old ? read_yaml(h, "task.yaml", &s, err) : read_toml(h, &s, err);
    if (r == 0)
        r = check_services(h, err);
    if (r == 0)
        r = apply(&s, t, err);
    free(s.instruction);
    return r;
}
