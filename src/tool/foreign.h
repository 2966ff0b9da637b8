/* What strangers say about their tools (a manifest in a clone, an MCP server), made fit to be shown
 * to people and models. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"

#define FOREIGN_SCHEMA_MAX   (256u << 10)
#define FOREIGN_SCHEMA_DEPTH 48
#define FOREIGN_SUMMARY_MAX  (16u << 10)
#define FOREIGN_TITLE_MAX    200u

/* A new string: valid UTF-8 without control characters (but newline and tab), nor such as turn the
 * direction of writing or are never seen; cut to at most `max` bytes and a mark. NULL without
 * memory. */
char *foreign_text(const char *text, size_t n, size_t max);

/* The schema of an object as text, a new string. -EINVAL, with the text set and `what` in front, if
 * it is none, too deep or too long. */
int foreign_schema(const json_t *schema, const char *what, char **ret, struct error *err);

/* The schema must allow the value: as schema_check, with the schema as text. */
int foreign_check(const char *schema, const json_t *value, const char *what, struct error *err);
