#include <errno.h>
#include <string.h>
#include <strings.h>

#include "transport_private.h"
#include "banned.h"

void transport_copy_value(char *to, size_t size, const char *from, size_t n)
{
    while (n > 0 && (*from == ' ' || *from == '\t')) {
        from++;
        n--;
    }
    while (n > 0 && (unsigned char)from[n - 1] <= ' ')
        n--;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)from[i] < ' ' || (unsigned char)from[i] >= 0x7f)
            return;
    if (n >= size)
        return;
    memcpy(to, from, n);
    to[n] = 0;
}

void transport_take_field(struct transport_answer *a, const char *line, size_t n)
{
    const struct {
        const char *name;
        char *to;
        size_t size;
    } wanted[] = {
        {"content-type", a->type, sizeof a->type},
        {"x-should-retry", a->should_retry, sizeof a->should_retry},
        {"retry-after-ms", a->retry_ms, sizeof a->retry_ms},
        {"retry-after", a->retry_after, sizeof a->retry_after},
    };
    const char *colon = memchr(line, ':', n);
    size_t name = colon ? (size_t)(colon - line) : 0;
    for (size_t i = 0; colon && i < ARRAY_SIZE(wanted); i++)
        if (name == strlen(wanted[i].name) && strncasecmp(line, wanted[i].name, name) == 0)
            transport_copy_value(wanted[i].to, wanted[i].size, colon + 1, n - name - 1);
}

int transport_errno(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT:
        return -ECONNREFUSED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return -EKEYREJECTED;
    case CURLE_UNSUPPORTED_PROTOCOL: /* bytes that are no HTTP */
    case CURLE_WEIRD_SERVER_REPLY:
        return -EPROTO;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR:
        return -EPIPE;
    default:
        return -EIO;
    }
}
