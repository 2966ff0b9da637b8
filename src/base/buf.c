#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "banned.h"

void buf_free(struct buf *b)
{
    free(b->data);
    *b = BUF_INIT(b->max);
}

/* Grows to at least `need` bytes of capacity by doubling, never past max. */
static int grow(struct buf *b, size_t need)
{
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap = cap > b->max / 2 ? b->max : cap * 2;
    if (cap > b->max)
        cap = b->max;
    uint8_t *data = realloc(b->data, cap);
    if (!data)
        return -ENOMEM;
    b->data = data;
    b->cap = cap;
    return 0;
}

void *buf_reserve(struct buf *b, size_t n)
{
    if (b->failed || n > b->max - b->len) {
        b->failed = true;
        return NULL;
    }
    if ((b->len + n > b->cap || !b->data) && grow(b, b->len + n) < 0) {
        b->failed = true;
        return NULL;
    }
    return b->data + b->len;
}

int buf_append(struct buf *b, const void *data, size_t n)
{
    void *at = buf_reserve(b, n);
    if (!at)
        return -ENOBUFS;
    if (n)
        memcpy(at, data, n);
    b->len += n;
    return 0;
}

int buf_append_str(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    _cleanup_free_ char *text = NULL;
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) {
        text = NULL;
        b->failed = true;
        return -ENOMEM;
    }
    return buf_append(b, text, (size_t)n);
}

void buf_end_line(struct buf *b)
{
    if (b->len && b->data[b->len - 1] != '\n')
        buf_append(b, "\n", 1);
}

char *str_printf(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    return n < 0 ? NULL : text;
}

void buf_consume(struct buf *b, size_t n)
{
    if (n >= b->len) {
        b->len = 0;
        return;
    }
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}

char *buf_cstr(struct buf *b)
{
    uint8_t *at = buf_reserve(b, 1);
    if (!at)
        return NULL;
    *at = 0;
    return (char *)b->data;
}
