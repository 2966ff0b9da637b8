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

/* Digits only, or it says nothing. */
static void take_retry(struct sse *s, const uint8_t *value, size_t n)
{
    int64_t ms = 0;
    for (size_t i = 0; i < n; i++) {
        if (value[i] < '0' || value[i] > '9')
            return;
        ms = ms * 10 + (value[i] - '0');
        if (ms > RETRY_MAX_MS)
            ms = RETRY_MAX_MS;
    }
    if (n)
        s->retry_ms = ms;
}

/* Replaces what a small buffer holds; what does not fit is as if it had not been said. */
static void replace(struct buf *b, const uint8_t *value, size_t n)
{
    if (n >= b->max)
        return;
    b->len = 0;
    if (n)
        buf_append(b, value, n);
}

static int take_field(struct sse *s, const uint8_t *line, size_t n)
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
        replace(&s->name, value, left);
    } else if (name == 2 && memcmp(line, "id", 2) == 0 && !memchr(value, 0, left)) {
        replace(&s->next_id, value, left);
    } else if (name == 5 && memcmp(line, "retry", 5) == 0) {
        take_retry(s, value, left);
    }
    return 0; /* a comment has an empty name */
}

/* The end of an event. 1 if it is one: an event without data only sets the id. */
static int dispatch(struct sse *s, struct sse_event *ret)
{
    replace(&s->id, s->next_id.data, s->next_id.len);
    if (!s->has_data) {
        s->name.len = 0;
        return 0;
    }
    s->data.len--; /* the last newline is none of its own */
    const char *name = s->name.len ? buf_cstr(&s->name) : "message";
    const char *data = buf_cstr(&s->data);
    if (!name || !data)
        return -ENOMEM;
    *ret = (struct sse_event){.type = name, .data = data, .n = s->data.len};
    s->handed_out = true;
    return 1;
}

static void forget(struct sse *s)
{
    s->data.len = 0;
    s->name.len = 0;
    s->has_data = false;
    s->handed_out = false;
}

static int end_line(struct sse *s, struct sse_event *ret)
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
    return n ? take_field(s, line, n) : dispatch(s, ret);
}

static size_t find_end(const char *data, size_t n)
{
    const char *lf = memchr(data, '\n', n);
    size_t most = lf ? (size_t)(lf - data) : n;
    const char *cr = memchr(data, '\r', most);
    return cr ? (size_t)(cr - data) : most;
}

int sse_take(struct sse *s, const char **data, size_t *n, struct sse_event *ret)
{
    if (s->handed_out)
        forget(s);
    while (*n > 0) {
        if (s->after_cr && **data == '\n') {
            ++*data;
            --*n;
            s->after_cr = false;
            continue;
        }
        s->after_cr = false;
        size_t piece = find_end(*data, *n);
        if (buf_append(&s->line, *data, piece) < 0)
            return -EMSGSIZE;
        bool ended = piece < *n;
        s->after_cr = ended && (*data)[piece] == '\r';
        *data += piece + ended;
        *n -= piece + ended;
        int r = ended ? end_line(s, ret) : 0;
        if (r != 0)
            return r;
    }
    return 0;
}
