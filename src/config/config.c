/* config.json: JSON that a schema allows, and ${NAME} in some of its values. */
#include <errno.h>
#include <string.h>

#include "config.h"
#include "io.h"
#include "json.h"
#include "schema.h"
#include "banned.h"

#define EXPANDED_MAX (256u << 10)

/* Unknown members are ignored: they may be of a later hutch or of another program. */
/* clang-format off */
static const char CONFIG_SCHEMA[] = SCHEMA({
    "type": "object",
    "properties": {
        "model": {"type": "string", "minLength": 1, "maxLength": 1000},
        "embedder": {"type": "string", "minLength": 1, "maxLength": 1000},
        "summary_prompt": {"type": "string", "pattern": "^/"},
        "max_cost": {"type": "number", "exclusiveMinimum": 0},
        "max_turns": {"type": "integer", "minimum": 1, "maximum": 1000000},
        "max_tokens": {"type": "integer", "minimum": 1, "maximum": 1000000000},
        "models": {
            "type": "object",
            "maxProperties": 1000,
            "additionalProperties": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "window": {"type": "integer", "minimum": 1024, "maximum": 1000000000},
                    "max_output": {"type": "integer", "minimum": 16, "maximum": 1000000000},
                    "input": {"type": "number", "minimum": 0},
                    "output": {"type": "number", "minimum": 0},
                    "cache_read": {"type": "number", "minimum": 0},
                    "cache_write": {"type": "number", "minimum": 0}
                }
            }
        },
        "branch_prefix": {
            "type": "string", "maxLength": 100, "pattern": "^([A-Za-z0-9][A-Za-z0-9._/-]*)?$"
        },
        "forges": {
            "type": "object",
            "maxProperties": 64,
            "propertyNames": {"pattern": "^[A-Za-z0-9.:_-]+$"},
            "additionalProperties": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "kind": {"enum": ["github", "gitlab", "gitea", "forgejo"]},
                    "api": {"type": "string", "pattern": "^https?://"},
                    "token": {"type": "string", "minLength": 1},
                    "http": {"type": "boolean"}
                }
            }
        },
        "providers": {
            "type": "object",
            "maxProperties": 64,
            "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},
            "additionalProperties": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "api": {"type": "string"},
                    "base_url": {"type": "string", "pattern": "^(https?://|[$][{])"},
                    "key": {"type": "string", "minLength": 1},
                    "headers": {
                        "type": "object",
                        "maxProperties": 100,
                        "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
                        "additionalProperties": {"type": "string"}
                    },
                    "extra": {"type": "object"},
                    "timeout": {"type": "number", "minimum": 0.1, "maximum": 86400},
                    "retries": {"type": "integer", "minimum": 0, "maximum": 100}
                }
            }
        },
        "mcpServers": {
            "type": "object",
            "maxProperties": 64,
            "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "type": {"enum": ["stdio", "http", "streamable-http", "streamableHttp", "sse"]},
                    "command": {"type": "string", "minLength": 1},
                    "args": {"type": "array", "maxItems": 1000, "items": {"type": "string"}},
                    "env": {
                        "type": "object",
                        "maxProperties": 1000,
                        "propertyNames": {"pattern": "^[^=]+$"},
                        "additionalProperties": {"type": "string"}
                    },
                    "cwd": {"type": "string", "minLength": 1},
                    "url": {"type": "string", "minLength": 1},
                    "headers": {
                        "type": "object",
                        "maxProperties": 100,
                        "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
                        "additionalProperties": {"type": "string"}
                    },
                    "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
                    "disabled": {"type": "boolean"},
                    "tools": {"type": "array", "maxItems": 1000, "items": {"type": "string"}}
                }
            }
        }
    }
});
/* clang-format on */

/* Checks whose messages a schema could not make helpful. */
static int config_check_server(const char *name, const json_t *server, struct error *err)
{
    const char *type = json_string_value(json_object_get(server, "type"));
    bool command = json_object_get(server, "command"), url = json_object_get(server, "url");
    if (command == url)
        return error_set(
            err, EINVAL,
            "config.mcpServers.%s: needs \"command\" (a program to start) or \"url\" (a server"
            " on the network), %s",
            name, command ? "not both" : "has neither");
    if (type && url && strcmp(type, "sse") == 0)
        return error_set(
            err, EINVAL,
            "config.mcpServers.%s.type: the old transport \"sse\" is not supported; most such"
            " servers have streamable HTTP at another URL: use type \"http\"",
            name);
    if (type && url == (strcmp(type, "stdio") == 0))
        return error_set(err, EINVAL,
                         "config.mcpServers.%s.type: \"%s\" cannot be used with \"%s\"", name, type,
                         url ? "url" : "command");
    return 0;
}

static int config_check_provider(const char *name, const json_t *provider, struct error *err)
{
    static const char *const apis[] = {
#define PROVIDER(row, name, api, key, url, api_name) api,
#include "providers.def"
#undef PROVIDER
    };
    const char *api = json_string_value(json_object_get(provider, "api"));
    char all[256] = "";
    for (size_t i = 0; i < ARRAY_SIZE(apis); i++) {
        size_t used = strlen(all);
        if (!api || (apis[i] && strcmp(apis[i], api) == 0))
            return 0;
        if (apis[i])
            snprintf(all + used, sizeof all - used, "%s\"%s\"", used ? ", " : "", apis[i]);
    }
    return error_set(err, EINVAL, "config.providers.%s.api: must be one of %s", name, all);
}

