/*
 * JSON Schema: is a value what a schema allows, and if not, where does it differ?
 *
 * It checks the keywords that tools use: type, enum, const, properties, required,
 * additionalProperties, propertyNames, dependentRequired, min/maxProperties, items, min/maxItems,
 * min/maxLength, pattern, minimum, maximum (also exclusive), allOf, anyOf, oneOf, and $ref within
 * the document. All others (not, if, contains, multipleOf, uniqueItems, format, …) are ignored, and
 * so is a keyword that could then refuse a valid value: oneOf is checked as anyOf, and
 * additionalProperties only without patternProperties. An MCP server checks its tool's input again,
 * but a call that is refused here never reaches it. A schema may come from an untrusted server: its
 * depth and the work for it are bounded.
 */
#pragma once

#include <jansson.h>

#include "error.h"

/* A schema reads as JSON in the source: SCHEMA({"type": "object", …}). */
#define SCHEMA(...) #__VA_ARGS__

/* 0; or -EINVAL with a text that begins with the path of the offending field (`edits[0].path: …`),
 * in which `what` names the value itself. -ELOOP if the schema is too deep or too much work. */
int schema_check(const json_t *schema, const json_t *value, const char *what, struct error *err);

/* The schema of a foreign tool (a manifest, an MCP server) as text, a new string. -EINVAL, with
 * `what` in front of the text, if it is not the schema of an object, too deep or too long. */
int schema_take_foreign(const json_t *schema, const char *what, char **ret, struct error *err);

/* schema_check with a schema that is text. */
int schema_check_text(const char *schema, const json_t *value, const char *what, struct error *err);
