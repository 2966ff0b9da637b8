/*
 * The system prompt: hutch's own text or the person's file, then facts that stay the same over the
 * session, then instructions: the person's own, those of the repository's folders above the
 * workspace (config/instructions.h), and those of the workspace, read through the guest.
 *
 * It is the same from turn to turn and after a resume, byte for byte, as long as those are: the
 * date in it is that of the session, not of the request.
 */
#pragma once

#include "session.h"

#define SYSTEM_FILE_MAX (256u << 10) /* of --system */

struct system_prompt_options {
    const char *file;      /* the person's own text; NULL: the built-in */
    const char *session;   /* its ID, which begins with its date; or NULL */
    const char *network;   /* a sentence about it; NULL: none */
    const char *mode;      /* of the workspace: "cow", "direct", "ro"; NULL: cow */
    const char *workspace; /* its folder on the host; or NULL */
    const char *start;     /* folder of the workspace that the shell begins in; NULL: its top */
    bool unattended;       /* nobody can answer a question */
    /* Something a person should know: AGENTS.md was cut, say. */
    void (*trouble)(void *data, const char *text);
    void *data;
};

/* A new string. */
int system_prompt(struct tool_session *s, const struct system_prompt_options *o, char **ret,
                  struct error *err);