int config_parse(const char *file, const void *text, size_t n, json_t **ret, struct error *err)
{
    json_error_t at;
    const char *name;
    json_t *one;
    _cleanup_json_ json_t *config = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    _cleanup_json_ json_t *schema = json_loads(CONFIG_SCHEMA, 0, NULL);
    if (!config)
        return error_set(err, EINVAL, "%s: line %d, column %d: %s", file, at.line, at.column,
                         at.text);
    int r = schema ? schema_check(schema, config, "config", err)
                   : error_set(err, ENOMEM, "out of memory");
    json_object_foreach(json_object_get(config, "providers"), name, one)
    {
        if (r == 0)
            r = config_check_provider(name, one, err);
    }
    json_object_foreach(json_object_get(config, "mcpServers"), name, one)
    {
        if (r == 0)
            r = config_check_server(name, one, err);
    }
    if (r < 0)
        return error_wrap(err, "%s", file);
    *ret = TAKE_PTR(config);
    return 0;
}

int config_expand(const char *value, const char *where, char **ret, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(EXPANDED_MAX);
    for (const char *dollar, *end; (dollar = strstr(value, "${")); value = end + 1) {
        char name[256];
        buf_append(&b, value, (size_t)(dollar - value));
        end = strchr(dollar, '}');
        if (!end)
            return error_set(err, EINVAL, "%s: '${' without '}'", where);
        /* NAME or NAME:-default */
        const char *at = dollar + 2;
        size_t n = (size_t)(end - at);
        const char *colon = memmem(at, n, ":-", 2);
        size_t len = colon ? (size_t)(colon - at) : n;
        if (len == 0 || len >= sizeof name)
            return error_set(err, EINVAL, "%s: ${%.*s} is not a variable name", where,
                             n < 100 ? (int)n : 100, at);
        memcpy(name, at, len);
        name[len] = 0;
        const char *set = getenv(name);
        if (!set && !colon)
            return error_set(err, ENOENT, "%s: the variable ${%s} is not set in the environment",
                             where, name);
        if (set)
            buf_append_str(&b, set);
        else
            buf_append(&b, colon + 2, n - len - 2);
    }
    buf_append_str(&b, value);
    char *text = buf_cstr(&b);
    if (!text)
        return error_set(err, E2BIG, "%s: longer than %u bytes", where, EXPANDED_MAX);
    b = BUF_INIT(EXPANDED_MAX);
    *ret = text;
    return 0;
}

int config_read(struct config *ret, struct error *err)
{
    struct error why = {0};
    struct config c = {.file = ownfile_config_path("config.json")};
    _cleanup_buf_ struct buf text = BUF_INIT(CONFIG_MAX + 1);
    int r = c.file ? ownfile_read(c.file, &text, &why) : -ENOENT;
    if (r == -ENOENT || r == -ENOTDIR) {
        c.own = json_object();
        r = c.own ? 0 : error_set(err, ENOMEM, "out of memory");
    } else if (r < 0) {
        if (err)
            *err = why;
    } else {
        r = config_parse(c.file, text.len ? (const char *)text.data : "", text.len, &c.own, err);
    }
    if (r < 0) {
        config_free(&c);
        return r;
    }
    *ret = c;
    return 0;
}

void config_free(struct config *c)
{
    json_decref(c->own);
    json_decref(c->trusted);
    json_decref(c->untrusted);
    free(c->file);
    free(c->workspace);
    *c = (struct config){0};
}

int config_add_workspace(struct config *c, const struct trust *t, bool trust, struct error *err)
{
    const struct trust_file *f = &t->files[TRUST_CONFIG];
    json_t *config = NULL;
    char *workspace = t->folder ? strdup(t->folder) : NULL;
    if (t->folder && !workspace)
        return error_set(err, ENOMEM, "out of memory");
    free(c->workspace);
    c->workspace = workspace;
    json_decref(c->trusted);
    json_decref(c->untrusted);
    c->trusted = c->untrusted = NULL;
    c->trouble = f->unreadable;
    if (!f->exists || f->unreadable.code)
        return 0;
    if (config_parse("the workspace's " CONFIG_WORKSPACE_FILE,
                     f->text.len ? (const char *)f->text.data : "", f->text.len, &config,
                     &c->trouble) < 0)
        return 0;
    /* It names a file of the host: a workspace must not choose one, even a trusted one. */
    json_object_del(config, "summary_prompt");
    *(trust || t->state == TRUST_YES ? &c->trusted : &c->untrusted) = config;
    return 0;
}

int config_read_all(const char *workspace, bool trust, struct config *ret, struct error *err)
{
    _cleanup_config_ struct config c = {0};
    _cleanup_trust_ struct trust t = {0};
    int r = config_read(&c, err);
    if (r == 0 && workspace)
        r = trust_read(workspace, &t, err);
    if (r == 0 && workspace)
        r = config_add_workspace(&c, &t, trust, err);
    if (r < 0)
        return r;
    *ret = c;
    c = (struct config){0};
    return 0;
}
