/* Finding the addresses of a name and connecting to one, with a deadline, until the proxy stops. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allow.h"

#define PROXY_ADDRESSES_MAX 16

/* Waits until fd (-1: none) has one of the events, or an error. Returns 0, -ETIMEDOUT past the
 * deadline (of clock_now(); 0: none), or -ECANCELED once stop_fd is readable. */
int proxy_wait(int fd, short events, int stop_fd, int64_t deadline);

/* Sends all of it on a non-blocking socket. Returns as proxy_wait(), or send()'s negative errno. */
int proxy_send_all(int fd, const void *data, size_t n, int stop_fd, int64_t deadline);

/* Bounds the lookups under way for one proxy; outlives it until the last of them has ended. */
struct proxy_resolver;
struct proxy_resolver *proxy_resolver_new(void);
void proxy_resolver_unref(struct proxy_resolver *r); /* takes NULL */

/* The host's addresses, at most PROXY_ADDRESSES_MAX; returns how many. -ENOENT: no such name;
 * -EAGAIN: too many lookups under way; else as proxy_wait(). */
int proxy_resolve(struct proxy_resolver *r, const struct proxy_host *host, int stop_fd,
                  int64_t deadline, struct proxy_address *ret_addresses);

/* Connects to the first address that accepts; the socket is non-blocking. Returns 0, or as
 * proxy_wait(), or why the last one failed. */
int proxy_dial(const struct proxy_address *addresses, size_t n, uint16_t port, int stop_fd,
               int64_t deadline, int *ret_fd);

/* Whether the address is one of this machine's own, even if public: a connection from inside goes
 * round the firewall that guards it. Asks the routing table; sends nothing. */
bool proxy_address_is_own(const struct proxy_address *a);
