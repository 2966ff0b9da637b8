/*
 * What a proxy lets through, while it runs: the list of hosts, which can be replaced at any time,
 * the upstream proxy of the host, and the record of what was refused. All functions may be called
 * from any thread.
 */
#pragma once

#include "proxy.h"
#include "upstream.h"

struct proxy_policy;

struct proxy_policy *proxy_policy_new(const struct proxy_rules *rules, struct error *err);
struct proxy_policy *proxy_policy_free(struct proxy_policy *p); /* takes NULL; returns NULL */

int proxy_policy_set(struct proxy_policy *p, const struct proxy_rules *rules, struct error *err);

bool proxy_policy_allows(struct proxy_policy *p, const struct proxy_target *target);

/* Whether a connection to this target may go to this address, which the target has: a public
 * address of another machine, one that is on the list as it stands, or any of a host of the package
 * configuration. */
bool proxy_policy_may_reach(struct proxy_policy *p, const struct proxy_target *target,
                            const struct proxy_address *a);

/* The proxy that the host itself uses for this target; NULL: none. */
const struct proxy_upstream *proxy_policy_upstream(const struct proxy_policy *p,
                                                   const struct proxy_target *target, bool connect);

void proxy_policy_refuse(struct proxy_policy *p, const char *target, bool is_private);
uint64_t proxy_policy_refused(struct proxy_policy *p);
size_t proxy_policy_refusals(struct proxy_policy *p, uint64_t since, struct proxy_refusal *ret,
                             size_t max);
