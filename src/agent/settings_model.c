/* Which model is meant: of the command line, HUTCH_MODEL, MODEL, the configuration, or what there
 * is a key for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "settings_private.h"
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
    if (settings_has_key(s, "openai") || settings_has_address(s, "openai"))
        return "openai/" MODELS_OPENAI;
    return settings_has_address(s, "anthropic") ? "anthropic/" MODELS_ANTHROPIC : NULL;
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
    return !settings_has_key(s, "anthropic") && settings_has_address(s, "openai") ? "openai" : NULL;
}

static int say_unknown(const struct settings *s, const char *given, struct error *err)
{
    char more[256] = "";
    const char *name;
    json_t *entry;
    size_t used = 0;
    json_object_foreach(json_object_get(s->config.own, "providers"), name, entry)
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

int settings_model(struct settings *s, const char *given, struct model_spec *ret, struct error *err)
{
    struct model_spec spec = {.retries = -1};
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
    } else {
        r = settings_reach(s, spec.provider, &spec, err);
        if (r == -ENOENT && !settings_knows_provider(s, spec.provider, strlen(spec.provider)))
            return say_unknown(s, given, err);
        if (r == -ENOKEY)
            return no_key(spec.provider, err);
        if (r < 0)
            return r;
    }
    *ret = spec;
    return 0;
}
