/* JSON-RPC lines: however the bytes are split, the same messages come out; what is taken can be
 * written and read again. The first two bytes choose the limit and the split. */
#include <errno.h>
#include <string.h>

#include "compose.h"
#include "rpc.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_same(const json_t *value)
{
    struct error err = {0};
    _cleanup_buf_ struct buf out = BUF_INIT(RPC_MESSAGE_MAX);
    json_t *again = NULL;
    if (rpc_write(&out, value) < 0)
        return;
    require(memchr(out.data, '\n', out.len) == out.data + out.len - 1);
    require(rpc_parse((const char *)out.data, out.len - 1, &again, &err) == 0);
    require(json_equal(value, again));
    json_decref(again);
}

static void check_message(json_t *value)
{
    struct rpc_message m;
    rpc_look(value, &m);
    require((m.kind == RPC_INVALID) == (m.problem != NULL));
    require((m.kind == RPC_REQUEST || m.kind == RPC_NOTIFICATION) == (m.method != NULL));
    require(m.kind != RPC_REQUEST || m.id);
    require(m.kind != RPC_RESULT || (m.id && m.result));
    require(m.kind != RPC_ERROR || m.error);
    if (m.id) {
        json_t *answer = rpc_result(m.id, json_object());
        require(answer != NULL);
        check_same(answer);
        json_decref(answer);
    }
    rpc_has_nul(value);
    check_same(value);
}

static void check_line(const struct rpc_line *line)
{
    struct error err = {0};
    json_t *value = NULL;
    require(memchr(line->data, '\n', line->size) == NULL);
    int r = rpc_parse(line->data, line->size, &value, &err);
    require((r < 0) == (value == NULL) && (r < 0) == (err.text[0] != 0));
    if (r == 0)
        check_message(value);
    json_decref(value);
}

/* All lines in pieces of that size, with their ends; too long ones as one byte. */
static void take_all(const char *data, size_t n, size_t piece, size_t max, struct buf *ret)
{
    _cleanup_rpc_reader_ struct rpc_reader in = RPC_READER_INIT(max);
    struct rpc_line line;
    while (n > 0) {
        const char *at = data;
        size_t some = n < piece ? n : piece;
        data += some;
        n -= some;
        int r;
        while ((r = rpc_take(&in, &at, &some, &line)) != 0) {
            require(r == -ENOBUFS || (r == 1 && line.size <= max));
            buf_append(ret, r > 0 ? line.data : "!", r > 0 ? line.size : 1);
            buf_append(ret, "\n", 1);
            if (r > 0)
                check_line(&line);
        }
        require(some == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2)
        return 0;
    size_t max = 1 + 16 * (size_t)data[0], piece = 1 + data[1];
    const char *text = (const char *)data + 2;
    _cleanup_buf_ struct buf whole = BUF_INIT(1u << 24), split = BUF_INIT(1u << 24);
    take_all(text, n - 2, n, max, &whole);
    take_all(text, n - 2, piece, max, &split);
    require(whole.len == split.len &&
            (!whole.len || memcmp(whole.data, split.data, whole.len) == 0));
    return 0;
}
