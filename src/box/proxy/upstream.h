/*
 * The proxy that the host itself needs to reach the network, by the variables that curl and most
 * programs read: http_proxy, https_proxy, all_proxy and no_proxy of the person's environment. It is
 * reached over plain http; a user and a password in its URL stay on the host.
 */
#pragma once

#include "target.h"

#define UPSTREAM_AUTHORIZATION_MAX 1024

struct proxy_upstream {
    bool set;
    bool unusable; /* it is one that hutch cannot speak with (https, socks): `target` is not filled
                    */
    struct proxy_target target;
    char authorization[UPSTREAM_AUTHORIZATION_MAX]; /* of the header; empty: none */
};

struct proxy_upstreams {
    struct proxy_upstream http, https;
    char except[4096]; /* no_proxy */
};

void proxy_upstreams_read(struct proxy_upstreams *ret);

/* Which of them a connection takes: https for CONNECT. NULL: none; what is on this machine never
 * takes one.
 */
const struct proxy_upstream *proxy_upstreams_find(const struct proxy_upstreams *u,
                                                  const struct proxy_target *target, bool connect);

/* One variable's value: [http://][USER[:PASSWORD]@]HOST[:PORT][/]. */
void proxy_upstream_parse(const char *url, struct proxy_upstream *ret);
