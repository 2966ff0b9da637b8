/*
 * The values of a TOML file that are texts, numbers or yes and no, each with its whole name:
 *
 *     [verifier]
 *     timeout_sec = 120.0      →  "verifier.timeout_sec", "120.0"
 *
 * Lists are passed over, but not what is wrong in them: brackets and quotes must match. The tables
 * of a list are told apart from others by "[]" behind the name ("steps[].name"). A text that is
 * very long is cut.
 */
#pragma once

#include <stddef.h>

#include "error.h"

#define TOML_NAME_MAX  512
#define TOML_VALUE_MAX 4096
#define TOML_DEPTH_MAX 32

struct toml_sink {
    void (*value)(void *data, const char *name, const char *value);
    void (*table)(void *data, const char *name); /* or NULL */
    void *data;
};

/* -EINVAL with the line and what is wrong there. */
int toml_scan(const char *text, size_t n, const struct toml_sink *sink, struct error *err);
