/* The texts of a YAML document's top level, by name; what lies deeper is passed over. libyaml reads
 * it. */
#pragma once

#include <stddef.h>

#include "error.h"

struct yaml_sink {
    void (*value)(void *data, const char *name, const char *value);
    void (*deeper)(void *data, const char *name,
                   const char *inner); /* a name beneath a name; or NULL */
    void *data;
};

int yaml_scan(const char *text, size_t n, const struct yaml_sink *sink, struct error *err);
