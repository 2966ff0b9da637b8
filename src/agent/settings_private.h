/* What the settings are made of. */
#pragma once

#include "config.h"
#include "settings.h"

/* The variables that are looked at; the order is that of `dotenv`. */
#define SETTINGS_VARIABLES                                                                         \
    X(ANTHROPIC_API_KEY)                                                                           \
    X(ANTHROPIC_BASE_URL)                                                                          \
    X(OPENAI_API_KEY)                                                                              \
    X(OPENAI_BASE_URL)                                                                             \
    X(OPENAI_API)                                                                                  \
    X(HUTCH_MODEL)                                                                                 \
    X(MODEL)                                                                                       \
    X(MAX_TOKENS)                                                                                  \
    X(SAFEDIR)                                                                                     \
    X(USE_SANDBOX)

enum settings_variable {
#define X(name) VAR_##name,
    SETTINGS_VARIABLES
#undef X
        VAR_COUNT
};

struct settings {
    struct config config;
    bool trust_run; /* --trust: all folders are trusted for this run */
    struct trust here,
        work;          /* the folder of .env; the workspace. `folder` is NULL: there is none */
    json_t *workspace; /* what of the workspace's file counts: an object; or NULL */
    bool dotenv_trusted;
    char *dotenv[VAR_COUNT]; /* what counts of it */
    char *safedir;           /* absolute; NULL: not set */
    json_t *notes;
    json_t *kept; /* strings that specs borrow: expanded keys and the like */
};

/* From the environment; NULL: not set or empty. */
const char *settings_environment(enum settings_variable v);

void settings_note(struct settings *s, const char *fmt, ...) PRINTF(2, 3);

/* Keeps a string as long as the settings live; NULL without memory. Takes it over. */
const char *settings_keep(struct settings *s, char *text);

/* A provider of the configuration: the workspace's if that is trusted, else the person's own; or
 * NULL. */
const json_t *settings_provider(const struct settings *s, const char *name, bool *ret_workspace);

/* Reads the configuration of a workspace. A folder that cannot be read is none. */
int settings_load_workspace(struct settings *s, const char *folder, struct error *err);

/* Notes what is ignored in the files of both folders, and what is wrong in them. */
void settings_report(struct settings *s);

/* Is it one that is built in, or of the configuration? */
bool settings_knows_provider(const struct settings *s, const char *name, size_t n);

/* Where requests to a provider go and with what: fills api, base_url, key, headers, extra. -ENOENT:
 * there is no such provider; -ENOKEY: neither key nor address. */
int settings_reach(struct settings *s, const char *provider, struct model_spec *spec,
                   struct error *err);

/* Would settings_reach() have a key, or else an address, for this built-in one? */
bool settings_has_key(const struct settings *s, const char *provider);
bool settings_has_address(const struct settings *s, const char *provider);
