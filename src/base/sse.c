#include <errno.h>
#include <string.h>

#include "sse.h"
#include "banned.h"

#define RETRY_MAX_MS (24LL * 60 * 60 * 1000)

void sse_free(struct sse *s)
{
    buf_free(&s->line);
    buf_free(&s->data);
    buf_free(&s->name);
    buf_free(&s->id);
    buf_free(&s->next_id);
}

const char *sse_last_id(struct sse *s)
{
    return s->id.len ? buf_cstr(&s->id) : NULL;
}

/* Replaces the content of a small buffer; a value that does not fit is ignored. */
static void sse_set(struct buf *b, const uint8_t *value, size_t n)
{
    if (n >= b->max)
        return;
    b->len = 0;
    if (n)
        buf_append(b, value, n);
}

static int sse_take_field(struct sse *s, const uint8_t *line, size_t n)
{
    const uint8_t *colon = memchr(line, ':', n);
    size_t name = colon ? (size_t)(colon - line) : n;
    const uint8_t *value = colon ? colon + 1 : line + n;
    size_t left = n - (size_t)(value - line);
    if (left && *value == ' ') {
        value++;
        left--;
    }
    if (name == 4 && memcmp(line, "data", 4) == 0) {
        s->has_data = true;
        if (buf_append(&s->data, value, left) < 0 || buf_append(&s->data, "\n", 1) < 0)
            return -EMSGSIZE;
    } else if (name == 5 && memcmp(line, "event", 5) == 0) {
        sse_set(&s->name, value, left);
    } else if (name == 2 && memcmp(line, "id", 2) == 0 && !memchr(value, 0, left)) {
        sse_set(&s->next_id, value, left);
    } else if (name == 5 && memcmp(line, "retry", 5) == 0 && left > 0) {
        int64_t ms = 0;
        for (size_t i = 0; i < left && ms >= 0; i++) {
            bool is_digit = value[i] >= '0' && value[i] <= '9';
            ms = is_digit ? ms * 10 + (value[i] - '0') : -1;
            if (ms > RETRY_MAX_MS)
                ms = RETRY_MAX_MS;
        }
        if (ms >= 0)
            s->retry_ms = ms;
    }
    return 0; /* a comment has an empty name */
}

/* A line has ended. Returns 1 with an event at an empty line, if there is data: an event without
 * data only sets the id. */
static int sse_end_line(struct sse *s, struct sse_event *ret)
{
    static const uint8_t MARK[] = {0xef, 0xbb, 0xbf};
    const uint8_t *line = s->line.data;
    size_t n = s->line.len;
    if (!s->began && n >= sizeof MARK && memcmp(line, MARK, sizeof MARK) == 0) {
        line += sizeof MARK;
        n -= sizeof MARK;
    }
    s->began = true;
    s->line.len = 0;
    if (n)
        return sse_take_field(s, line, n);
    sse_set(&s->id, s->next_id.data, s->next_id.len);
    if (!s->has_data) {
        s->name.len = 0;
        return 0;
    }
    s->data.len--; /* without the newline of the last data line */
    const char *name = s->name.len ? buf_cstr(&s->name) : "message";
    const char *data = buf_cstr(&s->data);
    if (!name || !data)
        return -ENOMEM;
    *ret = (struct sse_event){.type = name, .data = data, .n = s->data.len};
    s->handed_out = true;
    return 1;
}

int sse_take(struct sse *s, const char **data, size_t *n, struct sse_event *ret)
{
    if (s->handed_out) {
        s->data.len = 0;
        s->name.len = 0;
        s->has_data = false;
        s->handed_out = false;
    }
    while (*n > 0) {
        bool is_second = s->after_cr && **data == '\n';
        s->after_cr = false;
        if (is_second) {
            ++*data;
            --*n;
            continue;
        }
        const char *end = memchr(*data, '\n', *n);
        size_t piece = end ? (size_t)(end - *data) : *n;
        end = memchr(*data, '\r', piece);
        piece = end ? (size_t)(end - *data) : piece;
        if (buf_append(&s->line, *data, piece) < 0)
            return -EMSGSIZE;
        bool ended = piece < *n;
        s->after_cr = ended && (*data)[piece] == '\r';
        *data += piece + ended;
        *n -= piece + ended;
        int r = ended ? sse_end_line(s, ret) : 0;
        if (r != 0)
            return r;
    }
    return 0;
}
