/*
 * What needs trust: the variables of a .env and the members of a .hutch/config.json that decide
 * where a conversation goes, what it costs or what runs on the host. Everything else counts without
 * trust: SAFEDIR within the folder, USE_SANDBOX (which can only refuse), and limits that are lower
 * than the person's own.
 */
#include <string.h>

#include "config_file.h"
#include "dotenv.h"
#include "json.h"
#include "text.h"
#include "trust.h"
#include "variables.h"
#include "banned.h"

#define VALUE_MAX 2000

const struct variable_row VARIABLES[VAR_COUNT] = {
#define PROVIDER(row, name, api, key, url, api_name)                                               \
    {key, true, true, NULL}, {url, true, false, key}, {api_name, true, false, NULL},
#include "providers.def"
#undef PROVIDER
    {"HUTCH_MODEL", true, false, NULL},  {"MODEL", true, false, NULL},
    {"MAX_TOKENS", false, false, NULL},  {"SAFEDIR", false, false, NULL},
    {"USE_SANDBOX", false, false, NULL},
};

static void items_add(json_t *items, enum trust_file_name file, const char *name, const char *value)
{
    _cleanup_free_ char *shown = foreign_text(value, strlen(value), VALUE_MAX);
    json_array_append_new(items, json_pack("{s:s, s:s, s:s}", "file", trust_file_path(file), "name",
                                           name, "value", shown ? shown : ""));
}

static void items_variable(void *data, const char *name, const char *value)
{
    char **values = data;
    for (size_t i = 0; i < VAR_COUNT; i++)
        if (VARIABLES[i].name && VARIABLES[i].needs_trust && strcmp(VARIABLES[i].name, name) == 0) {
            free(values[i]);
            values[i] = strdup(value);
        }
}

static void items_broken(void *data, unsigned line, const char *why) {}

static void items_of_dotenv(const struct trust *t, json_t *items)
{
    char *values[VAR_COUNT] = {0};
    const struct buf *text = &t->files[TRUST_DOTENV].text;
    dotenv_parse(text->len ? (const char *)text->data : "", text->len,
                 &(struct dotenv_sink){items_variable, items_broken, values});
    for (size_t i = 0; i < VAR_COUNT; i++) {
        char line[DOTENV_VALUE_MAX + 100];
        const char *key = VARIABLES[i].key;
        if (!values[i] || !values[i][0])
            continue;
        /* A base URL gets the key beside it, which is the row before it in the table. */
        bool lends = key && !(values[i - 1] && values[i - 1][0]) && getenv(key);
        if (VARIABLES[i].is_secret)
            snprintf(line, sizeof line, "(a key of %zu characters)", strlen(values[i]));
        else
            snprintf(line, sizeof line, "%s%s%s%s", lends ? "gets your own " : "", lends ? key : "",
                     lends ? ": " : "", values[i]);
        items_add(items, TRUST_DOTENV, VARIABLES[i].name, line);
    }
    for (size_t i = 0; i < VAR_COUNT; i++)
        free(values[i]);
}

/* Values may be secrets and are not shown, except ${NAME}: it sends one of the person's variables
 * along. */
static void items_append_members(struct buf *b, const char *intro, const json_t *object)
{
    const char *name;
    json_t *value;
    if (json_object_size(object) == 0)
        return;
    buf_append_str(b, intro);
    json_object_foreach((json_t *)object, name, value)
    {
        const char *text = json_string_value(value);
        bool refers = text && strstr(text, "${");
        buf_printf(b, " %s%s%s", name, refers ? "=" : "", refers ? text : "");
    }
}

static void items_of_provider(json_t *items, const char *name, const json_t *entry)
{
    char full[128];
    _cleanup_buf_ struct buf line = BUF_INIT(64u << 10);
    const char *url = json_get_string(entry, "base_url");
    const char *key = json_get_string(entry, "key");
    buf_append_str(&line, url ? url : "the usual address");
    if (key && strstr(key, "${"))
        buf_printf(&line, ", key %s", key);
    else if (key)
        buf_printf(&line, ", a key of %zu characters", strlen(key));
    items_append_members(&line, ", headers", json_object_get(entry, "headers"));
    items_append_members(&line, ", sets", json_object_get(entry, "extra"));
    snprintf(full, sizeof full, "providers.%s", name);
    items_add(items, TRUST_CONFIG, full, buf_cstr(&line) ? (const char *)line.data : "(too long)");
}

static void items_of_server(json_t *items, const char *name, const json_t *server)
{
    size_t i;
    json_t *arg;
    char full[128];
    _cleanup_buf_ struct buf line = BUF_INIT(CONFIG_MAX * 2);
    const char *command = json_get_string(server, "command");
    const char *url = json_get_string(server, "url");
    buf_printf(&line, "%s%s", command ? "runs on this machine: " : "connects to ",
               command ? command
               : url   ? url
                       : "nothing");
    json_array_foreach(json_object_get(server, "args"), i, arg)
        buf_printf(&line, " %s", json_string_value(arg));
    items_append_members(&line, ", with variables", json_object_get(server, "env"));
    items_append_members(&line, ", headers", json_object_get(server, "headers"));
    snprintf(full, sizeof full, "mcpServers.%s", name);
    items_add(items, TRUST_CONFIG, full, buf_cstr(&line) ? (const char *)line.data : "(too long)");
}

json_t *trust_items(const struct trust *t, struct error *trouble)
{
    static const char *const texts[] = {"model", "embedder"};
    const struct trust_file *f = &t->files[TRUST_CONFIG];
    const char *name;
    json_t *one, *items = json_array();
    _cleanup_json_ json_t *config = NULL;
    if (!items)
        return NULL;
    items_of_dotenv(t, items);
    if (f->unreadable.code)
        *trouble = f->unreadable;
    else if (f->exists)
        config_parse(CONFIG_WORKSPACE_FILE, f->text.len ? (const char *)f->text.data : "",
                     f->text.len, &config, trouble);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if ((one = json_object_get(config, texts[i])))
            items_add(items, TRUST_CONFIG, texts[i], json_string_value(one));
    if (json_object_size(json_object_get(config, "models")) > 0)
        items_add(items, TRUST_CONFIG, "models", "windows and prices of models");
    json_object_foreach(json_object_get(config, "providers"), name, one)
        items_of_provider(items, name, one);
    json_object_foreach(json_object_get(config, "mcpServers"), name, one)
        items_of_server(items, name, one);
    return items;
}
