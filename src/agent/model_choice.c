/* Which model is meant: that of the command line, HUTCH_MODEL, MODEL, the configuration, or the
 * default one of a provider that there is a key for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model_choice.h"
#include "banned.h"

#define NAME_MAX_BYTES 4096

/* Appends to a list for people. */
static void list_append(char *list, size_t size, const char *between, const char *text)
{
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used ? between : "", text);
}

/* `provider` NULL: no model is named, and there is no key for any. */
static int model_explain_no_key(const char *provider, struct error *err)
{
    char variables[256] = "";
    const char *name;
    for (size_t i = 0; (name = provider_name(i)); i++)
        if (provider_api(name, 0) && (!provider || strcmp(name, provider) == 0))
            list_append(variables, sizeof variables, " or ", provider_key_setting(name));
    return error_set(
        err, ENOKEY,
        "no API key%s%s: set %s in your shell, or in .env and run `hutch trust`\n"
        "A model of your own needs none: OPENAI_BASE_URL=http://127.0.0.1:8080/v1 with --model "
        "openai/NAME reaches llama.cpp, vLLM or Ollama; other providers go into "
        "~/.config/hutch/config.json\n"
        "Without any model: `hutch run CMD` and `hutch tool` work in a box, `hutch history` shows "
        "past sessions, --model replay/FILE plays a recorded one",
        provider ? " for " : "", provider ? provider : "", variables);
}

static int model_explain_unknown(const struct settings *s, const char *given, struct error *err)
{
    char all[400] = "";
    const char *name;
    json_t *entry;
    for (size_t i = 0; (name = provider_name(i)); i++)
        list_append(all, sizeof all, ", ", name);
    json_object_foreach((json_t *)settings_member(s, "providers"), name, entry)
        list_append(all, sizeof all, ", ", name);
    return error_set(err, EINVAL,
                     "--model '%.200s': use PROVIDER/NAME; providers are %s (more in"
                     " ~/.config/hutch/config.json)",
                     given, all);
}

/* The provider that there is a key for, else one with a base URL: without a key that is a server of
 * the person's own, for which the last providers of the table are the more likely ones. */
static const char *provider_available(const struct settings *s)
{
    const char *name;
    size_t n = 0;
    for (; (name = provider_name(n)); n++)
        if (settings_has_key(s, name))
            return name;
    while (n-- > 0)
        if (settings_has_base_url(s, provider_name(n)))
            return provider_name(n);
    return NULL;
}

/* The provider of a name without one: that of a well-known model, else the only one available. */
static const char *provider_of_bare_name(const struct settings *s, const char *model)
{
    const char *name, *available = provider_available(s);
    for (size_t i = 0; (name = provider_name(i)); i++) {
        const char *const *prefix = provider_find(name, NULL, NULL)->model_prefixes;
        for (; prefix && *prefix; prefix++)
            if (strncmp(model, *prefix, strlen(*prefix)) == 0)
                return name;
    }
    return available && settings_has_base_url(s, available) ? available : NULL;
}

