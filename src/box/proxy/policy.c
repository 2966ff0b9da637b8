#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "dial.h"
#include "encoding.h"
#include "policy.h"
#include "text.h"
#include "banned.h"

#define REFUSALS_KEPT         32
#define UPSTREAM_DEFAULT_PORT 1080 /* as curl's */

/* A target that was refused, and the number of its latest refusal; 0: the slot is free. */
struct kept_refusal {
    uint64_t number;
    struct proxy_refusal refusal;
};

struct proxy_policy {
    pthread_mutex_t lock;
    struct proxy_allow *items;
    size_t count;
    struct kept_refusal refused[REFUSALS_KEPT];
    uint64_t n_refused;
    struct proxy_upstreams upstreams; /* never changes */
};

/* "USER:PASSWORD" with %XX decoded, as base64. */
static void upstream_authorize(const char *user, size_t n, struct proxy_upstream *ret)
{
    char plain[UPSTREAM_AUTHORIZATION_MAX / 2];
    size_t len = 0;
    _cleanup_buf_ struct buf text = BUF_INIT(sizeof ret->authorization);

    for (size_t i = 0; i < n && len < sizeof plain; i++) {
        plain[len] = user[i];
        if (user[i] == '%' && i + 2 < n && isxdigit((unsigned char)user[i + 1]) &&
            isxdigit((unsigned char)user[i + 2])) {
            const char digits[] = {user[i + 1], user[i + 2], '\0'};
            plain[len] = (char)strtoul(digits, NULL, 16);
            i += 2;
        }
        len++;
    }
    buf_append_str(&text, "Basic ");
    if (base64_append(&text, plain, len) == 0 && buf_cstr(&text))
        snprintf(ret->authorization, sizeof ret->authorization, "%s", buf_cstr(&text));
}

void proxy_upstream_parse(const char *url, struct proxy_upstream *ret)
{
    *ret = (struct proxy_upstream){.set = url && *url};
    if (!ret->set)
        return;
    const char *scheme = strstr(url, "://");
    const char *authority = scheme ? scheme + 3 : url;
    ret->unusable = scheme && strncasecmp(url, "http://", 7) != 0;
    size_t n = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', n);
    const char *host = at ? at + 1 : authority;
    if (at)
        upstream_authorize(authority, (size_t)(at - authority), ret);
    if (!ret->unusable &&
        proxy_target_parse(host, n - (size_t)(host - authority), &ret->target) < 0)
        ret->unusable = true;
    if (ret->target.port == 0)
        ret->target.port = scheme ? 80 : UPSTREAM_DEFAULT_PORT;
}

/* The first variable that is set and not empty, or "". */
static const char *first_variable(const char *const names[])
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value)
            return value;
    }
    return "";
}

/* One entry of no_proxy: "*", NAME, .NAME or *.NAME with all below it, each perhaps with a port. */
static bool except_matches(const char *entry, size_t n, const struct proxy_target *target)
{
    struct proxy_target other;
    if (n == 1 && *entry == '*')
        return true;
    while (n && (*entry == '*' || *entry == '.')) {
        entry++;
        n--;
    }
    if (proxy_target_parse(entry, n, &other) < 0 || (other.port && other.port != target->port))
        return false;
    size_t have = strlen(target->host.text), want = strlen(other.host.text);
    if (target->host.kind == PROXY_HOST_ADDRESS)
        return strcmp(target->host.text, other.host.text) == 0;
    return have >= want && strcmp(target->host.text + have - want, other.host.text) == 0 &&
           (have == want || target->host.text[have - want - 1] == '.');
}

const struct proxy_upstream *proxy_upstreams_find(const struct proxy_upstreams *u,
                                                  const struct proxy_target *target, bool connect)
{
    static const uint8_t loopback_v6[16] = {[15] = 1};
    const struct proxy_upstream *found = connect ? &u->https : &u->http;
    const struct proxy_host *h = &target->host;
    bool local = h->kind == PROXY_HOST_NAME     ? strcmp(h->text, "localhost") == 0
                 : h->address.family == AF_INET ? h->address.bytes[0] == 127
                                                : memcmp(h->address.bytes, loopback_v6, 16) == 0;
    if (!found->set || local)
        return NULL;
    for (const char *at = u->except; *at;) {
        size_t n = strcspn(at, ", \t");
        if (n && except_matches(at, n, target))
            return NULL;
        at += n + strspn(at + n, ", \t");
    }
    return found;
}

