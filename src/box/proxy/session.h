/* What the files of the proxy share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "proxy.h"
#include "text.h"

/* Takes an address as the kernel and getaddrinfo() give it: 4 or 16 bytes. */
struct proxy_address proxy_address_make(int family, const void *bytes);
bool proxy_address_equal(const struct proxy_address *a, const struct proxy_address *b);

/* Not private, local, shared, documentation, multicast or reserved, and with no such IPv4 address
 * inside. */
bool proxy_address_is_public(const struct proxy_address *a);

#define UPSTREAM_AUTHORIZATION_MAX 1024

/* A proxy that the host needs to reach the network. User and password of its URL stay on the
 * host. */
struct proxy_upstream {
    bool set;
    bool unusable; /* hutch cannot use it (https, socks): `target` is not filled */
    struct proxy_target target;
    char authorization[UPSTREAM_AUTHORIZATION_MAX]; /* of the header; empty: none */
};

struct proxy_upstreams {
    struct proxy_upstream http, https;
    char except[4096]; /* no_proxy */
};

/* One variable's value: [http://][USER[:PASSWORD]@]HOST[:PORT][/]. */
void proxy_upstream_parse(const char *url, struct proxy_upstream *ret);
void proxy_upstreams_read(struct proxy_upstreams *ret); /* the environment's */

/* Which one a connection takes: https for CONNECT. NULL: none, as always for this machine
 * itself. */
const struct proxy_upstream *proxy_upstreams_find(const struct proxy_upstreams *u,
                                                  const struct proxy_target *target, bool connect);

/*
 * A request to the proxy: its head, read strictly from a buffer so that no input has two readings,
 * and where its body ends.
 *
 * Rejected: bare line feeds, NUL and other controls, folded lines, blanks before a colon, user
 * names in URLs, ports out of range, two hosts, two lengths, a length together with a transfer
 * coding, codings other than chunked.
 */
#define PROXY_HEAD_MAX    (32u << 10)
#define PROXY_HEADERS_MAX 128

/* Bytes within the parsed buffer. */
struct proxy_span {
    const char *data;
    size_t len;
};

struct proxy_header {
    struct proxy_span name;
    struct proxy_span value;
};

enum proxy_body_kind { PROXY_BODY_NONE, PROXY_BODY_LENGTH, PROXY_BODY_CHUNKED };

struct proxy_request {
    bool connect;
    bool http10;
    struct proxy_span method;
    struct proxy_span path; /* path and query; may lack the slash in front, or be empty */
    struct proxy_target target;
    enum proxy_body_kind body;
    uint64_t body_length; /* of PROXY_BODY_LENGTH */
    size_t n_headers;
    struct proxy_header headers[PROXY_HEADERS_MAX];
};

/* Where the head ends (behind its empty line), or 0 when it is not complete. */
size_t proxy_head_end(const char *data, size_t n);

/* Parses a complete head. Returns 0, or -EBADMSG with the reason in *why. */
int proxy_request_parse(const char *head, size_t n, struct proxy_request *ret, const char **why);

/* Writes the head as it goes to the server: path only, its own Host, no hop-by-hop headers,
 * Connection: close. To another proxy (`upstream`) goes an absolute URL, and `authorization` for it
 * unless NULL or empty. */
int proxy_request_forward(const struct proxy_request *r, bool upstream, const char *authorization,
                          struct buf *out);

/* The state of a scan for the end of the body. What a client sends behind it is another request,
 * perhaps for another host, and must not reach this server. */
struct proxy_body {
    enum proxy_body_kind kind;
    int state;      /* of the chunked coding, see request.c */
    uint64_t left;  /* bytes of the body, or of the chunk */
    size_t in_line; /* bytes of coding since the last data */
    bool done;
};

void proxy_body_begin(struct proxy_body *b, const struct proxy_request *r);

/* How many of the n bytes belong to the body, or -EBADMSG if its coding is broken. Sets done at its
 * end. */
ssize_t proxy_body_scan(struct proxy_body *b, const char *data, size_t n);

/* A connection of the box; FREE → (acceptor) BUSY → (its thread) DONE → (acceptor joins) FREE. */
struct proxy_session {
    struct proxy *proxy;
    enum { SESSION_FREE, SESSION_BUSY, SESSION_DONE } state; /* under the lock, as is `target` */
    pthread_t thread;
    int client;
    bool has_target;
    struct proxy_target target;
};

#define PROXY_REFUSALS_KEPT 32

struct proxy {
    int listen_fd;
    int stop_fd; /* readable once the proxy is stopping */
    pthread_t acceptor;
    struct proxy_upstreams upstreams; /* never changes */
    atomic_uint *lookups;   /* 1, and one for each name lookup; the last of them frees it */
    pthread_mutex_t lock;   /* of what follows */
    pthread_cond_t changed; /* a session is done, or stopping */
    bool stopping;
    struct proxy_session sessions[PROXY_CONNECTIONS_MAX];
    struct proxy_allow *allow;
    size_t n_allow;
    /* A target that was refused, and the number of its latest refusal; 0: the slot is free. */
    struct {
        uint64_t number;
        struct proxy_refusal refusal;
    } refusals[PROXY_REFUSALS_KEPT];
    uint64_t n_refused;
};

/* Whether the target is on the list. Records it for the session before it looks, so that a change
 * of the rules finds the connection. */
bool proxy_session_may_begin(struct proxy_session *s, const struct proxy_target *target);

/* Whether a connection to this target may go to this address, which the target has: a public
 * address of another machine, one that is itself on the list, or any of a package configuration's
 * host. */
bool proxy_may_reach(struct proxy *p, const struct proxy_target *target,
                     const struct proxy_address *a);

/* Records a refused connection, so that the user and the model learn which host to allow. */
void proxy_refuse(struct proxy *p, const char *target, bool is_private);

/* Waits until fd (-1: none) has one of the events, or an error. Returns 0, -ETIMEDOUT past the
 * deadline (of clock_now(); 0: none), or -ECANCELED once the proxy is stopping. */
int proxy_wait(const struct proxy *p, int fd, short events, int64_t deadline);

/* A socket address of at most sizeof(struct sockaddr_in6); returns its size. */
socklen_t proxy_socket_address(const struct proxy_address *a, uint16_t port, void *ret);

/* Serves the client until one side ends; leaves closing its socket to the caller. */
void proxy_session_run(struct proxy_session *s);
