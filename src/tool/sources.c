#include "config.h"
#include "own_tools.h"
#include "peers.h"
#include "sources.h"
#include "banned.h"

int tool_sources_add(struct tool_session *s, const char *workspace, struct error *err)
{
    _cleanup_config_ struct config config = {0};
    int r = config_read(workspace, &config, err);
    /* Now, before anything can run in the box: code there could write itself a server on the host. */
    if (r == 0 && config_trusts(&config))
        r = config_read_workspace(s, &config.trusted, err);
    if (r == 0 && config_trusts(&config) && !config.trusted)
        config.trusted = json_object(); /* what is written there later is not meant */
    if (r == 0)
        r = own_tools_add(s, err);
    return r == 0 ? mcp_peers_add(s, &config, err) : r;
}
