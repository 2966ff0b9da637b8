/*
 * Where a request wants to go: HOST[:PORT], read strictly.
 *
 * A host is a DNS name or an address. Everything that getaddrinfo() would take for an address in
 * disguise
 * ("127.1", "0x7f000001", "2130706433") is refused, so that a name is always a name; and an IPv4
 * address written as IPv6
 * ("::ffff:10.0.0.1") is the IPv4 address.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROXY_NAME_MAX 253

enum proxy_host_kind { PROXY_HOST_NAME, PROXY_HOST_ADDRESS };

struct proxy_address {
    int family; /* AF_INET or AF_INET6, never an IPv4 address as IPv6 */
    uint8_t bytes[16];
};

struct proxy_host {
    enum proxy_host_kind kind;
    char text[PROXY_NAME_MAX +
              1]; /* lower case, no trailing dot, no brackets, addresses in their usual form */
    struct proxy_address address; /* of PROXY_HOST_ADDRESS */
};

struct proxy_target {
    struct proxy_host host;
    uint16_t port; /* 0: none was given */
};

/* Both return 0 or -EINVAL. The second takes a name or an address (IPv6 without brackets). */
int proxy_target_parse(const char *s, size_t n, struct proxy_target *ret);
int proxy_host_parse(const char *s, size_t n, struct proxy_host *ret);

/* HOST:PORT as it is written, IPv6 in brackets. */
#define PROXY_TARGET_TEXT (PROXY_NAME_MAX + sizeof "[]:65535")
void proxy_target_format(const struct proxy_target *t, char ret[PROXY_TARGET_TEXT]);

/* Takes an address as the kernel and getaddrinfo() give it: 4 or 16 bytes. */
struct proxy_address proxy_address_make(int family, const void *bytes);
bool proxy_address_equal(const struct proxy_address *a, const struct proxy_address *b);
