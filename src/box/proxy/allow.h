/*
 * The allow-list of a box's network, and which addresses are public.
 *
 * Two questions are asked about each connection, and both must be answered with yes: is this name
 * (or address) and port on the list; and, of each address that the name has, is it a public one?
 * The second stops names that lead into the host's own networks, by mistake or by an attacker's
 * DNS. An address that is not public is reached only if it is itself, literally, on the list, or if
 * the name comes from the person's own package configuration (may_be_private).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "target.h"

struct proxy_allow {
    struct proxy_host host;
    bool subdomains;     /* *.HOST: what is below the name, at any depth, not the name itself */
    uint16_t port;       /* 0: 80 and 443 */
    bool may_be_private; /* its addresses need not be public: the person's own configuration names
                            it */
};

/* An empty list allows nothing. */
struct proxy_list {
    const struct proxy_allow *items;
    size_t count;
};

bool proxy_list_allows(const struct proxy_list *list, const struct proxy_target *target);
/* Whether the address itself is on the list. */
bool proxy_list_names(const struct proxy_list *list, const struct proxy_address *a, uint16_t port);

/* Not private, local, shared, documentation, multicast or reserved, and with no such IPv4 address
 * inside. */
bool proxy_address_is_public(const struct proxy_address *a);
