/* --net host: the host's network, which a box joins when it is made and cannot leave. */
#include "net_policy.h"
#include "banned.h"

static void host_explain(const struct box_options *o, struct buf *out)
{
    buf_append_str(out, "The network is the host's.");
}

const struct net_policy NET_HOST = {
    .name = "host", .uses_host = true, .reaches_out = true, .explain = host_explain};
