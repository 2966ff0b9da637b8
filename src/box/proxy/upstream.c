#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "encoding.h"
#include "buf.h"
#include "cleanup.h"
#include "upstream.h"
#include "banned.h"

#define DEFAULT_PORT 1080 /* as curl's */

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* "USER:PASSWORD" with %XX decoded, as base64. */
static void upstream_authorize(const char *user, size_t n, struct proxy_upstream *ret)
{
    char plain[UPSTREAM_AUTHORIZATION_MAX / 2];
    size_t len = 0;
    _cleanup_buf_ struct buf text = BUF_INIT(sizeof ret->authorization);
    for (size_t i = 0; i < n && len < sizeof plain; i++) {
        int high = user[i] == '%' && i + 2 < n ? hex_value(user[i + 1]) : -1;
        int low = high >= 0 ? hex_value(user[i + 2]) : -1;
        bool escaped = low >= 0;
        plain[len++] = escaped ? (char)(high * 16 + low) : user[i];
        i += escaped ? 2 : 0;
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
        ret->target.port = scheme ? 80 : DEFAULT_PORT;
}

static const char *first_set(const char *a, const char *b, const char *c)
{
    const char *value = getenv(a);
    if (!value || !*value)
        value = b ? getenv(b) : NULL;
    if ((!value || !*value) && c)
        value = getenv(c);
    return value;
}

/* HTTP_PROXY is not read: programs that serve the web have it from a header that others send
 * (httpoxy). */
void proxy_upstreams_read(struct proxy_upstreams *ret)
{
    const char *except = first_set("no_proxy", "NO_PROXY", NULL);
    memset(ret, 0, sizeof *ret);
    proxy_upstream_parse(first_set("http_proxy", "all_proxy", "ALL_PROXY"), &ret->http);
    const char *https = first_set("https_proxy", "HTTPS_PROXY", NULL);
    proxy_upstream_parse(https && *https ? https : first_set("all_proxy", "ALL_PROXY", NULL),
                         &ret->https);
    snprintf(ret->except, sizeof ret->except, "%s", except ? except : "");
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

static bool is_local(const struct proxy_target *target)
{
    const struct proxy_host *h = &target->host;
    if (h->kind == PROXY_HOST_NAME)
        return strcmp(h->text, "localhost") == 0;
    static const uint8_t one[16] = {[15] = 1};
    return h->address.family == AF_INET ? h->address.bytes[0] == 127
                                        : memcmp(h->address.bytes, one, 16) == 0;
}

const struct proxy_upstream *proxy_upstreams_find(const struct proxy_upstreams *u,
                                                  const struct proxy_target *target, bool connect)
{
    const struct proxy_upstream *found = connect ? &u->https : &u->http;
    if (!found->set || is_local(target))
        return NULL;
    for (const char *at = u->except; *at;) {
        size_t n = strcspn(at, ", \t");
        if (n && except_matches(at, n, target))
            return NULL;
        at += n + strspn(at + n, ", \t");
    }
    return found;
}
