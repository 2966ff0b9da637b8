/* Small additions to jansson. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "text.h"

#define _cleanup_json_ _cleanup_(json_decrefp)

/* A member of an object; the fallback, NULL, 0 or false if it is absent or of another type, or if
 * `object` is not an object. */
const char *json_get_string(const json_t *object, const char *key);
const char *json_get_string_or(const json_t *object, const char *key, const char *fallback);
json_int_t json_get_integer(const json_t *object, const char *key);
bool json_get_bool(const json_t *object, const char *key);

/* Appends a value as text. `flags` are jansson's, e.g. JSON_COMPACT. */
int json_append(struct buf *b, const json_t *value, size_t flags);

/* The number of values in a JSON text, counted up to `max` + 1. To be checked before parsing,
 * because a short text can hold very many values. Exact for valid JSON. */
size_t json_count_values(const char *text, size_t n, size_t max);
