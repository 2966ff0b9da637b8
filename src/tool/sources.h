/* All tools that are not built in: those of the person's own, and those of the MCP servers. */
#pragma once

#include "config.h"
#include "session.h"

/* Adds the tools of the MCP servers to a session; takes the configuration over, also on failure.
 * The layer mcp sets it when its program starts; without that layer it is NULL. */
extern int (*tool_servers_add)(struct tool_session *s, struct config *config, struct error *err);

/* Gives the session the tools that the configuration names. Takes the configuration over, also on
 * failure. */
int tool_sources_add(struct tool_session *s, struct config *config, struct error *err);
