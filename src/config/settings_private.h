/* The settings' inside: what settings.c, settings_provider.c and trust_items.c share. */
#pragma once

#include "config.h"
#include "settings.h"

enum settings_variable {
#define PROVIDER(row, name, api, key, url, api_name)                                               \
    VAR_##row##_KEY, VAR_##row##_URL, VAR_##row##_API,
#include "providers.def"
#undef PROVIDER
    VAR_HUTCH_MODEL,
    VAR_MODEL,
    VAR_MAX_TOKENS,
    VAR_SAFEDIR,
    VAR_USE_SANDBOX,
    VAR_COUNT
};

/* The variables that hutch reads, from the environment and from .env. */
struct settings_variable_row {
    const char *name; /* NULL: a provider that has no such variable */
    bool needs_trust; /* in a .env it counts only if the folder is trusted */
    bool is_secret;
    const char *key; /* of a base URL: the variable of the key that is sent there; the row before */
};
extern const struct settings_variable_row SETTINGS_VARIABLES[VAR_COUNT];

struct settings {
    struct config config;
    bool trust_run;          /* --trust: all folders are trusted for this run */
    struct trust here, work; /* the folder of .env; the workspace. `folder` NULL: there is none */
    json_t *workspace;       /* what of the workspace's file counts: an object; or NULL */
    bool dotenv_trusted;
    char *dotenv[VAR_COUNT]; /* what counts of it */
    char *safedir;           /* absolute; NULL: not set */
    json_t *notes;
    json_t *kept; /* strings that callers borrow: expanded keys and the like */
};

/* From the environment, or what counts of .env; NULL: not set or empty. */
const char *settings_environment(enum settings_variable v);
const char *settings_dotenv(const struct settings *s, enum settings_variable v);
