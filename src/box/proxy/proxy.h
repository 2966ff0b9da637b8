/*
 * The way out of a box whose network is `allow:HOST[:PORT],…`: an HTTP proxy on the host's side.
 *
 * The box's network namespace has a loopback device only. The proxy listens there, on a socket that
 * was made inside and is held by the host; nothing in the box takes part in the decision. Programs
 * find it by the usual variables (http_proxy, https_proxy). It accepts CONNECT (https and
 * everything else over TCP) and plain http with absolute URLs.
 *
 * It checks the name, by the list, then each address that the name has on the host, and connects to
 * the very address that it checked (allow.h). It does not check that the TLS inside a CONNECT names
 * the same host: a server that serves many names (a CDN) can be asked for any of them once one is
 * allowed.
 *
 * One thread accepts, and one serves each connection, PROXY_CONNECTIONS_MAX at most; more wait to
 * be accepted. Every wait has a limit and ends at once when the proxy stops.
 */
#pragma once

#include "policy.h"

#define PROXY_CONNECTIONS_MAX 64

struct proxy;

/* Takes over the listening socket (only on success). Returns NULL and fills err on failure. */
struct proxy *proxy_start(int listen_fd, const struct proxy_rules *rules, struct error *err);

/* Replaces the rules; ends the connections that they no longer allow. From any thread. */
int proxy_set_rules(struct proxy *p, const struct proxy_rules *rules, struct error *err);

/* How often anything was refused so far, and what was refused since such a number: each target
 * once, the last 32 of them at most. From any thread; both take NULL. */
uint64_t proxy_refused(struct proxy *p);
size_t proxy_refusals(struct proxy *p, uint64_t since, struct proxy_refusal *ret, size_t max);

/* Ends every connection, waits for all threads and closes the socket; takes NULL; returns NULL. */
struct proxy *proxy_stop(struct proxy *p);
