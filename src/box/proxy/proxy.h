/*
 * The way out of a box whose network is `allow:HOST[:PORT],…`: an HTTP proxy on the host's side.
 *
 * The box's network namespace holds nothing but its loopback; the proxy listens there, on a socket
 * that was made inside and is held by the host. Nothing in the box takes part in the decision.
 * Programs find it by the usual variables (http_proxy, https_proxy). It speaks CONNECT (https and
 * everything else over TCP) and plain http with absolute URLs.
 *
 * What is decided: the name, by the list; then each address that the name has on the host, and the
 * connection goes to the very address that was looked at (allow.h). What is not: whether the TLS
 * inside a CONNECT names the same host. A server that serves many names (a CDN) can be asked for
 * any of them, once one of them is allowed.
 *
 * The list can be replaced while the proxy runs. Refused targets are kept, so that the person and
 * the model can be told which host to allow.
 *
 * Where the host itself needs a proxy (http_proxy, https_proxy), the connection goes there
 * (upstream.h).
 *
 * One thread accepts, one per connection talks, PROXY_CONNECTIONS_MAX at most; more wait to be
 * accepted. Everything waits with a limit and ends at once when the proxy is stopped.
 */
#pragma once

#include <stddef.h>

#include "allow.h"
#include "error.h"
#include "target.h"

#define PROXY_CONNECTIONS_MAX 64

struct proxy;

/* Checks one entry of --net allow: and says in `err` what is wrong with it. Returns 0 or -EINVAL.
 */
int proxy_parse_allow(const char *spec, struct proxy_allow *ret, struct error *err);

/* Which hosts may be reached, HOST[:PORT] each. `hosts` are those of the person's package
 * configuration, which may have private addresses. */
struct proxy_rules {
    const char *const *allow;
    size_t n_allow;
    const char *const *hosts;
    size_t n_hosts;
};

/* Takes over the listening socket (only on success). Returns NULL and fills err on failure. */
struct proxy *proxy_start(int listen_fd, const struct proxy_rules *rules, struct error *err);

/* Replaces the rules; ends the connections that they no longer allow. From any thread. */
int proxy_set_rules(struct proxy *p, const struct proxy_rules *rules, struct error *err);

/* A connection that was refused: because the list does not have it, or because its addresses are
 * private. */
struct proxy_refusal {
    char target[PROXY_TARGET_TEXT]; /* HOST:PORT */
    bool is_private;
};

/* How often anything was refused so far, and what was refused since such a number: each target
 * once, the last 32 of them at most. From any thread; both take NULL. */
uint64_t proxy_refused(struct proxy *p);
size_t proxy_refusals(struct proxy *p, uint64_t since, struct proxy_refusal *ret, size_t max);

/* Ends every connection, waits for all threads and closes the socket; takes NULL; returns NULL. */
struct proxy *proxy_stop(struct proxy *p);
