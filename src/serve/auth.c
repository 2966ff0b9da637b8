/*
 * Who a request comes from and what it may do: keys, roles, limits; the names that a Host header may
 * have; the origins that may read answers.
 *
 * Wrong keys are limited by address, because each costs an Argon2 hash. A key that was right before
 * passes that limit, so that nobody can shut out the others behind the same address.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "encoding.h"
#include "server.h"
#include "banned.h"

#define BUCKETS          4096u
#define BUCKET_PROBES    8u
#define FAILURES_AT_ONCE 20.0
#define FAILURES_PER_S   0.2
#define VERIFIED         4096u

/* So many requests at once, and then so many per second. */
struct bucket {
    uint64_t who; /* a keyed hash; 0: free */
    double tokens;
    int64_t at;
};

struct auth {
    pthread_mutex_t lock;
    uint8_t hash_key[crypto_shorthash_KEYBYTES];
    bool has_admin;
    uint8_t admin[crypto_generichash_BYTES]; /* of AGENT_API_KEY */
    struct bucket users[BUCKETS], addresses[BUCKETS];
    uint64_t verified[VERIFIED]; /* hashes of keys that were right */
};

struct auth *auth_new(const char *admin_key)
{
    struct auth *a = calloc(1, sizeof *a);
    if (!a || sodium_init() < 0) {
        free(a);
        return NULL;
    }
    pthread_mutex_init(&a->lock, NULL);
    crypto_shorthash_keygen(a->hash_key);
    a->has_admin = admin_key && *admin_key;
    if (a->has_admin)
        crypto_generichash(a->admin, sizeof a->admin, (const uint8_t *)admin_key, strlen(admin_key),
                           NULL, 0);
    return a;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    sodium_memzero(a->admin, sizeof a->admin);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static uint64_t auth_hash(const struct auth *a, const char *text)
{
    uint64_t h;
    crypto_shorthash((uint8_t *)&h, (const uint8_t *)text, strlen(text), a->hash_key);
    return h ? h : 1;
}

/* The bucket of `who`, full if it is new. Where the table is full, the one longest unused goes. */
static struct bucket *bucket_of(struct bucket *table, uint64_t who, double size)
{
    struct bucket *oldest = NULL;
    for (unsigned i = 0; i < BUCKET_PROBES; i++) {
        struct bucket *b = &table[(who + i) % BUCKETS];
        if (b->who == who)
            return b;
        if (!oldest || b->at < oldest->at)
            oldest = b;
    }
    *oldest = (struct bucket){who, size, clock_now()};
    return oldest;
}

static void bucket_fill(struct bucket *b, double size, double per_second)
{
    int64_t now = clock_now();
    b->tokens += (double)(now - b->at) / NS_PER_S * per_second;
    b->tokens = b->tokens > size ? size : b->tokens;
    b->at = now;
}

/* --- keys --- */

/* The password of `Authorization: Basic`: for clients that take a URL and nothing else. Browsers
 * would send it by themselves, also in requests that a foreign page makes: those name an origin. */
static const char *auth_basic_key(struct request *q, const char *text)
{
    struct buf plain = BUF_INIT(sizeof q->basic_key);
    const char *pair = base64_decode(&plain, text, strlen(text)) == 0 ? buf_cstr(&plain) : NULL;
    const char *key = pair && strlen(pair) == plain.len ? strchr(pair, ':') : NULL;
    if (key)
        snprintf(q->basic_key, sizeof q->basic_key, "%s", key + 1);
    buf_free(&plain);
    return key ? q->basic_key : NULL;
}

static const char *auth_key_text(struct request *q)
{
    const char *key = request_header(q, "x-api-key"), *given = request_header(q, "authorization");
    if (key || !given)
        return key;
    if (strncasecmp(given, "Basic ", 6) == 0 && !request_header(q, "origin"))
        return auth_basic_key(q, given + 6);
    return strncasecmp(given, "Bearer ", 7) == 0 ? given + 7 : NULL;
}

static bool auth_refuse(struct request *q, const char *detail)
{
    respond_header(q, "WWW-Authenticate", "Bearer realm=\"hutch\"");
    respond_problem(q, 401, "no-key", "%s%s", detail,
                    q->h2 ? "; over HTTP/2 only Authorization is read, not X-API-Key" : "");
    return false;
}

bool auth_has_key(struct request *q)
{
    if (q->route->access == ACCESS_PUBLIC || q->local || auth_key_text(q))
        return true;
    return auth_refuse(q, "send a key as X-API-Key or as Authorization: Bearer");
}

static bool auth_is_admin_key(const struct auth *a, const char *text)
{
    uint8_t hash[crypto_generichash_BYTES];
    crypto_generichash(hash, sizeof hash, (const uint8_t *)text, strlen(text), NULL, 0);
    return a->has_admin && sodium_memcmp(hash, a->admin, sizeof hash) == 0;
}

static bool auth_may_try(struct auth *a, uint64_t key, uint64_t address)
{
    LOCKED(&a->lock);
    if (a->verified[key % VERIFIED] == key)
        return true;
    struct bucket *b = bucket_of(a->addresses, address, FAILURES_AT_ONCE);
    bucket_fill(b, FAILURES_AT_ONCE, FAILURES_PER_S);
    return b->tokens >= 1;
}

static void auth_note(struct auth *a, uint64_t key, uint64_t address, bool right)
{
    LOCKED(&a->lock);
    if (right)
        a->verified[key % VERIFIED] = key;
    else
        bucket_of(a->addresses, address, FAILURES_AT_ONCE)->tokens -= 1;
}

/* Fills q->key and q->caller. */
static bool auth_identify(struct request *q)
{
    struct auth *a = q->serve->auth;
    const char *text = auth_key_text(q);
    if (q->local) {
        q->caller = (struct caller){.role = ROLE_WORKER, .name = "worker"};
        return true;
    }
    if (!text)
        return q->route->access == ACCESS_PUBLIC || auth_has_key(q);
    if (auth_is_admin_key(a, text)) {
        q->caller = (struct caller){.role = ROLE_ADMIN, .name = "admin", .key = "AGENT_API_KEY"};
        return true;
    }
    uint64_t key = auth_hash(a, text), address = auth_hash(a, q->address);
    if (!auth_may_try(a, key, address)) {
        respond_header(q, "Retry-After", "5");
        respond_problem(q, 429, "too-many-failures", "too many wrong keys from this address");
        return false;
    }
    struct error err = {0};
    int r = keys_check(q->serve->jobs, text, &q->key, &err);
    if (r < 0 && r != -ENOENT) {
        respond_error(q, &err);
        return false;
    }
    auth_note(a, key, address, r == 0);
    if (r < 0)
        return auth_refuse(q, "this key is not valid");
    bool is_user = q->key.role == ROLE_USER || q->key.role == ROLE_READ;
    q->caller = (struct caller){.role = q->key.role,
                                .user = is_user ? q->key.user : NULL,
                                .name = q->key.user,
                                .key = q->key.id,
                                .limits = q->key.limits};
    return true;
}

static bool auth_role_may(enum role role, enum route_access access)
{
    switch (access) {
    case ACCESS_PUBLIC:
        return true;
    case ACCESS_READ:
        return role == ROLE_READ || role == ROLE_USER || role == ROLE_ADMIN;
    case ACCESS_USER:
        return role == ROLE_USER || role == ROLE_ADMIN;
    case ACCESS_ADMIN:
        return role == ROLE_ADMIN;
    case ACCESS_WORKER:
        return role == ROLE_WORKER || role == ROLE_ADMIN;
    }
    return false;
}

static bool auth_is_within_rate(struct request *q)
{
    struct auth *a = q->serve->auth;
    double rate = (double)q->caller.limits.per_second;
    if (rate <= 0 || !q->caller.user)
        return true;
    LOCKED(&a->lock);
    struct bucket *b = bucket_of(a->users, auth_hash(a, q->caller.user), rate);
    bucket_fill(b, rate, rate);
    if (b->tokens < 1)
        return false;
    b->tokens -= 1;
    return true;
}

bool auth_check(struct request *q)
{
    if (!auth_identify(q))
        return false;
    if (!auth_role_may(q->caller.role, q->route->access)) {
        respond_problem(q, 403, "not-allowed", "a key of role '%s' may not do this",
                        role_name(q->caller.role));
        return false;
    }
    if (!auth_is_within_rate(q)) {
        respond_header(q, "Retry-After", "1");
        respond_problem(q, 429, "too-many-requests", "limit of %llu requests per second",
                        (unsigned long long)q->caller.limits.per_second);
        return false;
    }
    q->authenticated = true;
    return true;
}

/* --- names --- */

/* The length of the name in "NAME:PORT", "[::1]:PORT", "NAME". */
static size_t host_name_length(const char *host)
{
    const char *end = *host == '[' ? strchr(host, ']') : NULL;
    if (end)
        end++;
    return end ? (size_t)(end - host) : strcspn(host, ":");
}

static bool host_is(const char *host, size_t n, const char *name)
{
    return strlen(name) == n && strncasecmp(host, name, n) == 0;
}

/* An attack by DNS rebinding needs a name; so any address is fine. */
static bool host_is_address(const char *host, size_t n)
{
    char text[INET6_ADDRSTRLEN + 2];
    uint8_t address[16];
    bool bracket = *host == '[';
    if (n >= sizeof text || n < 2)
        return false;
    memcpy(text, host + bracket, n - 2 * bracket);
    text[n - 2 * bracket] = 0;
    return inet_pton(bracket ? AF_INET6 : AF_INET, text, address) == 1;
}

bool auth_host_allowed(const struct serve *s, const char *host)
{
    size_t n = host_name_length(host), listen = host_name_length(s->options->listen);
    if (n == 0 ||
        (host[n] && (host[n] != ':' || strspn(host + n + 1, "0123456789") != strlen(host + n + 1))))
        return false;
    for (size_t i = 0; i < s->options->n_hosts; i++)
        if (host_is(host, n, s->options->hosts[i]))
            return true;
    return host_is(host, n, "localhost") || host_is_address(host, n) ||
           (n == listen && strncasecmp(host, s->options->listen, n) == 0);
}

bool auth_origin_allowed(const struct serve *s, const char *origin)
{
    for (size_t i = 0; i < s->options->n_origins; i++)
        if (strcmp(origin, s->options->origins[i]) == 0)
            return true;
    return false;
}

bool auth_origin_is_own(const struct request *q, const char *origin)
{
    const char *scheme = q->serve->tls ? "https://" : "http://", *host = request_header(q, "host");
    return host && strncmp(origin, scheme, strlen(scheme)) == 0 &&
           strcasecmp(origin + strlen(scheme), host) == 0;
}
