#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "target.h"
#include "banned.h"

#define LABEL_MAX       63
#define PORT_DIGITS_MAX 5

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:0:0/96 */

struct proxy_address proxy_address_make(int family, const void *bytes)
{
    struct proxy_address a = {.family = family};
    const uint8_t *b = bytes;

    if (family == AF_INET6 && memcmp(b, mapped_prefix, sizeof mapped_prefix) == 0) {
        a.family = AF_INET;
        b += sizeof mapped_prefix;
    }
    memcpy(a.bytes, b, a.family == AF_INET ? 4 : 16);
    return a;
}

bool proxy_address_equal(const struct proxy_address *a, const struct proxy_address *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static int parse_address(const char *text, struct proxy_host *ret)
{
    uint8_t bytes[16];
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;

    if (inet_pton(family, text, bytes) != 1)
        return -EINVAL;
    ret->kind = PROXY_HOST_ADDRESS;
    ret->address = proxy_address_make(family, bytes);
    if (!inet_ntop(ret->address.family, ret->address.bytes, ret->text, sizeof ret->text))
        return -EINVAL;
    return 0;
}

/* Resolvers read a name whose last label is a number, also a hexadecimal one, as an address. */
static bool is_numeric(const char *label)
{
    size_t len = strlen(label);
    if (len == strspn(label, "0123456789"))
        return true;
    return label[0] == '0' && label[1] == 'x' && len == 2 + strspn(label + 2, "0123456789abcdef");
}

static int check_labels(const char *name)
{
    const char *label = name;
    for (;;) {
        size_t len = strcspn(label, ".");
        if (len == 0 || len > LABEL_MAX)
            return -EINVAL;
        if (label[len] == '\0')
            return is_numeric(label) ? -EINVAL : 0;
        label += len + 1;
    }
}

int proxy_host_parse(const char *s, size_t n, struct proxy_host *ret)
{
    struct proxy_host host = {.kind = PROXY_HOST_NAME};

    if (n == 0 || n > PROXY_NAME_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (!isascii(c) || !(isalnum(c) || c == '-' || c == '_' || c == '.' || c == ':'))
            return -EINVAL;
        host.text[i] = (char)tolower(c);
    }
    int r = parse_address(host.text, &host);
    if (r < 0 && strchr(host.text, ':'))
        return r;
    if (r < 0) {
        if (host.text[n - 1] == '.')
            host.text[n - 1] = '\0';
        r = check_labels(host.text);
    }
    if (r < 0)
        return r;
    *ret = host;
    return 0;
}

static int parse_port(const char *s, size_t n, uint16_t *ret)
{
    unsigned port = 0;
    if (n == 0 || n > PORT_DIGITS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -EINVAL;
        port = port * 10 + (unsigned)(s[i] - '0');
    }
    if (port == 0 || port > UINT16_MAX)
        return -EINVAL;
    *ret = (uint16_t)port;
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
    if (rest != end &&
        (*rest != ':' || parse_port(rest + 1, (size_t)(end - rest - 1), &target.port) < 0))
        return -EINVAL;
    if (proxy_host_parse(host, (size_t)(host_end - host), &target.host) < 0)
        return -EINVAL;
    *ret = target;
    return 0;
}

void proxy_target_format(const struct proxy_target *t, char ret[PROXY_TARGET_TEXT])
{
    bool v6 = strchr(t->host.text, ':') != NULL;
    snprintf(ret, PROXY_TARGET_TEXT, "%s%s%s:%u", v6 ? "[" : "", t->host.text, v6 ? "]" : "",
             t->port);
}
