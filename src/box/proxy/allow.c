#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "allow.h"
#include "cleanup.h"
#include "proxy.h"
#include "banned.h"

struct prefix {
    uint8_t bytes[16];
    uint8_t bits;
};

/* IPv4 addresses that are not of the public internet (IANA's registry of special purposes, and
 * more). */
static const struct prefix special_v4[] = {
    {{0}, 8},        /* "this network"; Linux takes 0.0.0.0 for itself */
    {{10}, 8},       /* private */
    {{100, 64}, 10}, /* shared by a provider's customers */
    {{127}, 8},      /* loopback */
    {{168, 63, 129, 16},
     32},                 /* a cloud's service for the machines in it, inside the public range */
    {{169, 254}, 16},     /* link-local: clouds keep their secrets here */
    {{172, 16}, 12},      /* private */
    {{192, 0, 0}, 24},    /* protocol assignments */
    {{192, 0, 2}, 24},    /* documentation */
    {{192, 88, 99}, 24},  /* 6to4 relays */
    {{192, 168}, 16},     /* private */
    {{198, 18}, 15},      /* benchmarks */
    {{198, 51, 100}, 24}, /* documentation */
    {{203, 0, 113}, 24},  /* documentation */
    {{224}, 4},           /* multicast */
    {{240}, 4},           /* reserved; broadcast */
};

/* Of IPv6 only 2000::/3 is the public internet; within it these are not. */
static const struct prefix global_v6 = {{0x20}, 3};
static const struct prefix special_v6[] = {
    {{0x20, 0x01, 0x00}, 23},       /* protocol assignments; Teredo, which hides IPv4 addresses */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
    {{0x3f, 0xff, 0x00}, 20},       /* documentation */
};

/* Translators: the packet ends at the IPv4 address inside, so that one counts. */
static const struct prefix nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96};
static const struct prefix sixto4 = {{0x20, 0x02}, 16};
#define NAT64_OFFSET  12
#define SIXTO4_OFFSET 2

static bool has_prefix(const uint8_t *address, const struct prefix *p)
{
    size_t whole = p->bits / 8;
    unsigned rest = p->bits % 8;

    if (memcmp(address, p->bytes, whole) != 0)
        return false;
    return rest == 0 || ((address[whole] ^ p->bytes[whole]) >> (8 - rest)) == 0;
}

static bool has_any_prefix(const uint8_t *address, const struct prefix *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (has_prefix(address, &list[i]))
            return true;
    return false;
}

static bool v4_is_public(const uint8_t *address)
{
    return !has_any_prefix(address, special_v4, ARRAY_SIZE(special_v4));
}

bool proxy_address_is_public(const struct proxy_address *a)
{
    if (a->family == AF_INET)
        return v4_is_public(a->bytes);
    if (a->family != AF_INET6)
        return false;
    if (has_prefix(a->bytes, &nat64))
        return v4_is_public(a->bytes + NAT64_OFFSET);
    if (has_prefix(a->bytes, &sixto4))
        return v4_is_public(a->bytes + SIXTO4_OFFSET);
    return has_prefix(a->bytes, &global_v6) &&
           !has_any_prefix(a->bytes, special_v6, ARRAY_SIZE(special_v6));
}

static bool port_matches(const struct proxy_allow *entry, uint16_t port)
{
    return entry->port ? entry->port == port : port == 80 || port == 443;
}

static bool name_matches(const struct proxy_allow *entry, const char *name)
{
    if (!entry->subdomains)
        return strcmp(entry->host.text, name) == 0;
    size_t n = strlen(name), base = strlen(entry->host.text);
    return n > base + 1 && name[n - base - 1] == '.' &&
           strcmp(name + n - base, entry->host.text) == 0;
}

bool proxy_list_names(const struct proxy_list *list, const struct proxy_address *a, uint16_t port)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct proxy_allow *entry = &list->items[i];
        if (entry->host.kind == PROXY_HOST_ADDRESS && port_matches(entry, port) &&
            proxy_address_equal(&entry->host.address, a))
            return true;
    }
    return false;
}

bool proxy_list_allows(const struct proxy_list *list, const struct proxy_target *target)
{
    if (target->host.kind == PROXY_HOST_ADDRESS)
        return proxy_list_names(list, &target->host.address, target->port);
    for (size_t i = 0; i < list->count; i++) {
        const struct proxy_allow *entry = &list->items[i];
        if (entry->host.kind == PROXY_HOST_NAME && port_matches(entry, target->port) &&
            name_matches(entry, target->host.text))
            return true;
    }
    return false;
}

/* What people write instead of HOST[:PORT], and what to tell them. */
static const char *explain(const char *spec)
{
    const char *colon = strchr(spec, ':');

    if (strstr(spec, "://") || strchr(spec, '/'))
        return "give the host alone, without a scheme or a path";
    if (strchr(spec, '@'))
        return "give the host alone, without a user";
    if (colon && strchr(colon + 1, ':') && spec[0] != '[')
        return "write an IPv6 address in brackets, as [2001:db8::1]:443";
    if (strchr(spec, '*'))
        return "a * is allowed only at the start of a name, as in *.example.org";
    return "expected a host name or address, and perhaps a port from 1 to 65535, as "
           "example.org:443";
}

int proxy_parse_allow(const char *spec, struct proxy_allow *ret, struct error *err)
{
    struct proxy_target target;
    bool subdomains = spec[0] == '*' && spec[1] == '.';
    const char *host = subdomains ? spec + 2 : spec;

    if (spec[0] == '\0')
        return error_set(err, EINVAL, "the list of allowed hosts has an empty entry");
    if (proxy_target_parse(host, strlen(host), &target) < 0)
        return error_set(err, EINVAL, "'%.256s' cannot be allowed: %s", spec, explain(spec));
    if (subdomains && target.host.kind != PROXY_HOST_NAME)
        return error_set(err, EINVAL, "'%.256s' cannot be allowed: an address has no subdomains",
                         spec);
    *ret = (struct proxy_allow){.host = target.host, .subdomains = subdomains, .port = target.port};
    return 0;
}