const struct proxy_upstream *proxy_policy_upstream(const struct proxy_policy *p,
                                                   const struct proxy_target *target, bool connect)
{
    return proxy_upstreams_find(&p->upstreams, target, connect);
}

/* HTTP_PROXY is not read: a CGI program has it from a header that the client sends (httpoxy). */
struct proxy_policy *proxy_policy_new(const struct proxy_rules *rules, struct error *err)
{
    static const char *const HTTP[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL};
    static const char *const HTTPS[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                                        NULL};
    static const char *const EXCEPT[] = {"no_proxy", "NO_PROXY", NULL};
    struct proxy_policy *p = calloc(1, sizeof *p);

    if (!p) {
        error_errno(err, ENOMEM, "cannot start the network proxy");
        return NULL;
    }
    pthread_mutex_init(&p->lock, NULL);
    proxy_upstream_parse(first_variable(HTTP), &p->upstreams.http);
    proxy_upstream_parse(first_variable(HTTPS), &p->upstreams.https);
    snprintf(p->upstreams.except, sizeof p->upstreams.except, "%s", first_variable(EXCEPT));
    if (proxy_policy_set(p, rules, err) == 0)
        return p;
    proxy_policy_free(p);
    return NULL;
}

void proxy_policy_free(struct proxy_policy *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    free(p->items);
    free(p);
}

int proxy_policy_set(struct proxy_policy *p, const struct proxy_rules *rules, struct error *err)
{
    size_t n = rules->n_allow + rules->n_hosts;
    _cleanup_free_ struct proxy_allow *items = calloc(n ? n : 1, sizeof *items);
    if (!items)
        return error_errno(err, ENOMEM, "cannot read the list of allowed hosts");
    for (size_t i = 0; i < n; i++) {
        bool of_packages = i >= rules->n_allow;
        const char *spec = of_packages ? rules->hosts[i - rules->n_allow] : rules->allow[i];
        int r = proxy_parse_allow(spec, &items[i], err);
        if (r < 0)
            return r;
        items[i].may_be_private = of_packages;
    }
    pthread_mutex_lock(&p->lock);
    struct proxy_allow *before = p->items;
    p->items = TAKE_PTR(items);
    p->count = n;
    pthread_mutex_unlock(&p->lock);
    free(before);
    return 0;
}

bool proxy_policy_allows(struct proxy_policy *p, const struct proxy_target *target)
{
    bool yes = false;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count && !yes; i++)
        yes = proxy_allow_matches(&p->items[i], target);
    pthread_mutex_unlock(&p->lock);
    return yes;
}

bool proxy_policy_may_reach(struct proxy_policy *p, const struct proxy_target *target,
                            const struct proxy_address *a)
{
    const struct proxy_target literal = {.host = {.kind = PROXY_HOST_ADDRESS, .address = *a},
                                         .port = target->port};
    bool named = false;

    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count && !named; i++)
        named = proxy_allow_matches(&p->items[i], &literal) ||
                (p->items[i].may_be_private && proxy_allow_matches(&p->items[i], target));
    pthread_mutex_unlock(&p->lock);
    return named || (proxy_address_is_public(a) && !proxy_address_is_own(a));
}

/* One slot per target; a new target replaces the one that was refused longest ago. */
void proxy_policy_refuse(struct proxy_policy *p, const char *target, bool is_private)
{
    pthread_mutex_lock(&p->lock);
    struct kept_refusal *slot = &p->refused[0];
    for (size_t i = 0; i < REFUSALS_KEPT; i++) {
        struct kept_refusal *k = &p->refused[i];
        if (k->number && strcmp(k->refusal.target, target) == 0) {
            slot = k;
            break;
        }
        if (k->number < slot->number)
            slot = k;
    }
    slot->number = ++p->n_refused;
    slot->refusal.is_private = is_private;
    snprintf(slot->refusal.target, sizeof slot->refusal.target, "%s", target);
    pthread_mutex_unlock(&p->lock);
}

uint64_t proxy_policy_refused(struct proxy_policy *p)
{
    pthread_mutex_lock(&p->lock);
    uint64_t n = p->n_refused;
    pthread_mutex_unlock(&p->lock);
    return n;
}

size_t proxy_policy_refusals(struct proxy_policy *p, uint64_t since, struct proxy_refusal *ret,
                             size_t max)
{
    size_t n = 0;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < REFUSALS_KEPT && n < max; i++)
        if (p->refused[i].number > since)
            ret[n++] = p->refused[i].refusal;
    pthread_mutex_unlock(&p->lock);
    return n;
}
