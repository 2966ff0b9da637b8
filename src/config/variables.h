/* The variables that hutch reads, from the environment and from .env. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

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
