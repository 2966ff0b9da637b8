/* The format of config.json, as docs/configuration.md describes it. */
#pragma once

#include <jansson.h>

#include "error.h"

#define CONFIG_MAX            (1u << 20)
#define CONFIG_WORKSPACE_FILE ".hutch/config.json"

/* Parses a configuration and checks it against the schema. `file` is for the message. */
int config_parse(const char *file, const void *text, size_t n, json_t **ret, struct error *err);

/* Replaces ${NAME} and ${NAME:-default} by the environment's values; a new string. `where` is the
 * setting's name for the message. */
int config_expand(const char *value, const char *where, char **ret, struct error *err);
