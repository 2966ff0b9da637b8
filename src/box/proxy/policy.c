#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "dial.h"
#include "policy.h"
#include "banned.h"

#define REFUSALS_KEPT 32

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

static int policy_parse(const struct proxy_rules *rules, struct proxy_allow **ret,
                        struct error *err)
{
    size_t n = rules->n_allow + rules->n_hosts;
    _cleanup_free_ struct proxy_allow *items = calloc(n ? n : 1, sizeof *items);
    if (!items)
        return error_errno(err, ENOMEM, "cannot read the list of allowed hosts");
    for (size_t i = 0; i < n; i++) {
        bool own = i >= rules->n_allow;
        int r = proxy_parse_allow(own ? rules->hosts[i - rules->n_allow] : rules->allow[i],
                                  &items[i], err);
        if (r < 0)
            return r;
        items[i].may_be_private = own;
    }
    *ret = TAKE_PTR(items);
    return 0;
}

struct proxy_policy *proxy_policy_new(const struct proxy_rules *rules, struct error *err)
{
    struct proxy_policy *p = calloc(1, sizeof *p);
    if (!p) {
        error_errno(err, ENOMEM, "cannot make the network proxy");
        return NULL;
    }
    pthread_mutex_init(&p->lock, NULL);
    proxy_upstreams_read(&p->upstreams);
    return proxy_policy_set(p, rules, err) < 0 ? proxy_policy_free(p) : p;
}

struct proxy_policy *proxy_policy_free(struct proxy_policy *p)
{
    if (!p)
        return NULL;
    pthread_mutex_destroy(&p->lock);
    free(p->items);
    free(p);
    return NULL;
}

int proxy_policy_set(struct proxy_policy *p, const struct proxy_rules *rules, struct error *err)
{
    struct proxy_allow *items = NULL;
    int r = policy_parse(rules, &items, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&p->lock);
    struct proxy_allow *before = p->items;
    p->items = items;
    p->count = rules->n_allow + rules->n_hosts;
    pthread_mutex_unlock(&p->lock);
    free(before);
    return 0;
}

static bool policy_has_private(struct proxy_policy *p, const struct proxy_target *target)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].may_be_private &&
            proxy_list_allows(&(struct proxy_list){.items = &p->items[i], .count = 1}, target))
            return true;
    return false;
}

bool proxy_policy_allows(struct proxy_policy *p, const struct proxy_target *target)
{
    pthread_mutex_lock(&p->lock);
    bool yes = proxy_list_allows(&(struct proxy_list){p->items, p->count}, target);
    pthread_mutex_unlock(&p->lock);
    return yes;
}

bool proxy_policy_may_reach(struct proxy_policy *p, const struct proxy_target *target,
                            const struct proxy_address *a)
{
    pthread_mutex_lock(&p->lock);
    bool named = proxy_list_names(&(struct proxy_list){p->items, p->count}, a, target->port) ||
                 policy_has_private(p, target);
    pthread_mutex_unlock(&p->lock);
    return named || (proxy_address_is_public(a) && !proxy_address_is_own(a));
}

const struct proxy_upstream *proxy_policy_upstream(const struct proxy_policy *p,
                                                   const struct proxy_target *target, bool connect)
{
    return proxy_upstreams_find(&p->upstreams, target, connect);
}

/* One slot per target; a new one takes the place of the target that was refused longest ago. */
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
