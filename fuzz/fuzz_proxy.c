/*
 * What a box sends to its network proxy: the head of a request, its body, and (from the command
 * line) the allow-list. Checks beside not crashing: what is forwarded is again a head that ends
 * where it should, and a body is cut at the same place however its bytes arrive.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_forward(const struct proxy_request *r)
{
    _cleanup_buf_ struct buf out = BUF_INIT(2 * PROXY_HEAD_MAX);
    check(proxy_request_forward(r, false, NULL, &out) == 0);
    check(proxy_head_end((const char *)out.data, out.len) == out.len);
    check(!memchr(out.data, '\0', out.len));
}

static void check_body(const struct proxy_request *r, const char *data, size_t n)
{
    struct proxy_body whole, bytewise;
    proxy_body_begin(&whole, r);
    proxy_body_begin(&bytewise, r);
    ssize_t used = proxy_body_scan(&whole, data, n), total = 0;
    for (size_t i = 0; i < n && total >= 0 && !bytewise.done; i++) {
        ssize_t one = proxy_body_scan(&bytewise, data + i, 1);
        total = one < 0 ? one : total + one;
    }
    check(used == total && used <= (ssize_t)n && whole.done == bytewise.done);
}

static void check_request(const char *data, size_t n)
{
    struct proxy_request r;
    const char *why = NULL;
    size_t end = proxy_head_end(data, n);

    if (end == 0 || end > PROXY_HEAD_MAX)
        return;
    if (proxy_request_parse(data, end, &r, &why) < 0) {
        check(why != NULL);
        return;
    }
    check(r.target.port != 0 && r.target.host.text[0] != '\0');
    if (!r.connect)
        check_forward(&r);
    check_body(&r, data + end, n - end);
}

static void check_allow(const char *data, size_t n)
{
    struct proxy_allow a;
    char *spec = strndup(data, n);

    if (spec && proxy_parse_allow(spec, &a, NULL) == 0) {
        const struct proxy_target t = {.host = a.host, .port = a.port ? a.port : 443};
        check(proxy_allow_matches(&a, &t) == !a.subdomains);
    }
    free(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    check_request((const char *)data, n);
    check_allow((const char *)data, n);
    return 0;
}
