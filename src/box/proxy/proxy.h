/*
 * The way out of a box whose network is `allow:HOST[:PORT],…`: an HTTP proxy on the host's side.
 *
 * The box's network namespace has a loopback device only. The proxy listens there, on a socket that
 * was made inside and is held by the host; nothing in the box takes part in the decision. Programs
 * find it by the usual variables (http_proxy, https_proxy). It accepts CONNECT (https and
 * everything else over TCP) and plain http with absolute URLs.
 *
 * A connection must pass two checks: the name (or address) and the port are on the list; and each
 * address that the name resolves to is a public one. The second stops names that lead into the
 * host's own networks, by mistake or by an attacker's DNS. An address that is not public is reached
 * only if it is literally on the list, or if the name comes from the user's package configuration.
 * The proxy connects to the very address that it checked. It does not check that the TLS inside a
 * CONNECT names the same host: a server that serves many names (a CDN) can be asked for any of them
 * once one is allowed.
 *
 *     hosts.c         names, addresses and ports; the allow-list; the host's own proxy
 *     request.c       the head of a request, and where its body ends
 *     session.c       one connection, from its request to its end
 *     proxy_server.c  the listener, the rules, and a thread for each connection
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

/*
 * A DNS name or an address, read strictly: what getaddrinfo() would take for an address in disguise
 * ("127.1", "0x7f000001", "2130706433") is rejected, so that a name is always a name; and an IPv4
 * address written as IPv6 ("::ffff:10.0.0.1") is the IPv4 address.
 */
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

/* One entry of the list. */
struct proxy_allow {
    struct proxy_host host;
    bool subdomains;     /* *.HOST: all names below it, at any depth, not HOST itself */
    uint16_t port;       /* 0: 80 and 443 */
    bool may_be_private; /* the user's package configuration names it: any address will do */
};

/* Parses an entry of --net allow:. Returns 0, or -EINVAL with the mistake in `err`. */
int proxy_parse_allow(const char *spec, struct proxy_allow *ret, struct error *err);

bool proxy_allow_matches(const struct proxy_allow *entry, const struct proxy_target *target);

/* Which hosts may be reached, HOST[:PORT] each. `hosts` are those of the user's package
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

#define PROXY_CONNECTIONS_MAX 64 /* at once; more wait to be accepted */

struct proxy;

/* Takes over the listening socket (only on success). Returns NULL and fills err on failure. */
struct proxy *proxy_start(int listen_fd, const struct proxy_rules *rules, struct error *err);

/* Replaces the rules; ends the connections that they no longer allow. From any thread. */
int proxy_set_rules(struct proxy *p, const struct proxy_rules *rules, struct error *err);

/* How often anything was refused so far, and what was refused since such a number: each target
 * once, the last 32 of them at most. From any thread. */
uint64_t proxy_refused(struct proxy *p);
size_t proxy_refusals(struct proxy *p, uint64_t since, struct proxy_refusal *ret, size_t max);

/* Ends every connection, waits for all threads and closes the socket; returns NULL. */
struct proxy *proxy_stop(struct proxy *p);
