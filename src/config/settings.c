/*
 * Settings: the environment over .env of the current folder, and .hutch/config.json of the
 * workspace over the person's own configuration.
 *
 * The environment and the person's own configuration count. A .env and a workspace's configuration
 * may have come with a clone: what needs trust in them (trust_items.c) counts only if their folder
 * is trusted, and is reported and dropped otherwise. Without trust, such a file can only lower
 * limits, and SAFEDIR of a .env cannot lead out of its folder: a stranger would choose which folder
 * an agent works on.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "dotenv.h"
#include "io.h"
#include "json.h"
#include "settings.h"
#include "thread.h"
#include "banned.h"

#define BROKEN_SHOWN       3   /* lines of a .env; the rest is counted */
#define IGNORED_NAMES_MAX  500 /* bytes of a note; the rest is counted */
#define SUMMARY_PROMPT_MAX (64u << 10)

#define URL_MAX 2048
#define KEY_MAX 8192

struct settings {
    struct config config;
    bool trust_run;          /* --trust: all folders are trusted for this run */
    struct trust here, work; /* the folder of .env; the workspace. `folder` NULL: there is none */
    json_t *workspace;       /* what of the workspace's file counts: an object; or NULL */
    bool dotenv_trusted;
    char *dotenv[VAR_COUNT]; /* what counts of it */
    char *safedir;           /* absolute; NULL: not set */
    json_t *notes;
    pthread_mutex_t lock; /* guards `kept`: agents that were forked share their settings */
    json_t *kept;         /* strings that callers borrow: expanded keys and the like */
};

struct dotenv_reading {
    struct settings *s;
    unsigned broken;
};

static const char *settings_environment(enum variable v)
{
    const char *name = VARIABLES[v].name, *value = name ? getenv(name) : NULL;
    return value && value[0] ? value : NULL;
}

static const char *settings_dotenv(const struct settings *s, enum variable v)
{
    return s->dotenv[v] && s->dotenv[v][0] ? s->dotenv[v] : NULL;
}

static const char *settings_variable(const struct settings *s, enum variable v)
{
    const char *value = settings_environment(v);
    return value ? value : settings_dotenv(s, v);
}

static PRINTF(2, 3) void settings_note(struct settings *s, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n >= 0)
        json_array_append_new(s->notes, json_string(text));
    free(n >= 0 ? text : NULL);
}

const char *settings_keep(struct settings *s, char *text)
{
    json_t *kept = text ? json_string(text) : NULL;
    free(text);
    LOCKED(&s->lock);
    return kept && json_array_append_new(s->kept, kept) == 0 ? json_string_value(kept) : NULL;
}

static void dotenv_value(void *data, const char *name, const char *value)
{
    struct dotenv_reading *r = data;
    for (size_t i = 0; i < VAR_COUNT; i++) {
        const struct variable_row *v = &VARIABLES[i];
        if (!v->name || strcmp(v->name, name) != 0 || (v->needs_trust && !r->s->dotenv_trusted))
            continue;
        free(r->s->dotenv[i]);
        r->s->dotenv[i] = strdup(value);
    }
}

static void dotenv_broken(void *data, unsigned line, const char *why)
{
    struct dotenv_reading *r = data;
    if (++r->broken <= BROKEN_SHOWN)
        settings_note(r->s, "%s/.env: ignored line %u: %s", r->s->here.folder, line, why);
}

