/*
 * Where a provider is and what key it gets. The rule: an address goes with the key beside it, if it
 * has one.
 *
 *     environment             its address counts with whatever key there is
 *     .env, trusted           its address goes with its own key, else with the environment's;
 * nothing of the configuration's entry is sent along workspace, trusted      its entry stands
 * alone: its address, its key, its headers own configuration       what the others leave open
 *
 * What is not trusted is not here: settings.c and settings_workspace.c leave it out.
 */
#include <errno.h>
#include <string.h>

#include "settings_private.h"
#include "banned.h"

#define URL_MAX 2048
#define KEY_MAX 8192

static const struct builtin {
    const char *name;
    enum settings_variable key, url;
} BUILTINS[] = {
    {"anthropic", VAR_ANTHROPIC_API_KEY, VAR_ANTHROPIC_BASE_URL},
    {"openai", VAR_OPENAI_API_KEY, VAR_OPENAI_BASE_URL},
};

static const struct builtin *builtin(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(BUILTINS); i++)
        if (strcmp(BUILTINS[i].name, name) == 0)
            return &BUILTINS[i];
    return NULL;
}

const json_t *settings_provider(const struct settings *s, const char *name, bool *ret_workspace)
{
    const json_t *entry = json_object_get(json_object_get(s->config.trusted, "providers"), name);
    *ret_workspace = entry != NULL;
    return entry ? entry : json_object_get(json_object_get(s->config.own, "providers"), name);
}

bool settings_knows_provider(const struct settings *s, const char *name, size_t n)
{
    char copy[65];
    bool workspace;
    if (n == 0 || n >= sizeof copy)
        return false;
    memcpy(copy, name, n);
    copy[n] = 0;
    return builtin(copy) || settings_provider(s, copy, &workspace);
}

static bool is_openai(const char *url)
{
    static const char own[] = "https://api.openai.com";
    return !url || (strncmp(url, own, sizeof own - 1) == 0 && strchr("/:", url[sizeof own - 1]));
}

static const char *of_dotenv(const struct settings *s, enum settings_variable v)
{
    return s->dotenv[v] && s->dotenv[v][0] ? s->dotenv[v] : NULL;
}

static bool dotenv_has_address(const struct settings *s, const struct builtin *b)
{
    return of_dotenv(s, b->url) && !settings_environment(b->url);
}

static int expand(struct settings *s, const char *provider, const char *member, const char *value,
                  const char **ret, struct error *err)
{
    char where[160], *text = NULL;
    snprintf(where, sizeof where, "providers.%s.%s", provider, member);
    int r = config_expand(value, where, &text, err);
    if (r < 0)
        return r;
    *ret = settings_keep(s, text);
    return *ret ? 0 : error_set(err, EINVAL, "%s is no UTF-8", where);
}

static int expand_headers(struct settings *s, const char *provider, const json_t *headers,
                          json_t **ret, struct error *err)
{
    const char *name, *text;
    json_t *value, *made = json_object();
    if (!made || json_array_append_new(s->kept, made) < 0)
        return error_set(err, ENOMEM, "no memory");
    json_object_foreach((json_t *)headers, name, value)
    {
        int r = expand(s, provider, name, json_string_value(value), &text, err);
        if (r < 0)
            return r;
        if (strpbrk(text, "\r\n"))
            return error_set(err, EINVAL, "providers.%s.headers.%s: a line break", provider, name);
        json_object_set_new(made, name, json_string(text));
    }
    *ret = made;
    return 0;
}

static void take_patience(const json_t *entry, struct model_spec *spec)
{
    const json_t *timeout = json_object_get(entry, "timeout"),
                 *retries = json_object_get(entry, "retries");
    if (timeout)
        spec->idle_ms = (int)(json_number_value(timeout) * 1000);
    if (retries)
        spec->retries = (int)json_integer_value(retries);
}

/* What the entry of the configuration adds; an address or a key that is set already stays. */
static int take_entry(struct settings *s, const char *provider, const json_t *entry,
                      struct model_spec *spec, struct error *err)
{
    const char *url = json_string_value(json_object_get(entry, "base_url"));
    const char *key = json_string_value(json_object_get(entry, "key"));
    const json_t *headers = json_object_get(entry, "headers");
    int r = 0;
    bool together = url && !spec->base_url; /* its address goes with its key, if it has one */
    if (together)
        r = expand(s, provider, "base_url", url, &spec->base_url, err);
    if (r == 0 && key && (together || !spec->key))
        r = expand(s, provider, "key", key, &spec->key, err);
    if (r == 0 && headers)
        r = expand_headers(s, provider, headers, &spec->headers, err);
    spec->extra = json_object_get(entry, "extra");
    take_patience(entry, spec);
    return r;
}

