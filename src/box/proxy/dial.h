/* Connecting to an address that has been looked at. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "target.h"

/* Connects; the socket is non-blocking. -ETIMEDOUT and -ECANCELED as proxy_wait(), or why it
 * failed. */
int proxy_dial(const struct proxy_address *a, uint16_t port, int stop_fd, int64_t deadline,
               int *ret_fd);

/*
 * Whether the address is one of this machine's own, public as it may be. A connection from inside
 * goes round whatever firewall guards it against the world. Asks the routing table; sends nothing.
 */
bool proxy_address_is_own(const struct proxy_address *a);
