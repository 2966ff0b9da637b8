/* The table of network policies. */
#include <string.h>

#include "backend.h"
#include "net_policy.h"
#include "banned.h"

#define NET_POLICY(row, ...) extern const struct net_policy NET_##row;
#include "policies.def"
#undef NET_POLICY

const struct net_policy *const NET_POLICIES[] = {
#define NET_POLICY(row, new_box, running_box, summary) &NET_##row,
#include "policies.def"
#undef NET_POLICY
    NULL,
};

const struct net_policy *net_policy_find(const char *name, size_t n)
{
    for (const struct net_policy *const *p = NET_POLICIES; *p; p++)
        if (strlen((*p)->name) == n && memcmp((*p)->name, name, n) == 0)
            return *p;
    return NULL;
}

bool box_has_proxy(const struct box_options *o)
{
    return o->net->needs_proxy || (!o->net->uses_host && o->adjustable);
}