static int settings_read_dotenv(struct settings *s, const char *folder, struct error *err)
{
    struct dotenv_reading reading = {.s = s};
    struct dotenv_sink sink = {dotenv_value, dotenv_broken, &reading};
    const struct trust_file *f = &s->here.files[TRUST_DOTENV];
    if (trust_read(folder, &s->here, NULL) < 0)
        return 0; /* the folder is gone, and its .env with it */
    s->dotenv_trusted = s->trust_run || s->here.state == TRUST_YES;
    if (f->unreadable.code && f->unreadable.code != EISDIR)
        settings_note(s, "%s", f->unreadable.text);
    int r = dotenv_parse(f->text.len ? (const char *)f->text.data : "", f->text.len, &sink);
    if (reading.broken > BROKEN_SHOWN)
        settings_note(s, "%s/.env: ignored %u more lines", s->here.folder,
                      reading.broken - BROKEN_SHOWN);
    return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

/* Checks the variables that need it. */
static int settings_check_variables(struct settings *s, const char *folder, struct error *err)
{
    const char *sandbox = settings_variable(s, VAR_USE_SANDBOX);
    const char *tokens = settings_variable(s, VAR_MAX_TOKENS);
    const char *value = settings_variable(s, VAR_SAFEDIR);
    bool own = settings_environment(VAR_SAFEDIR) != NULL;
    _cleanup_free_ char *joined = NULL;
    char *end = NULL;
    if (sandbox && strcmp(sandbox, "true") != 0)
        return error_set(
            err, EPERM,
            "USE_SANDBOX=%.40s is refused: hutch runs everything in a box. Unset it, or "
            "set it to true; `hutch doctor` shows what a box needs",
            sandbox);
    errno = 0;
    if (tokens && (strtoll(tokens, &end, 10) <= 0 || errno || *end))
        return error_set(err, EINVAL, "MAX_TOKENS=%.40s is not a number of tokens", tokens);
    if (!value)
        return 0;
    if (value[0] != '/')
        joined = str_printf("%s/%s", folder && !own ? folder : ".", value);
    s->safedir = realpath(joined ? joined : value, NULL);
    if (!s->safedir)
        return error_errno(err, errno, "SAFEDIR=%.200s (the workspace)", value);
    if (own || s->dotenv_trusted)
        return 0;
    size_t n = strlen(s->here.folder);
    const char *rest = s->safedir + n;
    if (strncmp(s->safedir, s->here.folder, n) == 0 && (*rest == 0 || *rest == '/' || n == 1))
        return 0;
    return error_set(
        err, EPERM,
        "%s/.env: SAFEDIR=%.200s is outside of the .env's folder, and the folder is not"
        " trusted; use -w %.200s, set SAFEDIR in the environment, or run `hutch trust %.200s`",
        s->here.folder, value, s->safedir, s->here.folder);
}

/* Of a workspace that is not trusted, limits count if they are lower than the person's: nothing
 * that sends data elsewhere, costs more, or runs a program. A folder that cannot be read has no
 * configuration; making a box of it reports that. */
static int settings_load_workspace(struct settings *s, const char *folder, struct error *err)
{
    static const char *const limits[] = {"max_cost", "max_turns", "max_tokens"};
    if (s->config.trusted) /* callers borrow from it */
        json_array_append(s->kept, s->config.trusted);
    trust_free(&s->work);
    json_decref(s->workspace);
    s->workspace = NULL;
    trust_read(folder, &s->work, NULL);
    int r = config_add_workspace(&s->config, &s->work, s->trust_run, err);
    if (r < 0)
        return r;
    if (s->config.trusted) {
        s->workspace = json_incref(s->config.trusted);
        return 0;
    }
    s->workspace = s->config.untrusted ? json_object() : NULL;
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        json_t *limit = json_object_get(s->config.untrusted, limits[i]);
        const json_t *own = json_object_get(s->config.own, limits[i]);
        if (limit && (!own || json_number_value(limit) < json_number_value(own)))
            json_object_set(s->workspace, limits[i], limit);
    }
    return 0;
}

static bool settings_has_one_folder(const struct settings *s)
{
    return s->here.folder && s->work.folder && strcmp(s->here.folder, s->work.folder) == 0;
}

json_t *settings_ignored(const struct settings *s, const struct trust *t)
{
    size_t i;
    json_t *item, *ignored = json_array();
    struct error trouble = {0}; /* has a note of its own */
    _cleanup_json_ json_t *items = trust_items(t, &trouble);
    bool is_workspace = t == &s->work || settings_has_one_folder(s);
    json_array_foreach(items, i, item)
    {
        bool is_dotenv = strcmp(json_get_string(item, "file"), trust_file_path(TRUST_DOTENV)) == 0;
        if (is_dotenv ? t == &s->here && !s->dotenv_trusted : is_workspace && s->config.untrusted)
            json_array_append(ignored, item);
    }
    return ignored;
}

