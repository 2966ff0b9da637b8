/* The MCP servers of the configuration as a source of tools: `server.tool`. */
#pragma once

/* From now on tool_sources_add() gives sessions the tools of the configured servers. */
void mcp_tools_register(void);
