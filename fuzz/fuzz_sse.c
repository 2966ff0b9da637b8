/* Server-sent events of any bytes, cut anywhere: the same events come out, whatever the pieces
 * are. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "sse.h"
#include "banned.h"

#define EVENTS_MAX (1u << 20)

/* The events as text, of a stream that comes in pieces; returns the last answer. */
static int read_all(const char *data, size_t n, size_t piece, struct buf *out)
{
    _cleanup_sse_ struct sse s = SSE_INIT(2048);
    int r = 0;
    for (size_t at = 0; r == 0 && at < n; at += piece) {
        const char *from = data + at;
        size_t left = n - at < piece ? n - at : piece;
        struct sse_event e;
        while ((r = sse_take(&s, &from, &left, &e)) > 0) {
            const char *id = sse_last_id(&s);
            assert(e.data[e.n] == 0 && strlen(e.type) < SSE_NAME_MAX);
            buf_printf(out, "%s|%s|", e.type, id ? id : "");
            buf_append(out, e.data, e.n);
        }
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    _cleanup_buf_ struct buf whole = BUF_INIT(EVENTS_MAX), cut = BUF_INIT(EVENTS_MAX);
    if (n < 2)
        return 0;
    int r = read_all((const char *)data + 1, n - 1, n - 1, &whole);
    int again = read_all((const char *)data + 1, n - 1, (size_t)data[0] % 7 + 1, &cut);
    assert(r == again);
    assert(whole.len == cut.len &&
           (whole.len == 0 || memcmp(whole.data, cut.data, whole.len) == 0));
    return 0;
}
