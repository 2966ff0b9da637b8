#include <errno.h>

#include "body.h"
#include "banned.h"

#define SIZE_LIMIT   (1ull << 60)
#define LINE_MAX_LEN 4096

/* The chunked coding, byte by byte: SIZE [; extension] CRLF data CRLF … 0 CRLF [trailer CRLF]… CRLF
 */
enum state {
    SIZE_FIRST,
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST,
    TRAILER,
    TRAILER_LF,
    LAST_LF
};

void proxy_body_begin(struct proxy_body *b, const struct proxy_request *r)
{
    *b = (struct proxy_body){.kind = r->body, .left = r->body_length, .state = SIZE_FIRST};
    b->done = r->body == PROXY_BODY_NONE;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static int add_digit(struct proxy_body *b, char c)
{
    if (hex_value(c) < 0 || b->left >= SIZE_LIMIT >> 4)
        return -EBADMSG;
    b->left = b->left << 4 | (uint64_t)hex_value(c);
    return SIZE;
}

static int expect(char c, char wanted, enum state next)
{
    return c == wanted ? (int)next : -EBADMSG;
}

/* Text within a line: no controls but the tab. */
static int text(char c, enum state stay, enum state at_end)
{
    if (c == '\r')
        return at_end;
    return c == '\t' || (unsigned char)c >= 0x20 ? (int)stay : -EBADMSG;
}

/* The state after one byte, or -EBADMSG. */
static int step(struct proxy_body *b, char c)
{
    switch ((enum state)b->state) {
    case SIZE_FIRST:
        b->left = 0;
        return add_digit(b, c);
    case SIZE:
        if (c == '\r')
            return SIZE_LF;
        return c == ';' ? (int)EXTENSION : add_digit(b, c);
    case EXTENSION:
        return text(c, EXTENSION, SIZE_LF);
    case SIZE_LF:
        return expect(c, '\n', b->left ? DATA : TRAILER_FIRST);
    case DATA_CR:
        return expect(c, '\r', DATA_LF);
    case DATA_LF:
        return expect(c, '\n', SIZE_FIRST);
    case TRAILER_FIRST:
        return text(c, TRAILER, LAST_LF);
    case TRAILER:
        return text(c, TRAILER, TRAILER_LF);
    case TRAILER_LF:
        return expect(c, '\n', TRAILER_FIRST);
    case LAST_LF:
        b->done = c == '\n';
        return expect(c, '\n', LAST_LF);
    case DATA: /* is skipped as a whole */
        break;
    }
    return -EBADMSG;
}

/* Skips up to n bytes of data and returns how many. */
static size_t skip_data(struct proxy_body *b, size_t n)
{
    size_t take = n < b->left ? n : (size_t)b->left;
    b->left -= take;
    return take;
}

static ssize_t scan_chunked(struct proxy_body *b, const char *data, size_t n)
{
    size_t i = 0;
    while (i < n && !b->done) {
        if (b->state == DATA) {
            i += skip_data(b, n - i);
            b->state = b->left ? DATA : DATA_CR;
            b->in_line = 0;
            continue;
        }
        b->state = step(b, data[i++]);
        if (b->state < 0 || ++b->in_line > LINE_MAX_LEN)
            return -EBADMSG;
    }
    return (ssize_t)i;
}

ssize_t proxy_body_scan(struct proxy_body *b, const char *data, size_t n)
{
    if (b->done)
        return 0;
    if (b->kind == PROXY_BODY_CHUNKED)
        return scan_chunked(b, data, n);
    size_t used = skip_data(b, n);
    b->done = b->left == 0;
    return (ssize_t)used;
}
