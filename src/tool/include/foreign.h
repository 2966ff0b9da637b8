/* What strangers say about their tools (a manifest in a clone, an MCP server), made fit to be shown
 * to people and models. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "foreign_text.h"

#define FOREIGN_SCHEMA_MAX   (256u << 10)
#define FOREIGN_SCHEMA_DEPTH 48
#define FOREIGN_SUMMARY_MAX  (16u << 10)
#define FOREIGN_TITLE_MAX    200u

/* The schema of an object as text, a new string. -EINVAL, with the text set and `what` in front, if
 * it is none, too deep or too long. */
int foreign_schema(const json_t *schema, const char *what, char **ret, struct error *err);

/* The schema must allow the value: as schema_check, with the schema as text. */
int foreign_check(const char *schema, const json_t *value, const char *what, struct error *err);
