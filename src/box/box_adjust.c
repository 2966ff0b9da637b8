/*
 * The network of a box, and what can be changed while the box lives.
 *
 * A box that may change later has a proxy from its start, with an empty list while the network is
 * off. So a change of the network is a change of that list, and of the variables that later
 * commands get. Nothing in the box takes part, and the namespace stays as empty as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "local_box.h"
#include "proxy/proxy.h"
#include "banned.h"

#define LIMIT_FIELDS (BOX_SET_MEMORY | BOX_SET_CPUS | BOX_SET_PIDS | BOX_SET_TIMEOUT)
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

static bool list_has(char *const *list, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], text) == 0)
            return true;
    return false;
}

/* Both lists, each text once. */
static char **list_join(char *const *a, char *const *b)
{
    size_t n = 0, n_a = list_length(a), n_b = list_length(b);
    const char **both = calloc(n_a + n_b + 1, sizeof *both);
    for (size_t i = 0; both && i < n_a + n_b; i++) {
        const char *text = i < n_a ? a[i] : b[i - n_a];
        if (!list_has((char *const *)both, n, text))
            both[n++] = text;
    }
    char **joined = both ? list_copy_n(both, n) : NULL;
    free((void *)both);
    return joined;
}

void box_network_free(struct box_network *n)
{
    list_free(n->allow);
    list_free(n->hosts);
    list_free(n->env);
    *n = (struct box_network){0};
}

/* All variables of a box: the proxy's, the groups', and those that the person set. */
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

bool box_has_proxy(const struct box_options *o)
{
    return o->net == BOX_NET_ALLOW || (o->net == BOX_NET_OFF && o->adjustable);
}

int box_network_init(struct box *b, const struct box_options *o)
{
    b->network = (struct box_network){.net = o->net,
                                      .allow = list_copy_n(o->allow, o->n_allow),
                                      .hosts = list_copy_n(o->hosts, o->n_hosts),
                                      .env = list_copy_n(o->net_env, o->n_net_env)};
    if (!b->network.allow || !b->network.hosts || !b->network.env)
        return -ENOMEM;
    b->env = network_env(&b->network, box_has_proxy(o), b->own_env);
    return b->env ? 0 : -ENOMEM;
}

static int network_copy(const struct box_network *from, struct box_network *ret)
{
    *ret = (struct box_network){.net = from->net,
                                .allow = list_copy(from->allow),
                                .hosts = list_copy(from->hosts),
                                .env = list_copy(from->env)};
    return ret->allow && ret->hosts && ret->env ? 0 : -ENOMEM;
}

int box_network_copy(struct box *to, struct box *from)
{
    pthread_mutex_lock(&from->settings);
    to->limits = from->limits;
    int r = network_copy(&from->network, &to->network);
    to->env = list_copy(from->env);
    pthread_mutex_unlock(&from->settings);
    return to->env ? r : -ENOMEM;
}

/* A group is not for the proxy: its hosts are. */
static int network_rules(const struct box_network *n, struct proxy_rules *ret,
                         const char ***ret_allow)
{
    size_t count = 0;
    const char **allow = calloc(list_length(n->allow) + 1, sizeof *allow);
    if (!allow)
        return -ENOMEM;
    for (char **at = n->allow; *at; at++)
        if (**at != '@')
            allow[count++] = *at;
    bool open = n->net == BOX_NET_ALLOW;
    *ret = (struct proxy_rules){.allow = allow,
                                .n_allow = open ? count : 0,
                                .hosts = (const char *const *)n->hosts,
                                .n_hosts = open ? list_length(n->hosts) : 0};
    *ret_allow = allow;
    return 0;
}

int box_start_proxy(struct box *b, struct error *err)
{
    struct proxy_rules rules;
    const char **allow = NULL;
    const struct backend *backend = b->machine->backend;
    int r = box_wait(b, err);
    if (r < 0)
        return r;
    int listener = backend->listener ? backend->listener(b->machine) : -1;
    if (listener < 0)
        return b->network.net == BOX_NET_ALLOW && !backend->listener
                   ? backend_cannot(backend, "let a box reach some hosts only", err)
                   : 0;
    int own = fcntl(listener, F_DUPFD_CLOEXEC, 0);
    if (own < 0 || network_rules(&b->network, &rules, &allow) < 0) {
        r = error_errno(err, own < 0 ? errno : ENOMEM, "cannot start the network proxy");
        cleanup_close(&own);
        return r;
    }
    b->proxy = proxy_start(own, &rules, err);
    free((void *)allow);
    return b->proxy ? 0 : -EIO;
}

