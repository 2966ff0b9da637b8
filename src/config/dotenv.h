/*
 * .env files: NAME=value by line, as the many readers of them agree. Comments, `export`, single
 * quotes (as they are) and double quotes (with \n, \t, \" and the like); a quoted value may go over
 * several lines. Nothing is executed and nothing is expanded: a `$` is a dollar sign.
 *
 * Pure; the input is untrusted. Each name and value goes to the sink as it is found; a broken line
 * is reported with its number and skipped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define DOTENV_MAX       (64u << 10) /* bytes of a file */
#define DOTENV_NAME_MAX  128
#define DOTENV_VALUE_MAX (16u << 10)

struct dotenv_sink {
    void (*value)(void *data, const char *name, const char *value);
    void (*broken)(void *data, unsigned line, const char *why); /* or NULL */
    void *data;
};

/* 0, or -ENOMEM. */
int dotenv_parse(const char *text, size_t n, const struct dotenv_sink *sink);

/* The variables that hutch reads, from the environment and from .env. */
enum variable {
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

struct variable_row {
    const char *name; /* NULL: a provider that has no such variable */
    bool needs_trust; /* in a .env it counts only if the folder is trusted */
    bool is_secret;
    const char *key; /* of a base URL: the variable of the key that is sent there; the row before */
};
extern const struct variable_row VARIABLES[VAR_COUNT];
