/* Which model is meant: of the command line, HUTCH_MODEL, MODEL, the configuration, or what there
 * is a key for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "model_choice.h"
#include "banned.h"

#define NAME_MAX_BYTES 4096
#define PACE_MAX       100

static int no_key(const char *provider, struct error *err)
{
    bool anthropic = !provider || strcmp(provider, "anthropic") == 0;
    return error_set(
        err, ENOKEY,
        "there is no key for %s: export %s=… in your shell, or put the line %s=… into .env and "
        "run `hutch trust`%s\n"
        "A model of your own needs none: OPENAI_BASE_URL=http://127.0.0.1:8080/v1 with --model "
        "openai/NAME reaches"
        " llama.cpp, vLLM or Ollama; other providers go into ~/.config/hutch/config.json\n"
        "Without any model: `hutch run CMD` and `hutch tool` work in a box, `hutch history` "
        "shows past sessions,"
        " --model replay/FILE plays a recorded one",
        provider ? provider : "a model", anthropic ? "ANTHROPIC_API_KEY" : "OPENAI_API_KEY",
        anthropic ? "ANTHROPIC_API_KEY" : "OPENAI_API_KEY", provider ? "" : " (or OPENAI_API_KEY)");
}

static const char *configured(const struct settings *s)
{
    const char *name = settings_get(s, "HUTCH_MODEL");
    if (!name)
        name = settings_get(s, "MODEL");
    return name ? name : json_string_value(settings_member(s, "model"));
}

/* A key says more than an address. */
static const char *by_key(const struct settings *s)
{
    if (settings_has_key(s, "anthropic"))
        return "anthropic/" MODELS_ANTHROPIC;
    if (settings_has_key(s, "openai") || settings_has_base_url(s, "openai"))
        return "openai/" MODELS_OPENAI;
    return settings_has_base_url(s, "anthropic") ? "anthropic/" MODELS_ANTHROPIC : NULL;
}

/* The provider of a bare name, where there is only one it can be. */
static const char *guess(const struct settings *s, const char *name)
{
    static const char *const openai[] = {"gpt-", "o1", "o3", "o4", "chatgpt-", "codex-"};
    if (strncmp(name, "claude", 6) == 0)
        return "anthropic";
    for (size_t i = 0; i < ARRAY_SIZE(openai); i++)
        if (strncmp(name, openai[i], strlen(openai[i])) == 0)
            return "openai";
    return !settings_has_key(s, "anthropic") && settings_has_base_url(s, "openai") ? "openai"
                                                                                   : NULL;
}

static int say_unknown(const struct settings *s, const char *given, struct error *err)
{
    char more[256] = "";
    const char *name;
    json_t *entry;
    size_t used = 0;
    json_object_foreach((json_t *)settings_member(s, "providers"), name, entry)
    {
        if (used + strlen(name) + 3 < sizeof more)
            used += (size_t)snprintf(more + used, sizeof more - used, ", %s", name);
    }
    return error_set(
        err, EINVAL,
        "--model '%.200s': write PROVIDER/NAME; providers are anthropic, openai, replay%s (more in"
        " ~/.config/hutch/config.json)",
        given, more);
}

static int split(struct settings *s, const char *given, struct model_spec *spec, struct error *err)
{
    const char *slash = strchr(given, '/');
    if (strlen(given) > NAME_MAX_BYTES)
        return error_set(err, EINVAL, "the model's name is longer than %d bytes", NAME_MAX_BYTES);
    if (slash && slash != given && slash[1]) {
        spec->provider = settings_keep(s, strndup(given, (size_t)(slash - given)));
        spec->name = settings_keep(s, strdup(slash + 1));
    } else if (!slash && guess(s, given)) {
        spec->provider = guess(s, given);
        spec->name = settings_keep(s, strdup(given));
    } else {
        say_unknown(s, given, err);
        return -EINVAL;
    }
    return spec->provider && spec->name ? 0
                                        : error_set(err, EINVAL, "the model's name is no UTF-8");
}

/* How fast a recording is played: 1 is as it was recorded. At once, unless somebody wants to watch.
 */
static double replay_pace(void)
{
    const char *text = getenv("HUTCH_REPLAY_PACE");
    char *end = NULL;
    double pace = text ? strtod(text, &end) : 0;
    return text && end != text && *end == 0 && pace > 0 && pace <= PACE_MAX ? pace : 0;
}

static bool is_openai(const char *url)
{
    static const char own[] = "https://api.openai.com";
    return !url || (strncmp(url, own, sizeof own - 1) == 0 && strchr("/:", url[sizeof own - 1]));
}

static int choose_api(const struct provider_settings *p, struct model_spec *spec, struct error *err)
{
    static const char *const names[] = {"anthropic", "chat", "responses"};
    if (p->api_variable && strcmp(p->api, "chat") != 0 && strcmp(p->api, "responses") != 0)
        return error_set(err, EINVAL, "%s=%.40s: use chat or responses", p->api_variable, p->api);
    spec->api = strcmp(spec->provider, "anthropic") == 0 ? MODEL_ANTHROPIC
                : strcmp(spec->provider, "openai") == 0 && is_openai(spec->base_url)
                    ? MODEL_RESPONSES
                    : MODEL_CHAT;
    for (size_t i = 0; p->api && i < ARRAY_SIZE(names); i++)
        if (strcmp(p->api, names[i]) == 0)
            spec->api = (enum model_api)i;
    return 0;
}

