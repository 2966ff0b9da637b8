/*
 * Credentials: where a provider is reached and with which key. A base URL goes with the key beside
 * it, if there is one:
 *
 *     environment          its URL goes with any key
 *     .env, trusted        its URL goes with its own key, else with the environment's; nothing of
 * the configuration's entry is sent along workspace, trusted   its entry stands alone: URL, key,
 * headers own configuration    fills what the others leave open
 *
 * What is not trusted never gets here: settings.c drops it.
 */
#include <errno.h>
#include <string.h>

#include "settings_private.h"
#include "banned.h"

#define URL_MAX 2048
#define KEY_MAX 8192

static const struct provider_variables {
    const char *name;
    enum settings_variable key, url, api;
} PROVIDER_VARIABLES[] = {
#define PROVIDER(row, name, api, key, url, api_name)                                               \
    {key ? name : "", VAR_##row##_KEY, VAR_##row##_URL, VAR_##row##_API},
#include "providers.def"
#undef PROVIDER
};

static const struct provider_variables *provider_variables(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROVIDER_VARIABLES); i++)
        if (strcmp(PROVIDER_VARIABLES[i].name, name) == 0 && name[0])
            return &PROVIDER_VARIABLES[i];
    return NULL;
}

/* The provider's entry in the configuration: the workspace's if that is trusted, else the person's
 * own; or NULL. */
static const json_t *provider_entry(const struct settings *s, const char *name, bool *ret_workspace)
{
    const json_t *entry = json_object_get(json_object_get(s->config.trusted, "providers"), name);
    *ret_workspace = entry != NULL;
    return entry ? entry : json_object_get(json_object_get(s->config.own, "providers"), name);
}

static bool dotenv_has_url(const struct settings *s, const struct provider_variables *v)
{
    return settings_dotenv(s, v->url) && !settings_environment(v->url);
}

bool settings_has_key(const struct settings *s, const char *provider)
{
    bool workspace;
    const struct provider_variables *v = provider_variables(provider);
    return (v && (settings_environment(v->key) || settings_dotenv(s, v->key))) ||
           json_object_get(provider_entry(s, provider, &workspace), "key");
}

bool settings_has_base_url(const struct settings *s, const char *provider)
{
    bool workspace;
    const struct provider_variables *v = provider_variables(provider);
    return (v && (settings_environment(v->url) || settings_dotenv(s, v->url))) ||
           json_object_get(provider_entry(s, provider, &workspace), "base_url");
}

/* ${NAME} in a value of the configuration. The result lives as long as the settings. */
static int entry_expand(struct settings *s, const char *provider, const char *member,
                        const char *value, const char **ret, struct error *err)
{
    char where[160], *text = NULL;
    snprintf(where, sizeof where, "providers.%s.%s", provider, member);
    int r = config_expand(value, where, &text, err);
    if (r < 0)
        return r;
    *ret = settings_keep(s, text);
    return *ret ? 0 : error_set(err, EINVAL, "%s is not UTF-8", where);
}

static int entry_expand_headers(struct settings *s, const char *provider, const json_t *headers,
                                json_t **ret, struct error *err)
{
    const char *name, *text;
    json_t *value, *made = json_object();
    if (!made || json_array_append_new(s->kept, made) < 0)
        return error_set(err, ENOMEM, "out of memory");
    json_object_foreach((json_t *)headers, name, value)
    {
        int r = entry_expand(s, provider, name, json_string_value(value), &text, err);
        if (r < 0)
            return r;
        if (strpbrk(text, "\r\n"))
            return error_set(err, EINVAL, "providers.%s.headers.%s contains a line break", provider,
                             name);
        json_object_set_new(made, name, json_string(text));
    }
    *ret = made;
    return 0;
}

/* What the configuration's entry adds; a URL or a key that is set already stays. */
static int provider_add_entry(struct settings *s, const char *provider, const json_t *entry,
                              struct provider_settings *p, struct error *err)
{
    const char *url = json_string_value(json_object_get(entry, "base_url"));
    const char *key = json_string_value(json_object_get(entry, "key"));
    const json_t *headers = json_object_get(entry, "headers");
    const json_t *timeout = json_object_get(entry, "timeout");
    const json_t *retries = json_object_get(entry, "retries");
    int r = 0;
    bool together = url && !p->base_url; /* its URL goes with its key, if it has one */
    if (together)
        r = entry_expand(s, provider, "base_url", url, &p->base_url, err);
    if (r == 0 && key && (together || !p->key))
        r = entry_expand(s, provider, "key", key, &p->key, err);
    if (r == 0 && headers)
        r = entry_expand_headers(s, provider, headers, &p->headers, err);
    p->api = json_string_value(json_object_get(entry, "api"));
    p->extra = json_object_get(entry, "extra");
    if (timeout)
        p->idle_ms = (int)(json_number_value(timeout) * 1000);
    if (retries)
        p->retries = (int)json_integer_value(retries);
    return r;
}

static int provider_check(const char *provider, const struct provider_settings *p,
                          struct error *err)
{
    const char *url = p->base_url, *key = p->key;
    const struct provider_variables *v = provider_variables(provider);
    const char *set_by =
        v && url && (url == settings_environment(v->url)) ? SETTINGS_VARIABLES[v->url].name : NULL;
    if (url && (strlen(url) > URL_MAX ||
                (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)))
        return error_set(err, EINVAL, "%s%s must start with http:// or https://: %.200s",
                         set_by ? set_by : "the base URL of ", set_by ? "" : provider, url);
    for (const char *at = url; at && *at; at++)
        if (*at <= ' ' || *at == 0x7f)
            return error_set(err, EINVAL, "%s%s contains a blank or a control character",
                             set_by ? set_by : "the base URL of ", set_by ? "" : provider);
    if (key && strlen(key) > KEY_MAX)
        return error_set(err, EINVAL, "the key for %s is longer than %d bytes", provider, KEY_MAX);
    for (const char *at = key; at && *at; at++)
        if (*at <= ' ' || *at >= 0x7f)
            return error_set(
                err, EINVAL,
                "the key for %s contains a character that keys do not have (a blank, a "
                "line break?)",
                provider);
    return 0;
}

int settings_provider(struct settings *s, const char *provider, struct provider_settings *ret,
                      struct error *err)
{
    bool workspace;
    struct provider_settings p = {.retries = -1};
    const struct provider_variables *v = provider_variables(provider);
    const json_t *entry = provider_entry(s, provider, &workspace);
    if (!v && !entry)
        return -ENODATA;
    bool alone = workspace && json_object_get(entry, "base_url");
    if (v && !alone) {
        const char *own = settings_environment(v->key), *beside = settings_dotenv(s, v->key);
        bool dotenv = dotenv_has_url(s, v);
        p.key = dotenv && beside ? beside : own ? own : beside;
        p.base_url = dotenv ? settings_dotenv(s, v->url) : settings_environment(v->url);
        if (dotenv)
            entry = NULL;
    }
    int r = provider_add_entry(s, provider, entry, &p, err);
    if (r == 0)
        r = provider_check(provider, &p, err);
    if (r < 0)
        return r;
    if (!v && !p.base_url)
        return error_set(err, EINVAL, "providers.%s of the configuration needs a \"base_url\"",
                         provider);
    const char *api = v && SETTINGS_VARIABLES[v->api].name
                          ? settings_get(s, SETTINGS_VARIABLES[v->api].name)
                          : NULL;
    if (api)
        p.api = api;
    p.api_variable = api ? SETTINGS_VARIABLES[v->api].name : NULL;
    if (!p.key && !p.base_url)
        return -ENOKEY;
    *ret = p;
    return 0;
}