/* One line about a folder: what is ignored in which of its files, why, and what to do. */
static void settings_note_ignored(struct settings *s, const struct trust *t)
{
    _cleanup_buf_ struct buf names = BUF_INIT(8u << 10);
    _cleanup_json_ json_t *items = settings_ignored(s, t);
    json_t *item;
    size_t i;
    for (size_t f = 0; f < TRUST_FILES; f++) {
        const char *file = trust_file_path((enum trust_file_name)f);
        size_t count = 0, left_out = 0, begin = names.len;
        json_array_foreach(items, i, item)
        {
            const char *name = json_get_string(item, "name");
            if (strcmp(json_get_string(item, "file"), file) != 0)
                continue;
            if (names.len - begin + strlen(name) > IGNORED_NAMES_MAX)
                left_out++;
            else
                buf_printf(&names, "%s%s", count ? ", " : begin ? "; " : "", name);
            count++;
        }
        if (left_out)
            buf_printf(&names, " and %zu more", left_out);
        if (count)
            buf_printf(&names, " in %s", file);
    }
    if (names.len && buf_cstr(&names))
        settings_note(
            s,
            "ignored %s: the folder %s %s; use them with `hutch trust %s`, or for one run "
            "with --trust",
            names.data, t->folder,
            t->state == TRUST_CHANGED ? "has changed since you decided about it" : "is not trusted",
            t->folder);
}

int settings_read(const char *folder, const char *workspace, bool trust, struct settings **ret,
                  struct error *err)
{
    struct settings *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "out of memory");
    s->trust_run = trust;
    s->notes = json_array();
    s->kept = json_array();
    pthread_mutex_init(&s->lock, NULL);
    int r = s->notes && s->kept ? config_read(&s->config, err)
                                : error_set(err, ENOMEM, "out of memory");
    if (r == 0 && folder)
        r = settings_read_dotenv(s, folder, err);
    if (r == 0)
        r = settings_check_variables(s, folder, err);
    const char *at = workspace ? workspace : s->safedir ? s->safedir : folder;
    if (r == 0 && at)
        r = settings_load_workspace(s, at, err);
    if (r < 0) {
        settings_free(s);
        return r;
    }
    if (s->here.folder)
        settings_note_ignored(s, &s->here);
    if (s->config.untrusted && !settings_has_one_folder(s))
        settings_note_ignored(s, &s->work);
    if (s->config.trouble.code)
        settings_note(s, "%s", s->config.trouble.text);
    *ret = s;
    return 0;
}

struct settings *settings_free(struct settings *s)
{
    if (!s)
        return NULL;
    config_free(&s->config);
    json_decref(s->workspace);
    json_decref(s->notes);
    json_decref(s->kept);
    pthread_mutex_destroy(&s->lock);
    for (size_t i = 0; i < VAR_COUNT; i++)
        free(s->dotenv[i]);
    trust_free(&s->here);
    trust_free(&s->work);
    free(s->safedir);
    free(s);
    return NULL;
}

int settings_set_workspace(struct settings *s, const char *folder, struct error *err)
{
    _cleanup_free_ char *path = realpath(folder, NULL);
    if (s->work.folder && path && strcmp(s->work.folder, path) == 0)
        return 0;
    int r = settings_load_workspace(s, folder, err);
    if (r < 0)
        return r;
    /* The folder of .env may be the new workspace, whose configuration was not looked at before. */
    if (s->config.untrusted)
        settings_note_ignored(s, &s->work);
    if (s->config.trouble.code)
        settings_note(s, "%s", s->config.trouble.text);
    return 1;
}

size_t settings_untrusted(const struct settings *s, const struct trust *ret[2])
{
    size_t n = 0;
    const struct trust *folders[] = {s->here.folder ? &s->here : NULL,
                                     s->work.folder && !settings_has_one_folder(s) ? &s->work
                                                                                   : NULL};
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        json_t *items = folders[i] ? settings_ignored(s, folders[i]) : NULL;
        if (json_array_size(items) > 0)
            ret[n++] = folders[i];
        json_decref(items);
    }
    return n;
}