int settings_model(struct settings *s, const char *given, struct model_spec *ret, struct error *err)
{
    struct model_spec spec = {.retries = -1};
    struct provider_settings p;
    if (!given || !given[0])
        given = configured(s);
    if (!given)
        given = by_key(s);
    if (!given)
        return no_key(NULL, err);
    int r = split(s, given, &spec, err);
    if (r < 0)
        return r;
    if (strcmp(spec.provider, "replay") == 0) {
        spec.api = MODEL_REPLAY;
        spec.pace = replay_pace();
        *ret = spec;
        return 0;
    }
    r = settings_provider(s, spec.provider, &p, err);
    if (r == -ENODATA)
        return say_unknown(s, given, err);
    if (r == -ENOKEY)
        return no_key(spec.provider, err);
    if (r < 0)
        return r;
    spec.base_url = p.base_url;
    spec.key = p.key;
    spec.headers = p.headers;
    spec.extra = p.extra;
    spec.idle_ms = p.idle_ms;
    spec.retries = p.retries;
    r = choose_api(&p, &spec, err);
    if (r == 0)
        *ret = spec;
    return r;
}

/* The member of "models" that fits best: the whole name, else the longest beginning that ends with
 * a `*`. */
static const json_t *best_row(const json_t *table, const char *full)
{
    const char *name;
    json_t *row;
    const json_t *best = json_object_get(table, full);
    size_t length = 0;
    if (best)
        return best;
    json_object_foreach((json_t *)table, name, row)
    {
        size_t n = strlen(name);
        if (n > length && name[n - 1] == '*' && strncmp(name, full, n - 1) == 0) {
            best = row;
            length = n;
        }
    }
    return best;
}

static void set_number(const json_t *row, const char *name, double *value)
{
    const json_t *found = json_object_get(row, name);
    if (found)
        *value = json_number_value(found);
}

static void set_count(const json_t *row, const char *name, uint64_t *value)
{
    const json_t *found = json_object_get(row, name);
    if (found)
        *value = (uint64_t)json_number_value(found);
}

/* A price of the person's own is a whole one: what it leaves out of caches follows from it. */
static void take_row(const json_t *row, bool anthropic, struct model_facts *f)
{
    set_count(row, "window", &f->window);
    set_count(row, "max_output", &f->max_output);
    if (json_object_get(row, "input")) {
        double input = json_number_value(json_object_get(row, "input"));
        f->price = (struct model_price){.input = input,
                                        .output = f->price.output,
                                        .cache_read = anthropic ? 0.1 * input : input,
                                        .cache_write = anthropic ? 1.25 * input : input,
                                        .long_input = 1,
                                        .long_output = 1};
    }
    set_number(row, "output", &f->price.output);
    set_number(row, "cache_read", &f->price.cache_read);
    set_number(row, "cache_write", &f->price.cache_write);
}

/* Somebody else's copy of a well-known model ("anthropic/claude-…" of a gateway): its size is
 * known, its price is that provider's own. */
static void by_name(const char *name, struct model_facts *f)
{
    const char *last = strrchr(name, '/');
    last = last ? last + 1 : name;
    models_find(strncmp(last, "claude", 6) == 0 ? "anthropic" : "openai", last, f);
    f->price = (struct model_price){-1, -1, -1, -1, 0, 1, 1};
}

void settings_facts(const struct settings *s, const struct model_spec *spec,
                    struct model_facts *ret)
{
    char full[1024];
    struct model_facts f;
    bool known = models_find(spec->provider, spec->name, &f);
    if (!known && strcmp(spec->provider, "replay") != 0)
        by_name(spec->name, &f);
    snprintf(full, sizeof full, "%s/%s", spec->provider, spec->name);
    const json_t *row = best_row(settings_member(s, "models"), full);
    if (row)
        take_row(row, spec->api == MODEL_ANTHROPIC, &f);
    if (f.max_output > f.window / 2)
        f.max_output = f.window / 2;
    *ret = f;
}

double price_of(const struct model_price *p, const struct model_usage *u)
{
    uint64_t cached = u->cache_read + u->cache_write;
    uint64_t fresh = u->input > cached ? u->input - cached : 0;
    bool is_long = p->long_above > 0 && u->input > p->long_above;
    if (!u->known || p->input < 0 || p->output < 0)
        return -1;
    double read = p->cache_read < 0 ? p->input : p->cache_read;
    double write = p->cache_write < 0 ? p->input : p->cache_write;
    double in =
        (double)fresh * p->input + (double)u->cache_read * read + (double)u->cache_write * write;
    double out = (double)u->output * p->output;
    return (in * (is_long ? p->long_input : 1) + out * (is_long ? p->long_output : 1)) / 1e6;
}
