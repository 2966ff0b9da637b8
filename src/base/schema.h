/*
 * JSON Schema: is a value what a schema allows, and if not, where does it differ?
 *
 * What of the 2020-12 vocabulary constrains values is understood: type, enum, const, properties,
 * required, additionalProperties, patternProperties, propertyNames, dependentRequired,
 * min/maxProperties, items, prefixItems, contains, min/maxItems, uniqueItems, min/maxLength,
 * pattern, minimum, maximum (also exclusive), multipleOf, allOf, anyOf, oneOf, not, if/then/else,
 * $ref within the document. Annotations (title, default, format…) constrain nothing. A schema may
 * come from a stranger's server: its depth and the work for it are bounded.
 */
#pragma once

#include <jansson.h>

#include "error.h"

/* A schema reads as JSON in the source: SCHEMA({"type": "object", …}). */
#define SCHEMA(...) #__VA_ARGS__

/* 0; or -EINVAL with a text that begins with the path of the offending field (`edits[0].path: …`);
 * `what` is what the value itself is called there. -ELOOP if the schema is deeper or more work than
 * is allowed. */
int schema_check(const json_t *schema, const json_t *value, const char *what, struct error *err);
