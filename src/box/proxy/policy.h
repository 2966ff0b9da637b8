/*
 * What a running proxy lets through: the list of hosts, which can be replaced at any time; the
 * proxy that the host itself uses (http_proxy, https_proxy, no_proxy); and a record of what was
 * refused, so that the person and the model learn which host to allow. All functions may be called
 * from any thread.
 */
#pragma once

#include "allow.h"

/* Which hosts may be reached, HOST[:PORT] each. `hosts` are those of the person's package
 * configuration, which may have private addresses. */
struct proxy_rules {
    const char *const *allow;
    size_t n_allow;
    const char *const *hosts;
    size_t n_hosts;
};

/* A refused connection: its target is not on the list, or has private addresses only. */
struct proxy_refusal {
    char target[PROXY_TARGET_TEXT]; /* HOST:PORT */
    bool is_private;
};

struct proxy_policy;

struct proxy_policy *proxy_policy_new(const struct proxy_rules *rules, struct error *err);
void proxy_policy_free(struct proxy_policy *p); /* takes NULL */

int proxy_policy_set(struct proxy_policy *p, const struct proxy_rules *rules, struct error *err);

bool proxy_policy_allows(struct proxy_policy *p, const struct proxy_target *target);

/* Whether a connection to this target may go to this address, which the target has: a public
 * address of another machine, one that is itself on the list, or any of a package configuration's
 * host. */
bool proxy_policy_may_reach(struct proxy_policy *p, const struct proxy_target *target,
                            const struct proxy_address *a);

void proxy_policy_refuse(struct proxy_policy *p, const char *target, bool is_private);

/* How often anything was refused so far; and what was refused since such a number, each target
 * once. */
uint64_t proxy_policy_refused(struct proxy_policy *p);
size_t proxy_policy_refusals(struct proxy_policy *p, uint64_t since, struct proxy_refusal *ret,
                             size_t max);

#define UPSTREAM_AUTHORIZATION_MAX 1024

/* A proxy that the host needs to reach the network. User and password of its URL stay on the
 * host. */
struct proxy_upstream {
    bool set;
    bool unusable; /* hutch cannot use it (https, socks): `target` is not filled */
    struct proxy_target target;
    char authorization[UPSTREAM_AUTHORIZATION_MAX]; /* of the header; empty: none */
};

struct proxy_upstreams {
    struct proxy_upstream http, https;
    char except[4096]; /* no_proxy */
};

/* One variable's value: [http://][USER[:PASSWORD]@]HOST[:PORT][/]. */
void proxy_upstream_parse(const char *url, struct proxy_upstream *ret);

/* Which one a connection takes: https for CONNECT. NULL: none, as always for this machine
 * itself. */
const struct proxy_upstream *proxy_upstreams_find(const struct proxy_upstreams *u,
                                                  const struct proxy_target *target, bool connect);
const struct proxy_upstream *proxy_policy_upstream(const struct proxy_policy *p,
                                                   const struct proxy_target *target, bool connect);
