/* Names, addresses and ports; the list of those that a box may reach; the host's own proxy. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "encoding.h"
#include "session.h"
#include "banned.h"

#define LABEL_MAX             63
#define PORT_DIGITS_MAX       5
#define UPSTREAM_DEFAULT_PORT 1080 /* as curl's */

struct prefix {
    uint8_t bytes[16];
    uint8_t bits;
};

/* IPv4 addresses outside of the public internet: IANA's special-purpose registry, and more. */
static const struct prefix special_v4[] = {
    {{0}, 8},                 /* "this network"; Linux takes 0.0.0.0 for itself */
    {{10}, 8},                /* private */
    {{100, 64}, 10},          /* shared by a provider's customers */
    {{127}, 8},               /* loopback */
    {{168, 63, 129, 16}, 32}, /* Azure's service for its machines, within the public range */
    {{169, 254}, 16},         /* link-local: clouds serve credentials here */
    {{172, 16}, 12},          /* private */
    {{192, 0, 0}, 24},        /* protocol assignments */
    {{192, 0, 2}, 24},        /* documentation */
    {{192, 88, 99}, 24},      /* 6to4 relays */
    {{192, 168}, 16},         /* private */
    {{198, 18}, 15},          /* benchmarks */
    {{198, 51, 100}, 24},     /* documentation */
    {{203, 0, 113}, 24},      /* documentation */
    {{224}, 4},               /* multicast */
    {{240}, 4},               /* reserved; broadcast */
};

/* Of IPv6 only 2000::/3 is the public internet; within it these are not. */
static const struct prefix global_v6 = {{0x20}, 3};
static const struct prefix special_v6[] = {
    {{0x20, 0x01, 0x00}, 23},       /* protocol assignments; Teredo, which hides IPv4 addresses */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
    {{0x3f, 0xff, 0x00}, 20},       /* documentation */
};

/* Translators: the packet goes to the IPv4 address inside, so that one counts. */
static const struct prefix nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96};
static const struct prefix sixto4 = {{0x20, 0x02}, 16};
#define NAT64_OFFSET  12
#define SIXTO4_OFFSET 2

struct proxy_address proxy_address_make(int family, const void *bytes)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:0:0/96 */
    struct proxy_address a = {.family = family};
    const uint8_t *b = bytes;

    if (family == AF_INET6 && memcmp(b, mapped, sizeof mapped) == 0) {
        a.family = AF_INET;
        b += sizeof mapped;
    }
    memcpy(a.bytes, b, a.family == AF_INET ? 4 : 16);
    return a;
}

