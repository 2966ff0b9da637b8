/*
 * Hosts, and the list of those that a box may reach.
 *
 * A host is a DNS name or an address, read strictly: what getaddrinfo() would take for an address
 * in disguise ("127.1", "0x7f000001", "2130706433") is rejected, so that a name is always a name;
 * and an IPv4 address written as IPv6 ("::ffff:10.0.0.1") is the IPv4 address.
 *
 * A connection must pass two checks: the name (or address) and the port are on the list; and each
 * address that the name resolves to is a public one. The second stops names that lead into the
 * host's own networks, by mistake or by an attacker's DNS. An address that is not public is reached
 * only if it is literally on the list, or if the name comes from the person's package
 * configuration.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define PROXY_NAME_MAX    253
#define PROXY_TARGET_TEXT (PROXY_NAME_MAX + sizeof "[]:65535")

enum proxy_host_kind { PROXY_HOST_NAME, PROXY_HOST_ADDRESS };

struct proxy_address {
    int family; /* AF_INET or AF_INET6, never an IPv4 address as IPv6 */
    uint8_t bytes[16];
};

struct proxy_host {
    enum proxy_host_kind kind;
    char text[PROXY_NAME_MAX + 1]; /* lower case, no trailing dot, no brackets */
    struct proxy_address address;  /* of PROXY_HOST_ADDRESS */
};

struct proxy_target {
    struct proxy_host host;
    uint16_t port; /* 0: none was given */
};

/* HOST[:PORT], an IPv6 address in brackets. Returns 0 or -EINVAL. */
int proxy_target_parse(const char *s, size_t n, struct proxy_target *ret);
void proxy_target_format(const struct proxy_target *t, char ret[PROXY_TARGET_TEXT]);

/* Takes an address as the kernel and getaddrinfo() give it: 4 or 16 bytes. */
struct proxy_address proxy_address_make(int family, const void *bytes);
bool proxy_address_equal(const struct proxy_address *a, const struct proxy_address *b);

/* Not private, local, shared, documentation, multicast or reserved, and with no such IPv4 address
 * inside. */
bool proxy_address_is_public(const struct proxy_address *a);

/* One entry of the list. */
struct proxy_allow {
    struct proxy_host host;
    bool subdomains;     /* *.HOST: all names below it, at any depth, not HOST itself */
    uint16_t port;       /* 0: 80 and 443 */
    bool may_be_private; /* the person's package configuration names it: any address will do */
};

/* Parses an entry of --net allow:. Returns 0, or -EINVAL with the mistake in `err`. */
int proxy_parse_allow(const char *spec, struct proxy_allow *ret, struct error *err);

bool proxy_allow_matches(const struct proxy_allow *entry, const struct proxy_target *target);
