/* All tools that are not built in: those of the person's own, and those of the MCP servers. */
#pragma once

#include "config.h"
#include "session.h"

/* Gives the session the tools that the configuration names. Takes the configuration over, also on
 * failure. */
int tool_sources_add(struct tool_session *s, struct config *config, struct error *err);
