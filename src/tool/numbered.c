#include <inttypes.h>
#include <string.h>

#include "numbered.h"
#include "tool_result.h"
#include "banned.h"

void numbered_append(struct buf *out, const uint8_t *text, size_t n, uint64_t first)
{
    while (n > 0) {
        const uint8_t *end = memchr(text, '\n', n);
        size_t line = end ? (size_t)(end - text) : n;
        size_t shown = end && line && text[line - 1] == '\r' ? line - 1 : line;
        buf_printf(out, "%6" PRIu64 "\t", first++);
        text_append(out, text, shown);
        buf_append(out, "\n", 1);
        line += end != NULL;
        text += line;
        n -= line;
    }
}

/* The first line of the new side: @@ -1,2 +3,4 @@. 0 if it is not there. */
static uint64_t hunk_line(const uint8_t *s, size_t n)
{
    const uint8_t *plus = memchr(s, '+', n);
    uint64_t line = 0;
    for (size_t i = plus ? (size_t)(plus - s) + 1 : n;
         i < n && s[i] >= '0' && s[i] <= '9' && line < UINT32_MAX; i++)
        line = 10 * line + (uint64_t)(s[i] - '0');
    return line;
}

void numbered_append_diff(struct buf *out, const uint8_t *diff, size_t n)
{
    uint64_t line = 0;
    for (size_t at = 0, end; at < n; at = end) {
        const uint8_t *newline = memchr(diff + at, '\n', n - at);
        end = newline ? (size_t)(newline + 1 - diff) : n;
        if (diff[at] == '@') {
            line = hunk_line(diff + at, end - at);
            buf_append_str(out, at ? "   ...\n" : "");
        } else if (diff[at] == ' ' || diff[at] == '+') {
            numbered_append(out, diff + at + 1, end - at - 1, line++);
        }
    }
}

static void hexdump_line(struct buf *out, const uint8_t *data, size_t n, uint64_t offset)
{
    char shown[17];
    buf_printf(out, "%08" PRIx64 " ", offset);
    for (size_t i = 0; i < 16; i++) {
        if (i < n)
            buf_printf(out, "%s%02x", i == 8 ? "  " : " ", data[i]);
        else
            buf_append_str(out, i == 8 ? "    " : "   ");
    }
    for (size_t i = 0; i < n; i++)
        shown[i] = data[i] >= 0x20 && data[i] < 0x7f ? (char)data[i] : '.';
    shown[n] = 0;
    buf_printf(out, "  |%s|\n", shown);
}

void hexdump_append(struct buf *out, const uint8_t *data, size_t n, uint64_t offset)
{
    for (size_t at = 0; at < n; at += 16)
        hexdump_line(out, data + at, n - at < 16 ? n - at : 16, offset + at);
}
