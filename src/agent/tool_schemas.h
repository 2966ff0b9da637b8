/*
 * The tools as a model gets them, always in the same order and the same bytes: they stand at the
 * very front of every request, and a provider's cache begins there.
 *
 * Providers accept names of letters, digits, `_` and `-` only, at most 64. A tool of an MCP server
 * is called server.tool, so the model knows it by another name, which is mapped back here.
 */
#pragma once

#include <jansson.h>

#include "error.h"
#include "session.h"

#define TOOL_SCHEMAS_MAX      512 /* tools that a model gets */
#define TOOL_SCHEMAS_NAME_MAX 64

struct tool_schemas;

/* Lists the session's tools. `trouble` (or NULL) gets a text about each that is missing or left
 * out. */
int tool_schemas_new(struct tool_session *s, void (*trouble)(void *data, const char *text),
                     void *data, struct tool_schemas **ret, struct error *err);
struct tool_schemas *tool_schemas_free(struct tool_schemas *t);

/* [{"name", "description", "input_schema"}, …]: borrowed. */
json_t *tool_schemas_list(const struct tool_schemas *t);

/* The tool that a model means; its own word if there is none. */
const char *tool_schemas_real(const struct tool_schemas *t, const char *name);