bool proxy_address_equal(const struct proxy_address *a, const struct proxy_address *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static bool has_any_prefix(const uint8_t *address, const struct prefix *list, size_t n)
{
    for (const struct prefix *p = list; p < list + n; p++) {
        size_t whole = p->bits / 8;
        unsigned rest = p->bits % 8;
        if (memcmp(address, p->bytes, whole) == 0 &&
            (rest == 0 || ((address[whole] ^ p->bytes[whole]) >> (8 - rest)) == 0))
            return true;
    }
    return false;
}

bool proxy_address_is_public(const struct proxy_address *a)
{
    const uint8_t *v4 = NULL;
    if (a->family == AF_INET)
        v4 = a->bytes;
    else if (a->family != AF_INET6)
        return false;
    else if (has_any_prefix(a->bytes, &nat64, 1))
        v4 = a->bytes + NAT64_OFFSET;
    else if (has_any_prefix(a->bytes, &sixto4, 1))
        v4 = a->bytes + SIXTO4_OFFSET;
    if (v4)
        return !has_any_prefix(v4, special_v4, ARRAY_SIZE(special_v4));
    return has_any_prefix(a->bytes, &global_v6, 1) &&
           !has_any_prefix(a->bytes, special_v6, ARRAY_SIZE(special_v6));
}

static int host_parse(const char *s, size_t n, struct proxy_host *ret)
{
    struct proxy_host host = {.kind = PROXY_HOST_NAME};
    uint8_t bytes[16];

    if (n == 0 || n > PROXY_NAME_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (!isascii(c) || !(isalnum(c) || c == '-' || c == '_' || c == '.' || c == ':'))
            return -EINVAL;
        host.text[i] = (char)tolower(c);
    }
    int family = strchr(host.text, ':') ? AF_INET6 : AF_INET;
    if (inet_pton(family, host.text, bytes) == 1) {
        host.kind = PROXY_HOST_ADDRESS;
        host.address = proxy_address_make(family, bytes);
        if (!inet_ntop(host.address.family, host.address.bytes, host.text, sizeof host.text))
            return -EINVAL;
        *ret = host;
        return 0;
    }

    /* Labels of 1 to 63 characters, the last one no number: resolvers read a name that ends in one,
     * also in a hexadecimal one, as an address. */
    if (family == AF_INET6)
        return -EINVAL;
    if (host.text[n - 1] == '.')
        host.text[n - 1] = '\0';
    const char *label = host.text;
    size_t len = strcspn(label, ".");
    for (; label[len]; len = strcspn(label, ".")) {
        if (len == 0 || len > LABEL_MAX)
            return -EINVAL;
        label += len + 1;
    }
    bool decimal = len == strspn(label, "0123456789");
    bool hex =
        label[0] == '0' && label[1] == 'x' && len == 2 + strspn(label + 2, "0123456789abcdef");
    if (len == 0 || len > LABEL_MAX || decimal || hex)
        return -EINVAL;
    *ret = host;
    return 0;
}

int proxy_target_parse(const char *s, size_t n, struct proxy_target *ret)
{
    struct proxy_target target = {.port = 0};
    const char *host = s, *end = s + n, *host_end, *rest;

    if (n > 0 && s[0] == '[') {
        host++;
        host_end = memchr(s, ']', n);
        /* Brackets hold IPv6 and nothing else. */
        if (!host_end || !memchr(host, ':', (size_t)(host_end - host)))
            return -EINVAL;
        rest = host_end + 1;
    } else {
        host_end = memchr(s, ':', n);
        if (!host_end)
            host_end = end;
        rest = host_end;
    }
    if (rest != end) {
        unsigned port = 0;
        size_t digits = (size_t)(end - rest - 1);
        if (*rest != ':' || digits == 0 || digits > PORT_DIGITS_MAX)
            return -EINVAL;
        for (const char *at = rest + 1; at < end; at++) {
            if (*at < '0' || *at > '9')
                return -EINVAL;
            port = port * 10 + (unsigned)(*at - '0');
        }
        if (port == 0 || port > UINT16_MAX)
            return -EINVAL;
        target.port = (uint16_t)port;
    }
    int r = host_parse(host, (size_t)(host_end - host), &target.host);
    if (r == 0)
        *ret = target;
    return r;
}

void proxy_target_format(const struct proxy_target *t, char ret[PROXY_TARGET_TEXT])
{
    bool v6 = strchr(t->host.text, ':') != NULL;
    snprintf(ret, PROXY_TARGET_TEXT, "%s%s%s:%u", v6 ? "[" : "", t->host.text, v6 ? "]" : "",
             t->port);
}

int proxy_parse_allow(const char *spec, struct proxy_allow *ret, struct error *err)
{
    struct proxy_target target = {.port = 0};
    bool subdomains = spec[0] == '*' && spec[1] == '.';
    const char *host = subdomains ? spec + 2 : spec, *colon = strchr(spec, ':');
    const char *why = NULL;

    if (spec[0] == '\0')
        return error_set(err, EINVAL, "the list of allowed hosts has an empty entry");
    if (proxy_target_parse(host, strlen(host), &target) < 0)
        why =
            strchr(spec, '/')   ? "give the host alone, without a scheme or a path"
            : strchr(spec, '@') ? "give the host alone, without a user"
            : colon && strchr(colon + 1, ':') && spec[0] != '['
                ? "write an IPv6 address in brackets, as in [2001:db8::1]:443"
            : strchr(spec, '*')
                ? "a * is allowed only at the start of a name, as in *.example.org"
                : "expected a host name or address, optionally with a port from 1 to 65535, as in "
                  "example.org:443";
    else if (subdomains && target.host.kind != PROXY_HOST_NAME)
        why = "an address has no subdomains";
    if (why)
        return error_set(err, EINVAL, "'%.256s' cannot be allowed: %s", spec, why);
    *ret = (struct proxy_allow){.host = target.host, .subdomains = subdomains, .port = target.port};
    return 0;
}

bool proxy_allow_matches(const struct proxy_allow *entry, const struct proxy_target *target)
{
    const struct proxy_host *host = &target->host;

    if (entry->port ? entry->port != target->port : target->port != 80 && target->port != 443)
        return false;
    if (entry->host.kind != host->kind)
        return false;
    if (host->kind == PROXY_HOST_ADDRESS)
        return proxy_address_equal(&entry->host.address, &host->address);
    if (!entry->subdomains)
        return strcmp(entry->host.text, host->text) == 0;
    size_t n = strlen(host->text), base = strlen(entry->host.text);
    return n > base + 1 && host->text[n - base - 1] == '.' &&
           strcmp(host->text + n - base, entry->host.text) == 0;
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
    if (!ret->unusable &&
        proxy_target_parse(host, n - (size_t)(host - authority), &ret->target) < 0)
        ret->unusable = true;
    if (ret->target.port == 0)
        ret->target.port = scheme ? 80 : UPSTREAM_DEFAULT_PORT;

    /* "USER:PASSWORD" with %XX decoded, as base64. */
    char plain[UPSTREAM_AUTHORIZATION_MAX / 2];
    size_t len = 0;
    _cleanup_buf_ struct buf text = BUF_INIT(sizeof ret->authorization);
    for (const char *c = authority; at && c < at && len < sizeof plain; c++) {
        plain[len] = *c;
        if (*c == '%' && c + 2 < at && isxdigit((unsigned char)c[1]) &&
            isxdigit((unsigned char)c[2])) {
            const char digits[] = {c[1], c[2], '\0'};
            plain[len] = (char)strtoul(digits, NULL, 16);
            c += 2;
        }
        len++;
    }
    buf_append_str(&text, "Basic ");
    if (at && base64_append(&text, plain, len) == 0 && buf_cstr(&text))
        snprintf(ret->authorization, sizeof ret->authorization, "%s", buf_cstr(&text));
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

/* HTTP_PROXY is not read: a CGI program has it from a header that the client sends (httpoxy). */
void proxy_upstreams_read(struct proxy_upstreams *ret)
{
    static const char *const HTTP[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL};
    static const char *const HTTPS[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                                        NULL};
    static const char *const EXCEPT[] = {"no_proxy", "NO_PROXY", NULL};
    proxy_upstream_parse(first_variable(HTTP), &ret->http);
    proxy_upstream_parse(first_variable(HTTPS), &ret->https);
    snprintf(ret->except, sizeof ret->except, "%s", first_variable(EXCEPT));
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
