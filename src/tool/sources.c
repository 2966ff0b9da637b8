#include "own_tools.h"
#include "sources.h"
#include "banned.h"

int (*tool_servers_add)(struct tool_session *s, struct config *config, struct error *err);

int tool_sources_add(struct tool_session *s, struct config *config, struct error *err)
{
    _cleanup_config_ struct config taken = *config;
    *config = (struct config){0};
    int r = own_tools_add(s, err);
    return r == 0 && tool_servers_add ? tool_servers_add(s, &taken, err) : r;
}
