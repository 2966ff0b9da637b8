/*
 * What stands at the front of every request: the system prompt and the tools, always in the same
 * order and the same bytes, because a provider's cache begins there.
 *
 * The system prompt is hutch's own text or the person's file, then facts that stay the same over
 * the session, then instructions: the person's own, those of the repository's folders above the
 * workspace (config/instructions.h), and those of the workspace, read through the guest. The date
 * in it is that of the session, not of the request.
 *
 * Providers accept tool names of letters, digits, `_` and `-` only, at most 64. A tool of an MCP
 * server is called server.tool, so the model knows it by another name, which is mapped back here.
 */
#pragma once

#include <jansson.h>

#include "error.h"
#include "session.h"

#define SYSTEM_FILE_MAX       (256u << 10) /* of --system */
#define TOOL_SCHEMAS_MAX      512          /* tools that a model gets */
#define TOOL_SCHEMAS_NAME_MAX 64

struct system_prompt_options {
    const char *file;      /* the person's own text; NULL: the built-in */
    const char *session;   /* its ID, which begins with its date; or NULL */
    const char *network;   /* a sentence about it; NULL: none */
    const char *mode;      /* of the workspace: "cow", "direct", "ro"; NULL: cow */
    const char *workspace; /* its folder on the host; or NULL */
    const char *start;     /* folder of the workspace that the shell begins in; NULL: its top */
    bool unattended;       /* nobody can answer a question */
    bool pristine;         /* the box shows the workspace as the host has it */
    /* Something a person should know: AGENTS.md was cut, say. */
    void (*trouble)(void *data, const char *text);
    void *data;
};

/* A new string. */
int system_prompt(struct tool_session *s, const struct system_prompt_options *o, char **ret,
                  struct error *err);

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