int settings_config(const struct settings *s, struct config *ret, struct error *err)
{
    const struct config *c = &s->config;
    struct config copy = {.file = c->file ? strdup(c->file) : NULL,
                          .workspace = c->workspace ? strdup(c->workspace) : NULL,
                          .own = json_incref(c->own),
                          .trusted = json_incref(c->trusted),
                          .untrusted = json_incref(c->untrusted),
                          .trouble = c->trouble,
                          .reported = true};
    if ((c->file && !copy.file) || (c->workspace && !copy.workspace)) {
        config_free(&copy);
        return error_set(err, ENOMEM, "out of memory");
    }
    *ret = copy;
    return 0;
}

const json_t *settings_notes(const struct settings *s)
{
    return s->notes;
}

const char *settings_get(const struct settings *s, const char *name)
{
    for (size_t i = 0; i < VAR_COUNT; i++)
        if (VARIABLES[i].name && strcmp(VARIABLES[i].name, name) == 0)
            return i == VAR_SAFEDIR ? s->safedir : settings_variable(s, (enum variable)i);
    return NULL;
}

/* Without trust, a .env may ask for less than the person's configuration allows, not for more. */
uint64_t settings_max_tokens(const struct settings *s)
{
    bool own = settings_environment(VAR_MAX_TOKENS) != NULL;
    const char *value = settings_variable(s, VAR_MAX_TOKENS);
    uint64_t limit = (uint64_t)json_number_value(settings_member(s, "max_tokens"));
    uint64_t asked = value ? strtoull(value, NULL, 10) : 0;
    if (asked && (own || s->dotenv_trusted || limit == 0 || asked < limit))
        return asked;
    return limit;
}

const json_t *settings_member(const struct settings *s, const char *name)
{
    const json_t *found = json_object_get(s->workspace, name);
    return found ? found : json_object_get(s->config.own, name);
}

int settings_summary_prompt(const struct settings *s, char **ret, struct error *err)
{
    struct error why = {0};
    const char *named = json_get_string(s->config.own, "summary_prompt");
    _cleanup_free_ char *usual = named ? NULL : ownfile_config_path("summary.md");
    _cleanup_buf_ struct buf text = BUF_INIT(SUMMARY_PROMPT_MAX + 1);
    const char *path = named ? named : usual;
    int r = path ? ownfile_read(path, &text, &why) : -ENOENT;
    if (!named && (r == -ENOENT || r == -ENOTDIR)) {
        *ret = NULL;
        return 0;
    }
    if (r < 0) {
        if (err)
            *err = why;
        return r;
    }
    char *made = buf_cstr(&text);
    if (!made)
        return error_set(err, EFBIG, "%s is larger than %u bytes", path, SUMMARY_PROMPT_MAX);
    text = BUF_INIT(0);
    *ret = made;
    return 0;
}

/*
 * Credentials: where a provider is reached and with which key. A base URL goes with the key beside
 * it, if there is one:
 *
 *   - environment: its URL goes with any key;
 *   - a trusted .env: its URL goes with its own key, else with the environment's; nothing of the
 *     configuration's entry is sent along;
 *   - a trusted workspace: its entry stands alone, with URL, key and headers;
 *   - own configuration: fills what the others leave open.
 *
 * What is not trusted never gets here: it was dropped when it was read.
 */

static const struct provider_variables {
    const char *name;
    enum variable key, url, api;
} PROVIDER_VARIABLES[] = {
#define PROVIDER(row, name, api, key, url, api_name)                                               \
    {(key) ? (name) : "", VAR_##row##_KEY, VAR_##row##_URL, VAR_##row##_API},
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
    pthread_mutex_lock(&s->lock);
    bool kept = made && json_array_append_new(s->kept, made) == 0;
    pthread_mutex_unlock(&s->lock);
    if (!kept)
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
    const char *url = json_get_string(entry, "base_url");
    const char *key = json_get_string(entry, "key");
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
    p->api = json_get_string(entry, "api");
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
        v && url && (url == settings_environment(v->url)) ? VARIABLES[v->url].name : NULL;
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
        bool dotenv = settings_dotenv(s, v->url) && !settings_environment(v->url);
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
    const char *api = v && VARIABLES[v->api].name ? settings_get(s, VARIABLES[v->api].name) : NULL;
    if (api)
        p.api = api;
    p.api_variable = api ? VARIABLES[v->api].name : NULL;
    if (!p.key && !p.base_url)
        return -ENOKEY;
    *ret = p;
    return 0;
}