int settings_model(struct settings *s, const char *given, struct model_spec *ret, struct error *err)
{
    struct model_spec spec = {.retries = -1};
    struct provider_settings p;
    _cleanup_free_ char *usual = NULL;
    if (!given || !given[0])
        given = settings_get(s, "HUTCH_MODEL");
    if (!given)
        given = settings_get(s, "MODEL");
    if (!given)
        given = json_string_value(settings_member(s, "model"));
    if (!given) {
        const char *name = provider_available(s);
        if (!name)
            return model_explain_no_key(NULL, err);
        if (asprintf(&usual, "%s/%s", name, provider_find(name, NULL, NULL)->default_model) < 0) {
            usual = NULL;
            return error_set(err, ENOMEM, "out of memory");
        }
        given = usual;
    }

    /* PROVIDER/NAME, or a name that says enough. */
    const char *slash = strchr(given, '/');
    if (strlen(given) > NAME_MAX_BYTES)
        return error_set(err, EINVAL, "the model's name is longer than %d bytes", NAME_MAX_BYTES);
    if (slash && slash != given && slash[1]) {
        spec.provider = settings_keep(s, strndup(given, (size_t)(slash - given)));
        spec.name = settings_keep(s, strdup(slash + 1));
    } else {
        spec.provider = slash ? NULL : provider_of_bare_name(s, given);
        if (!spec.provider)
            return model_explain_unknown(s, given, err);
        spec.name = settings_keep(s, strdup(given));
    }
    if (!spec.provider || !spec.name)
        return error_set(err, EINVAL, "the model's name is not UTF-8");
    spec.api = provider_find(spec.provider, NULL, NULL);
    if (spec.api->open) { /* not reached by HTTP: it needs no settings */
        *ret = spec;
        return 0;
    }

    int r = settings_provider(s, spec.provider, &p, err);
    if (r == -ENODATA)
        return model_explain_unknown(s, given, err);
    if (r == -ENOKEY)
        return model_explain_no_key(spec.provider, err);
    if (r < 0)
        return r;
    spec.base_url = p.base_url;
    spec.key = p.key;
    spec.headers = p.headers;
    spec.extra = p.extra;
    spec.idle_ms = p.idle_ms;
    spec.retries = p.retries;
    if (p.api_variable) { /* a variable can only choose among the provider's own APIs */
        char all[256] = "";
        const char *api;
        for (size_t i = 0; (api = provider_api(spec.provider, i)) && strcmp(api, p.api) != 0; i++)
            list_append(all, sizeof all, " or ", api);
        if (!api)
            return error_set(err, EINVAL, "%s=%.40s: use %s", p.api_variable, p.api, all);
    }
    spec.api = provider_find(spec.provider, p.api, spec.base_url);
    if (!spec.api)
        return error_set(err, EINVAL, "unknown API '%.40s'", p.api);
    *ret = spec;
    return 0;
}

static void row_number(const json_t *row, const char *name, double *value)
{
    const json_t *found = json_object_get(row, name);
    if (found)
        *value = json_number_value(found);
}

void settings_facts(const struct settings *s, const struct model_spec *spec,
                    struct model_facts *ret)
{
    char full[1024];
    struct model_facts f;
    provider_model_facts(spec->provider, spec->name, &f);
    snprintf(full, sizeof full, "%s/%s", spec->provider, spec->name);
    /* The row of "models" that fits best: the whole name, else the longest beginning with a `*`. */
    const json_t *table = settings_member(s, "models"), *row = json_object_get(table, full);
    const char *name;
    json_t *one;
    size_t length = row ? SIZE_MAX : 0;
    json_object_foreach((json_t *)table, name, one)
    {
        size_t n = strlen(name);
        if (n > length && name[n - 1] == '*' && strncmp(name, full, n - 1) == 0) {
            row = one;
            length = n;
        }
    }
    double window = (double)f.window, max_output = (double)f.max_output;
    row_number(row, "window", &window);
    row_number(row, "max_output", &max_output);
    f.window = (uint64_t)window;
    f.max_output = (uint64_t)max_output;
    /* A price of the person's own is a whole one: what it leaves out about caches follows from
     * it. */
    if (json_object_get(row, "input")) {
        double input = json_number_value(json_object_get(row, "input"));
        f.price = (struct model_price){.input = input,
                                       .output = f.price.output,
                                       .cache_read = spec->api->cache_read_rate * input,
                                       .cache_write = spec->api->cache_write_rate * input,
                                       .long_input = 1,
                                       .long_output = 1};
    }
    row_number(row, "output", &f.price.output);
    row_number(row, "cache_read", &f.price.cache_read);
    row_number(row, "cache_write", &f.price.cache_write);
    if (f.max_output > f.window / 2)
        f.max_output = f.window / 2;
    *ret = f;
}