/* Puts a network into force. Takes it over on success. */
static int network_use(struct box *b, struct box_network *n, struct error *err)
{
    struct proxy_rules rules;
    const char **allow = NULL;
    char **env = network_env(n, true, b->own_env);
    int r = env ? network_rules(n, &rules, &allow) : -ENOMEM;
    r = r < 0 ? error_errno(err, ENOMEM, "cannot change the network")
              : proxy_set_rules(b->proxy, &rules, err);
    free((void *)allow);
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

/* The network of the options, or with `add` the present one and the hosts of the options. */
static int network_next(const struct box *b, const struct box_options *o, bool add,
                        struct box_network *ret)
{
    struct box_network given = {.net = o->net,
                                .allow = list_copy_n(o->allow, o->n_allow),
                                .hosts = list_copy_n(o->hosts, o->n_hosts),
                                .env = list_copy_n(o->net_env, o->n_net_env)};
    int r = given.allow && given.hosts && given.env ? 0 : -ENOMEM;
    if (r == 0 && !add) {
        *ret = given;
        return 0;
    }
    if (r == 0) {
        *ret = (struct box_network){.net = BOX_NET_ALLOW,
                                    .allow = list_join(b->network.allow, given.allow),
                                    .hosts = list_join(b->network.hosts, given.hosts),
                                    .env = list_join(b->network.env, given.env)};
        r = ret->allow && ret->hosts && ret->env ? 0 : -ENOMEM;
    }
    box_network_free(&given);
    return r;
}

static int set_network(struct box *b, const struct box_options *o, bool add, struct error *err)
{
    _cleanup_(box_network_free) struct box_network next = {0};
    if (o->net == BOX_NET_HOST)
        return error_set(err, EINVAL,
                         "--net: a running box cannot join the host's network; make a new box with"
                         " --net host");
    if (!b->proxy)
        return error_set(
            err, EINVAL, "--net: %s; make a new box",
            b->network.net == BOX_NET_HOST
                ? "this box uses the host's network, which it cannot leave while it runs"
                : "this box was made without a network that can be changed");
    if (network_next(b, o, add, &next) < 0)
        return error_errno(err, ENOMEM, "cannot change the network");
    if (list_length(next.allow) > BOX_ALLOW_MAX || list_length(next.hosts) > BOX_HOSTS_MAX)
        return error_set(err, EINVAL, "--net: more than %d hosts", BOX_ALLOW_MAX);
    return network_use(b, &next, err);
}

static int set_limits(struct box *b, const struct box_limits *l, unsigned fields, struct error *err)
{
    struct box_limits next = b->limits;
    if (fields & BOX_SET_MEMORY)
        next.memory = l->memory;
    if (fields & BOX_SET_CPUS)
        next.cpus = l->cpus;
    if (fields & BOX_SET_PIDS)
        next.pids = l->pids;
    if (fields & BOX_SET_TIMEOUT)
        next.timeout_ns = l->timeout_ns;
    next.sockets = b->limits.sockets ? limit_sockets(&next) : 0;
    const struct backend *backend = b->machine->backend;
    int r = backend->set_limits ? backend->set_limits(b->machine, &next, fields, err)
                                : backend_cannot(backend, "change the limits of a box", err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&b->settings);
    b->limits = next;
    pthread_mutex_unlock(&b->settings);
    return 0;
}

int local_adjust(struct box *b, const struct box_options *o, unsigned fields, struct error *err)
{
    int r = fields & LIMIT_FIELDS ? set_limits(b, &o->limits, fields, err) : 0;
    if (r == 0 && fields & (BOX_SET_NET | BOX_SET_NET_ADD))
        r = set_network(b, o, fields & BOX_SET_NET_ADD, err);
    return r;
}

int box_inherit_settings(struct box *fresh, struct box *current, struct error *err)
{
    const struct box_limits *a = &fresh->limits, *b = &current->limits;
    unsigned fields = (a->memory != b->memory ? BOX_SET_MEMORY : 0) |
                      (a->cpus != b->cpus ? BOX_SET_CPUS : 0) |
                      (a->pids != b->pids ? BOX_SET_PIDS : 0) |
                      (a->timeout_ns != b->timeout_ns ? BOX_SET_TIMEOUT : 0);
    int r = fields ? set_limits(fresh, b, fields, err) : 0;
    if (r < 0 || !fresh->proxy || !current->proxy)
        return r;
    _cleanup_(box_network_free) struct box_network next = {0};
    if (network_copy(&current->network, &next) < 0)
        return error_errno(err, ENOMEM, "cannot take over the network of the box");
    return network_use(fresh, &next, err);
}

bool box_net_covers(const char *given_text, const char *asked_text)
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

char *box_net_text(struct box *b)
{
    _cleanup_buf_ struct buf text = BUF_INIT(NET_TEXT_MAX);
    pthread_mutex_lock(&b->settings);
    if (b->network.net != BOX_NET_ALLOW)
        buf_append_str(&text, b->network.net == BOX_NET_HOST ? "host" : "off");
    for (char **at = b->network.allow; b->network.net == BOX_NET_ALLOW && *at; at++)
        buf_printf(&text, "%s%s", at == b->network.allow ? "allow:" : ",", *at);
    pthread_mutex_unlock(&b->settings);
    const char *said = buf_cstr(&text);
    return said ? strdup(said) : NULL;
}

struct box_limits box_limits_of(struct box *b)
{
    pthread_mutex_lock(&b->settings);
    struct box_limits l = b->limits;
    pthread_mutex_unlock(&b->settings);
    return l;
}
