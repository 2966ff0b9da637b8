/*
 * Network policies: what --net can be. Each is a row, NET_<row>, and a line of policies.def.
 *
 * A box is either in the host's network or in one of its own that is empty. What more it may reach
 * is up to a proxy on the host's side (proxy/proxy.h), whose rules a policy makes. So a policy that
 * does not use the host's network can be changed while the box runs.
 */
#pragma once

#include "box.h"

struct box_spec;
struct box_network;
struct proxy_rules;

struct net_policy {
    const char *name; /* --net NAME, or NAME:ARGUMENT if it parses one */

    bool uses_host;   /* the box is in the host's network */
    bool reaches_out; /* programs in the box can reach other machines */
    bool needs_proxy; /* from the start; else a box has one only if its network may change later */
    bool adds;        /* given in a chat, it adds to what the box may reach already */

    /* One sentence for a model about what it can reach, and how. */
    void (*explain)(const struct box_options *o, struct buf *out);

    /* The rest may be NULL. */

    /* Fills the lists of s->box; what they point into belongs to `s`. */
    int (*parse)(struct box_spec *s, const char *argument, struct error *err);
    /* The argument as parse() takes it. */
    void (*print)(const struct box_network *n, struct buf *out);
    /* What the proxy allows, in arrays that the caller frees; NULL: nothing. */
    int (*rules)(const struct box_network *n, struct proxy_rules *ret);
};

/* NULL ends the list. */
extern const struct net_policy *const NET_POLICIES[];
#define NET_POLICY(row, new_box, running_box, summary) extern const struct net_policy NET_##row;
#include "policies.def"
#undef NET_POLICY

/* NULL if there is none of that name. */
const struct net_policy *net_policy_find(const char *name, size_t n);

/* Whether one entry of `allow:` (HOST[:PORT] or @GROUP) allows all that another would. */
bool net_allow_covers(const char *given, const char *asked);
