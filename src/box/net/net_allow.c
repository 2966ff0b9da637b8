/* --net allow:HOST[:PORT],@GROUP,…: only these hosts, through the proxy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "box_options_parse.h"
#include "local_box.h"
#include "packages/packages.h"
#include "proxy/proxy.h"
#include "banned.h"

static void allow_explain(const struct box_options *o, struct buf *out)
{
    _cleanup_buf_ struct buf hosts = BUF_INIT(64u << 10);
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
                             package_group_list());
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
    size_t count = 0, n_hosts = 0;
    while (n->allow[count])
        count++;
    while (n->hosts[n_hosts])
        n_hosts++;
    const char **allow = calloc(count + 1, sizeof *allow);
    if (!allow)
        return -ENOMEM;
    count = 0;
    for (char **at = n->allow; *at; at++)
        if (**at != '@')
            allow[count++] = *at;
    *ret = (struct proxy_rules){.allow = allow,
                                .n_allow = count,
                                .hosts = (const char *const *)n->hosts,
                                .n_hosts = n_hosts};
    return 0;
}

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

const struct net_policy NET_ALLOW = {.name = "allow",
                                     .reaches_out = true,
                                     .needs_proxy = true,
                                     .adds = true,
                                     .explain = allow_explain,
                                     .parse = allow_parse,
                                     .print = allow_print,
                                     .rules = allow_rules};
