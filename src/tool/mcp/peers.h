/* The MCP servers of the configuration as a source of tools: `server.tool`. */
#pragma once

#include "config.h"
#include "session.h"

/* Gives the session their tools. Takes the configuration over, also if it fails. */
int mcp_peers_add(struct tool_session *s, struct config *config, struct error *err);
