/* From a manifest to a tool. */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "foreign.h"
#include "own_private.h"
#include "relpath.h"
#include "schema.h"
#include "banned.h"

#define DEFAULT_TIMEOUT_S 60.0

/* clang-format off */
static const char MANIFEST_SCHEMA[] = SCHEMA({
    "type": "object",
    "required": ["name", "description", "input_schema"],
    "properties": {
        "name": {"type": "string"},
        "title": {"type": "string"},
        "description": {"type": "string", "minLength": 1},
        "input_schema": {"type": "object"},
        "output_schema": {"type": "object"},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
        "command": {"type": "string", "minLength": 1, "maxLength": 1000},
        "reads_only": {"type": "boolean"}
    }
});
/* clang-format on */

bool own_name_valid(const char *name)
{
    static const char FIRST[] = "abcdefghijklmnopqrstuvwxyz",
                      MORE[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t n = strlen(name);
    return n > 0 && n <= OWN_NAME_MAX && strchr(FIRST, name[0]) && strspn(name, MORE) == n;
}

struct own_tool *own_tool_free(struct own_tool *t)
{
    if (!t)
        return NULL;
    buf_free(&t->text);
    free(t->name);
    free(t->title);
    free(t->summary);
    free(t->input);
    free(t->output);
    free(t->command);
    free(t->program);
    free(t->original);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return NULL;
}

static int load(const struct buf *text, json_t **ret, struct error *err)
{
    json_error_t at;
    json_t *schema = json_loads(MANIFEST_SCHEMA, 0, NULL);
    json_t *m = json_loadb(text->len ? (const char *)text->data : "", text->len,
                           JSON_REJECT_DUPLICATES, &at);
    int r = 0;
    if (!m)
        r = error_set(err, EINVAL, "line %d, column %d: %s", at.line, at.column, at.text);
    else
        r = schema ? schema_check(schema, m, "manifest", err) : error_set(err, ENOMEM, "no memory");
    json_decref(schema);
    if (r == 0)
        *ret = m;
    else
        json_decref(m);
    return r;
}

static int take_name(const json_t *m, const char *name, struct own_tool *t, struct error *err)
{
    const char *said = json_string_value(json_object_get(m, "name"));
    const char *command = json_string_value(json_object_get(m, "command"));
    if (strcmp(said, name) != 0)
        return error_set(err, EINVAL, "manifest.name: must be \"%s\", as the file is called", name);
    if (!command)
        command = name;
    if (!relpath_is_valid(command, strlen(command)))
        return error_set(
            err, EINVAL,
            "manifest.command: must be a path beside the manifest, without '..' and '.'");
    t->name = strdup(name);
    t->command = strdup(command);
    return t->name && t->command ? 0 : error_set(err, ENOMEM, "no memory");
}

static char *take_text(const json_t *m, const char *member, const char *fallback, size_t max)
{
    const char *text = json_string_value(json_object_get(m, member));
    if (!text)
        text = fallback;
    return foreign_text(text, strlen(text), max);
}

static int take_schemas(const json_t *m, struct own_tool *t, struct error *err)
{
    const json_t *output = json_object_get(m, "output_schema");
    int r =
        foreign_schema(json_object_get(m, "input_schema"), "manifest.input_schema", &t->input, err);
    if (r == 0 && output)
        r = foreign_schema(output, "manifest.output_schema", &t->output, err);
    return r;
}

static int fill(const json_t *m, const char *name, struct own_tool *t, struct error *err)
{
    const json_t *timeout = json_object_get(m, "timeout");
    double seconds = timeout ? json_number_value(timeout) : DEFAULT_TIMEOUT_S;
    int r = take_name(m, name, t, err);
    if (r == 0)
        r = take_schemas(m, t, err);
    if (r < 0)
        return r;
    t->summary = take_text(m, "description", "", FOREIGN_SUMMARY_MAX);
    t->title = take_text(m, "title", name, FOREIGN_TITLE_MAX);
    if (!t->summary || !t->title)
        return error_set(err, ENOMEM, "no memory");
    t->timeout_ns = (int64_t)(seconds * NS_PER_S) + 1;
    /* That it only reads is its author's word: others may run beside it, but nothing is believed to
     * be as it was afterwards. */
    bool reads = json_is_true(json_object_get(m, "reads_only"));
    t->tool = (struct tool){.name = t->name,
                            .title = t->title,
                            .summary = t->summary,
                            .input = t->input,
                            .output = t->output,
                            .flags = TOOL_RUNS | (reads ? TOOL_READS : 0),
                            .run = own_run};
    return 0;
}

int own_manifest_parse(const char *name, struct buf *text, struct own_tool **ret, struct error *err)
{
    json_t *m = NULL;
    struct own_tool *t = NULL;
    int r = load(text, &m, err);
    if (r < 0)
        return r;
    t = calloc(1, sizeof *t);
    r = t ? 0 : error_set(err, ENOMEM, "no memory");
    if (t) {
        pthread_mutex_init(&t->lock, NULL);
        r = fill(m, name, t, err);
    }
    json_decref(m);
    if (r < 0) {
        own_tool_free(t);
        return r;
    }
    t->text = *text;
    *text = BUF_INIT(text->max);
    *ret = t;
    return 0;
}
