/* All tools that are not built in: those of the person's own, and those of the MCP servers. */
#pragma once

#include "session.h"

/* Reads the configuration and gives the session what it names. `workspace` is the folder on the host of a box
 * in which nothing ran yet, and NULL otherwise. */
int tool_sources_add(struct tool_session *s, const char *workspace, struct error *err);
