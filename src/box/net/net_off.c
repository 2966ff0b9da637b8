/* --net off: an empty network. */
#include "net_policy.h"
#include "banned.h"

static void off_explain(const struct box_options *o, struct buf *out)
{
    buf_append_str(out,
                   "There is no network at first. If something must be downloaded, ask for its "
                   "hosts with request_network. If the user refuses, say what you could not "
                   "do.");
}

const struct net_policy NET_OFF = {.name = "off", .explain = off_explain};
