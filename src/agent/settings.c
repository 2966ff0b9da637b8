/*
 * Reading what an agent is set up with. The environment and the person's own configuration count. A
 * .env and a workspace's configuration may have come with a clone: what needs trust in them
 * (trust_items.c) counts only if their folder is trusted, and is reported and forgotten otherwise.
 * SAFEDIR of a .env cannot lead out of its folder unless that is trusted, or a stranger would
 * decide which folder an agent works on.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "dotenv.h"
#include "ownfile.h"
#include "settings_private.h"
#include "banned.h"

static const char *const NAMES[] = {
#define X(name) #name,
    SETTINGS_VARIABLES
#undef X
};

#define BROKEN_TOLD 3 /* lines of a .env; the rest is counted */

struct dotenv_reading {
    struct settings *s;
    unsigned broken;
};

const char *settings_environment(enum settings_variable v)
{
    const char *value = getenv(NAMES[v]);
    return value && value[0] ? value : NULL;
}

void settings_note(struct settings *s, const char *fmt, ...)
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
    return kept && json_array_append_new(s->kept, kept) == 0 ? json_string_value(kept) : NULL;
}

static void dotenv_take_value(void *data, const char *name, const char *value)
{
    struct dotenv_reading *r = data;
    for (size_t i = 0; i < VAR_COUNT; i++)
        if (strcmp(NAMES[i], name) == 0 && (r->s->dotenv_trusted || !trust_needed_for(name))) {
            free(r->s->dotenv[i]);
            r->s->dotenv[i] = strdup(value);
        }
}

static void dotenv_take_broken(void *data, unsigned line, const char *why)
{
    struct dotenv_reading *r = data;
    if (++r->broken <= BROKEN_TOLD)
        settings_note(r->s, "%s/.env: line %u is left out: %s", r->s->here.folder, line, why);
}

static int read_dotenv(struct settings *s, const char *folder, struct error *err)
{
    struct dotenv_reading reading = {.s = s};
    struct dotenv_sink sink = {dotenv_take_value, dotenv_take_broken, &reading};
    const struct trust_file *f = &s->here.files[TRUST_DOTENV];
    if (trust_read(folder, &s->here, NULL) < 0)
        return 0; /* the folder is gone, and its .env with it */
    s->dotenv_trusted = s->trust_run || s->here.state == TRUST_YES;
    if (f->unreadable.code && f->unreadable.code != EISDIR)
        settings_note(s, "%s", f->unreadable.text);
    int r = dotenv_parse(f->text.len ? (const char *)f->text.data : "", f->text.len, &sink);
    if (reading.broken > BROKEN_TOLD)
        settings_note(s, "%s/.env: %u more lines are left out", s->here.folder,
                      reading.broken - BROKEN_TOLD);
    return r < 0 ? error_set(err, -r, "no memory") : 0;
}

/* From the environment over .env, without a look at who may say it. */
static const char *either(const struct settings *s, enum settings_variable v)
{
    const char *value = settings_environment(v);
    if (!value)
        value = s->dotenv[v];
    return value && value[0] ? value : NULL;
}

static int check_sandbox(const struct settings *s, struct error *err)
{
    const char *value = either(s, VAR_USE_SANDBOX);
    if (!value || strcmp(value, "true") == 0)
        return 0;
    return error_set(
        err, EPERM,
        "USE_SANDBOX=%.40s is refused: hutch runs everything in a box, and there is no way without."
        " Unset it, or set it to true; `hutch doctor` says what a box needs",
        value);
}

static bool is_beneath(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == 0 || path[n] == '/' || n == 1);
}

static int read_safedir(struct settings *s, const char *folder, struct error *err)
{
    const char *value = either(s, VAR_SAFEDIR);
    bool own = settings_environment(VAR_SAFEDIR) != NULL;
    _cleanup_free_ char *joined = NULL;
    if (!value)
        return 0;
    if (value[0] != '/' && asprintf(&joined, "%s/%s", folder && !own ? folder : ".", value) < 0)
        return error_set(err, ENOMEM, "no memory");
    s->safedir = realpath(joined ? joined : value, NULL);
    if (!s->safedir)
        return error_errno(err, errno, "SAFEDIR=%.200s (the workspace)", value);
    if (own)
        return 0;
    if (s->dotenv_trusted || is_beneath(s->safedir, s->here.folder))
        return 0;
    return error_set(
        err, EPERM,
        "%s/.env: SAFEDIR=%.200s lies outside of the .env's folder, and the folder is not"
        " trusted; use -w %.200s, set SAFEDIR in the environment, or run `hutch trust %.200s`",
        s->here.folder, value, s->safedir, s->here.folder);
}

static int check_numbers(const struct settings *s, struct error *err)
{
    const char *value = either(s, VAR_MAX_TOKENS);
    char *end;
    if (!value)
        return 0;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (errno || *end || n <= 0)
        return error_set(err, EINVAL, "MAX_TOKENS=%.40s is no number of tokens", value);
    return 0;
}

static int read_all(struct settings *s, const char *folder, const char *workspace,
                    struct error *err)
{
    s->notes = json_array();
    s->kept = json_array();
    if (!s->notes || !s->kept)
        return error_set(err, ENOMEM, "no memory");
    int r = config_read(&s->config, err);
    if (r == 0 && folder)
        r = read_dotenv(s, folder, err);
    if (r == 0)
        r = check_sandbox(s, err);
    if (r == 0)
        r = read_safedir(s, folder, err);
    if (r == 0)
        r = check_numbers(s, err);
    if (r < 0)
        return r;
    const char *at = workspace ? workspace : s->safedir ? s->safedir : folder;
    r = at ? settings_load_workspace(s, at, err) : 0;
    if (r == 0)
        settings_report(s);
    return r;
}

int settings_read(const char *folder, const char *workspace, bool trust, struct settings **ret,
                  struct error *err)
{
    struct settings *s = calloc(1, sizeof *s);
    if (s)
        s->trust_run = trust;
    int r = s ? read_all(s, folder, workspace, err) : error_set(err, ENOMEM, "no memory");
    if (r < 0) {
        settings_free(s);
        return r;
    }
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
    for (size_t i = 0; i < VAR_COUNT; i++)
        free(s->dotenv[i]);
    trust_free(&s->here);
    trust_free(&s->work);
    free(s->safedir);
    free(s);
    return NULL;
}

const json_t *settings_notes(const struct settings *s)
{
    return s->notes;
}

const char *settings_get(const struct settings *s, const char *name)
{
    for (size_t i = 0; i < VAR_COUNT; i++)
        if (strcmp(NAMES[i], name) == 0)
            return i == VAR_SAFEDIR ? s->safedir : either(s, (enum settings_variable)i);
    return NULL;
}

/* Without trust, a .env may ask for less than the person's configuration allows, not for more. */
uint64_t settings_max_tokens(const struct settings *s)
{
    const char *own = settings_environment(VAR_MAX_TOKENS), *value = either(s, VAR_MAX_TOKENS);
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
    const char *named = json_string_value(json_object_get(s->config.own, "summary_prompt"));
    _cleanup_free_ char *usual = named ? NULL : ownfile_config_path("summary.md");
    _cleanup_buf_ struct buf text = BUF_INIT((64u << 10) + 1);
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
        return error_set(err, EFBIG, "%s is too long", path);
    text = BUF_INIT(0);
    *ret = made;
    return 0;
}
