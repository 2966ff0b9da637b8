/*
 * The network of a box: the policies of --net, and how a network changes while the box lives.
 *
 * A box whose network may change has a proxy from its start, with empty rules while the network is
 * off. So a change is a change of those rules, and of the variables that later commands get.
 * Nothing in the box takes part, and its network namespace stays as empty as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "box_internal.h"
#include "box_options.h"
#include "packages.h"
#include "proxy/proxy.h"
#include "banned.h"

#define NET_TEXT_MAX (64u << 10)

/* Programs in the box find the proxy by the variables that they all know. */
static const char *const PROXY_ENV[] = {
    "http_proxy=http://127.0.0.1:3128", "https_proxy=http://127.0.0.1:3128",
    "HTTP_PROXY=http://127.0.0.1:3128", "HTTPS_PROXY=http://127.0.0.1:3128",
    "no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1",
};

static size_t list_length(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* Both lists, each text once. */
static char **list_join(char *const *a, char *const *b)
{
    size_t n = 0, n_a = list_length(a), n_b = list_length(b);
    const char **both = calloc(n_a + n_b + 1, sizeof *both);
    for (size_t i = 0; both && i < n_a + n_b; i++) {
        const char *text = i < n_a ? a[i] : b[i - n_a];
        size_t j = 0;
        while (j < n && strcmp(both[j], text) != 0)
            j++;
        if (j == n)
            both[n++] = text;
    }
    char **joined = both ? list_copy_n(both, n) : NULL;
    free((void *)both);
    return joined;
}

/* --net off: an empty network. */
static void off_explain(const struct box_options *o, struct buf *out)
{
    buf_append_str(out,
                   "There is no network at first. If something must be downloaded, ask for its "
                   "hosts with request_network. If the user refuses, say what you could not "
                   "do.");
}

const struct net_policy NET_OFF = {.name = "off", .explain = off_explain};

/* --net host: the host's network, which a box joins when it is made and cannot leave. */
static void host_explain(const struct box_options *o, struct buf *out)
{
    buf_append_str(out, "The network is the host's.");
}

const struct net_policy NET_HOST = {
    .name = "host", .uses_host = true, .reaches_out = true, .explain = host_explain};

/* --net allow:HOST[:PORT],@GROUP,…: only these hosts, through the proxy. */
static void allow_explain(const struct box_options *o, struct buf *out)
{
    _cleanup_buf_ struct buf hosts = BUF_INIT(NET_TEXT_MAX);
    for (size_t i = 0; i < o->n_allow; i++)
        buf_printf(&hosts, "%s%s", i ? ", " : "", o->allow[i]);
    const char *text = buf_cstr(&hosts);
    buf_printf(out,
               "The network reaches only these hosts, through a proxy that the environment names: "
               "%.2000s. Ask for others with request_network.",
               text ? text : "");
}

/* The entries point into a copy, which the spec owns. */
static int allow_parse(struct box_spec *s, const char *argument, struct error *err)
{
    char *text = strdup(argument);
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    free(s->allow_text);
    s->allow_text = text;
    s->box.n_allow = 0;
    while (text) {
        char *entry = strsep(&text, ",");
        struct proxy_allow rule;
        if (entry[0] == '@' && !package_group_is_known(entry + 1))
            return error_set(err, EINVAL, "there is no group '%.64s'; the groups are %s", entry,
                             PACKAGE_GROUPS);
        if (entry[0] != '@' && proxy_parse_allow(entry, &rule, err) < 0)
            return -EINVAL;
        if (s->box.n_allow == BOX_ALLOW_MAX)
            return error_set(err, EINVAL, "more than %d hosts", BOX_ALLOW_MAX);
        s->box.allow[s->box.n_allow++] = entry;
    }
    return 0;
}

static void allow_print(const struct box_network *n, struct buf *out)
{
    for (char **at = n->allow; *at; at++)
        buf_printf(out, "%s%s", at == n->allow ? "" : ",", *at);
}

/* A group is not for the proxy: its hosts are. */
static int allow_rules(const struct box_network *n, struct proxy_rules *ret)
{
    size_t count = 0;
    const char **allow = calloc(list_length(n->allow) + 1, sizeof *allow);
    if (!allow)
        return -ENOMEM;
    for (char **at = n->allow; *at; at++)
        if (**at != '@')
            allow[count++] = *at;
    *ret = (struct proxy_rules){.allow = allow,
                                .n_allow = count,
                                .hosts = (const char *const *)n->hosts,
                                .n_hosts = list_length(n->hosts)};
    return 0;
}

const struct net_policy NET_ALLOW = {.name = "allow",
                                     .reaches_out = true,
                                     .needs_proxy = true,
                                     .adds = true,
                                     .explain = allow_explain,
                                     .parse = allow_parse,
                                     .print = allow_print,
                                     .rules = allow_rules};

bool net_allow_covers(const char *given_text, const char *asked_text)
{
    static const uint16_t WEB[] = {80, 443};
    struct proxy_allow given, asked;
    if (strcmp(given_text, asked_text) == 0)
        return true;
    if (given_text[0] == '@' || asked_text[0] == '@' ||
        proxy_parse_allow(given_text, &given, NULL) < 0 ||
        proxy_parse_allow(asked_text, &asked, NULL) < 0)
        return false;
    if (asked.subdomains)
        return given.subdomains && strcmp(given.host.text, asked.host.text) == 0 &&
               given.port == asked.port;
    for (size_t i = 0; i < ARRAY_SIZE(WEB); i++) {
        const struct proxy_target target = {.host = asked.host,
                                            .port = asked.port ? asked.port : WEB[i]};
        if (!proxy_allow_matches(&given, &target))
            return false;
    }
    return true;
}

const struct net_policy *const NET_POLICIES[] = {
#define NET_POLICY(row, new_box, running_box, summary) &NET_##row,
#include "policies.def"
#undef NET_POLICY
    NULL,
};

const struct net_policy *net_policy_find(const char *name, size_t n)
{
    for (const struct net_policy *const *p = NET_POLICIES; *p; p++)
        if (strlen((*p)->name) == n && memcmp((*p)->name, name, n) == 0)
            return *p;
    return NULL;
}

bool box_has_proxy(const struct box_options *o)
{
    return o->net->needs_proxy || (!o->net->uses_host && o->adjustable);
}

void box_network_free(struct box_network *n)
{
    list_free(n->allow);
    list_free(n->hosts);
    list_free(n->env);
    *n = (struct box_network){0};
}

/* The lists of `a`, and with `b` those of both. */
static int network_join(const struct box_network *a, const struct box_network *b,
                        struct box_network *ret)
{
    static char *const NONE[] = {NULL};
    *ret = (struct box_network){.policy = a->policy,
                                .allow = list_join(b ? b->allow : NONE, a->allow),
                                .hosts = list_join(b ? b->hosts : NONE, a->hosts),
                                .env = list_join(b ? b->env : NONE, a->env)};
    if (ret->allow && ret->hosts && ret->env)
        return 0;
    box_network_free(ret);
    return -ENOMEM;
}

static int network_of_options(const struct box_options *o, struct box_network *ret)
{
    *ret = (struct box_network){.policy = o->net,
                                .allow = list_copy_n(o->allow, o->n_allow),
                                .hosts = list_copy_n(o->hosts, o->n_hosts),
                                .env = list_copy_n(o->net_env, o->n_net_env)};
    if (ret->allow && ret->hosts && ret->env)
        return 0;
    box_network_free(ret);
    return -ENOMEM;
}

/* All variables of a box: the proxy's, the groups', and those that the user set. */
static char **network_env(const struct box_network *n, bool proxy, char *const *own)
{
    char **groups = list_join((char *const *)n->env, own);
    if (!proxy || !groups)
        return groups;
    char **base = list_copy_n(PROXY_ENV, ARRAY_SIZE(PROXY_ENV));
    char **all = base ? list_join(base, groups) : NULL;
    list_free(base);
    list_free(groups);
    return all;
}

int box_network_init(struct box *b, const struct box_options *o)
{
    if (network_of_options(o, &b->network) < 0)
        return -ENOMEM;
    b->env = network_env(&b->network, box_has_proxy(o), b->own_env);
    return b->env ? 0 : -ENOMEM;
}

int box_network_copy(struct box *to, struct box *from)
{
    pthread_mutex_lock(&from->settings);
    to->limits = from->limits;
    int r = network_join(&from->network, NULL, &to->network);
    to->env = list_copy(from->env);
    pthread_mutex_unlock(&from->settings);
    return to->env ? r : -ENOMEM;
}

/* What the proxy allows, in arrays that the caller frees. */
static int network_rules(const struct box_network *n, struct proxy_rules *ret)
{
    *ret = (struct proxy_rules){0};
    return n->policy->rules ? n->policy->rules(n, ret) : 0;
}

int box_network_start(struct box *b, struct error *err)
{
    const struct backend *backend = b->machine->backend;
    struct proxy_rules rules = {0};
    int r = box_wait(b, err);
    if (r < 0)
        return r;
    int listener = backend->listener ? backend->listener(b->machine) : -1;
    if (listener < 0)
        return b->network.policy->needs_proxy && !backend->listener
                   ? backend_cannot(backend, "let a box reach some hosts only", err)
                   : 0;
    int own = fcntl(listener, F_DUPFD_CLOEXEC, 0);
    r = own < 0 ? -errno : network_rules(&b->network, &rules);
    if (r < 0)
        r = error_errno(err, -r, "cannot start the network proxy");
    else if (!(b->proxy = proxy_start(own, &rules, err)))
        r = -EIO;
    if (r < 0)
        cleanup_close(&own);
    free((void *)rules.allow);
    return r;
}

/* Puts a network into force. Takes it over on success. */
static int network_use(struct box *b, struct box_network *n, struct error *err)
{
    struct proxy_rules rules = {0};
    char **env = network_env(n, true, b->own_env);
    int r = env ? network_rules(n, &rules) : -ENOMEM;
    r = r < 0 ? error_errno(err, ENOMEM, "cannot change the network")
              : proxy_set_rules(b->proxy, &rules, err);
    free((void *)rules.allow);
    if (r < 0) {
        list_free(env);
        return r;
    }
    pthread_mutex_lock(&b->settings);
    struct box_network before = b->network;
    char **env_before = b->env;
    b->network = *n;
    b->env = env;
    pthread_mutex_unlock(&b->settings);
    *n = (struct box_network){0};
    box_network_free(&before);
    list_free(env_before);
    return 0;
}

int box_network_set(struct box *b, const struct box_options *o, bool add, struct error *err)
{
    _cleanup_(box_network_free) struct box_network given = {0}, next = {0};
    if (o->net->uses_host)
        return error_set(err, EINVAL,
                         "--net: a running box cannot join the host's network; make a new box with"
                         " --net %s",
                         o->net->name);
    if (!b->proxy)
        return error_set(
            err, EINVAL, "--net: %s; make a new box",
            b->network.policy->uses_host
                ? "this box uses the host's network, which it cannot leave while it runs"
                : "this box was made without a network that can be changed");
    int r = network_of_options(o, &given);
    if (r == 0)
        r = network_join(&given, add ? &b->network : NULL, &next);
    if (r < 0)
        return error_errno(err, ENOMEM, "cannot change the network");
    if (list_length(next.allow) > BOX_ALLOW_MAX || list_length(next.hosts) > BOX_HOSTS_MAX)
        return error_set(err, EINVAL, "--net: more than %d hosts", BOX_ALLOW_MAX);
    return network_use(b, &next, err);
}

int box_network_inherit(struct box *b, struct box *from, struct error *err)
{
    _cleanup_(box_network_free) struct box_network next = {0};
    if (!b->proxy || !from->proxy)
        return 0;
    if (network_join(&from->network, NULL, &next) < 0)
        return error_errno(err, ENOMEM, "cannot copy the network of the box");
    return network_use(b, &next, err);
}

char *box_network_print(const struct box_network *n)
{
    _cleanup_buf_ struct buf text = BUF_INIT(NET_TEXT_MAX);
    buf_append_str(&text, n->policy->name);
    if (n->policy->print) {
        buf_append_str(&text, ":");
        n->policy->print(n, &text);
    }
    const char *printed = buf_cstr(&text);
    return printed ? strdup(printed) : NULL;
}