static int choose_api(const struct settings *s, const char *provider, const json_t *entry,
                      struct model_spec *spec, struct error *err)
{
    static const char *const names[] = {"anthropic", "chat", "responses"};
    const char *said = json_string_value(json_object_get(entry, "api"));
    const char *variable = strcmp(provider, "openai") == 0 ? settings_get(s, "OPENAI_API") : NULL;
    if (variable && strcmp(variable, "chat") != 0 && strcmp(variable, "responses") != 0)
        return error_set(err, EINVAL, "OPENAI_API=%.40s: it is chat or responses", variable);
    if (variable)
        said = variable;
    spec->api = strcmp(provider, "anthropic") == 0                             ? MODEL_ANTHROPIC
                : strcmp(provider, "openai") == 0 && is_openai(spec->base_url) ? MODEL_RESPONSES
                                                                               : MODEL_CHAT;
    for (size_t i = 0; said && i < ARRAY_SIZE(names); i++)
        if (strcmp(said, names[i]) == 0)
            spec->api = (enum model_api)i;
    return 0;
}

static int check(const char *provider, const struct model_spec *spec, struct error *err)
{
    const char *url = spec->base_url, *key = spec->key;
    if (url && (strlen(url) > URL_MAX ||
                (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)))
        return error_set(err, EINVAL, "the address of %s is no http:// or https:// URL: %.200s",
                         provider, url);
    for (const char *at = url; at && *at; at++)
        if (*at <= ' ' || *at == 0x7f)
            return error_set(err, EINVAL, "the address of %s holds a blank or a control character",
                             provider);
    if (key && strlen(key) > KEY_MAX)
        return error_set(err, EINVAL, "the key for %s is longer than %d bytes", provider, KEY_MAX);
    for (const char *at = key; at && *at; at++)
        if (*at <= ' ' || *at >= 0x7f)
            return error_set(
                err, EINVAL,
                "the key for %s holds a character that no key has (a blank, a line break?)",
                provider);
    return 0;
}

/* From the variables; says whether the configuration's entry has a say still. */
static bool take_variables(struct settings *s, const struct builtin *b, struct model_spec *spec)
{
    bool dotenv = dotenv_has_address(s, b);
    const char *own = settings_environment(b->key), *beside = of_dotenv(s, b->key);
    spec->key = dotenv && beside ? beside : own ? own : beside;
    spec->base_url = dotenv ? of_dotenv(s, b->url) : settings_environment(b->url);
    return !dotenv;
}

int settings_reach(struct settings *s, const char *provider, struct model_spec *spec,
                   struct error *err)
{
    bool workspace;
    const struct builtin *b = builtin(provider);
    const json_t *entry = settings_provider(s, provider, &workspace);
    if (!b && !entry)
        return error_set(err, ENOENT, "there is no provider '%.64s'", provider);
    bool alone = workspace && json_object_get(entry, "base_url");
    if (b && !alone && !take_variables(s, b, spec))
        entry = NULL;
    int r = take_entry(s, provider, entry, spec, err);
    if (r == 0)
        r = choose_api(s, provider, entry, spec, err);
    if (r == 0)
        r = check(provider, spec, err);
    if (r < 0)
        return r;
    if (!b && !spec->base_url)
        return error_set(err, EINVAL, "providers.%s of the configuration needs a \"base_url\"",
                         provider);
    return spec->key || spec->base_url ? 0 : -ENOKEY;
}

bool settings_has_key(const struct settings *s, const char *provider)
{
    bool workspace;
    const struct builtin *b = builtin(provider);
    const json_t *entry = settings_provider(s, provider, &workspace);
    return (b && (settings_environment(b->key) || of_dotenv(s, b->key))) ||
           json_object_get(entry, "key");
}

bool settings_has_address(const struct settings *s, const char *provider)
{
    bool workspace;
    const struct builtin *b = builtin(provider);
    const json_t *entry = settings_provider(s, provider, &workspace);
    return (b && (settings_environment(b->url) || dotenv_has_address(s, b))) ||
           json_object_get(entry, "base_url");
}
