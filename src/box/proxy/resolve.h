/*
 * The addresses of a name, as the host sees them.
 *
 * getaddrinfo() cannot be interrupted and may take half a minute. It runs in a thread of its own,
 * which is left behind when nobody waits for it any more; so a box never has to wait for a slow
 * name server in order to end. Those left behind own nothing of the proxy, are bounded in number
 * and end by themselves.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "target.h"

#define PROXY_ADDRESSES_MAX 16

struct proxy_resolver;

struct proxy_resolver *proxy_resolver_new(void);
struct proxy_resolver *proxy_resolver_unref(
    struct proxy_resolver *r); /* takes NULL; returns NULL */

/*
 * Fills at most PROXY_ADDRESSES_MAX addresses and returns how many. -ENOENT: no such name; -EAGAIN:
 * too many lookups under way; -ETIMEDOUT and -ECANCELED as proxy_wait().
 */
int proxy_resolve(struct proxy_resolver *r, const char *name, int stop_fd, int64_t deadline,
                  struct proxy_address *ret_addresses);
