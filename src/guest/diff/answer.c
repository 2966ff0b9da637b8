#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "answer.h"
#include "banned.h"

/* Frames are collected up to this size before they are sent. */
#define SEND_AT (64u << 10)

void answer_free(struct answer *a)
{
    buf_free(&a->data);
    buf_free(&a->frame);
}

static int answer_send_frames(struct answer *a)
{
    if (a->status == 0 && a->frame.len)
        a->status = wire_send(a->fd, &a->frame, NULL, 0);
    return a->status;
}

void answer_begin(struct answer *a, enum wire_type type)
{
    a->begin = wire_begin(&a->frame, type);
}

int answer_end(struct answer *a)
{
    wire_end(&a->frame, a->begin);
    return a->frame.len >= SEND_AT || a->frame.failed ? answer_send_frames(a) : a->status;
}

static int answer_send_data(struct answer *a)
{
    if (a->data.len == 0)
        return a->status;
    answer_begin(a, WIRE_DATA);
    wire_put(&a->frame, WIRE_K_DATA, a->data.data, a->data.len);
    a->data.len = 0;
    return answer_end(a);
}

int answer_write(struct answer *a, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    while (n > 0 && a->status == 0) {
        size_t room = WIRE_DATA_MAX - a->data.len;
        size_t take = n < room ? n : room;
        if (buf_append(&a->data, at, take) < 0)
            return a->status = -ENOMEM;
        at += take;
        n -= take;
        if (a->data.len == WIRE_DATA_MAX)
            answer_send_data(a);
    }
    return a->status;
}

int answer_printf(struct answer *a, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        return a->status = -ENOBUFS;
    return answer_write(a, text, (size_t)n);
}

int answer_seek(struct answer *a, uint64_t offset)
{
    answer_send_data(a);
    answer_begin(a, WIRE_DATA);
    wire_put_u64(&a->frame, WIRE_K_OFFSET, offset);
    return answer_end(a);
}

int answer_flush(struct answer *a)
{
    answer_send_data(a);
    return answer_send_frames(a);
}

int answer_error(struct answer *a, const struct error *err)
{
    answer_send_data(a);
    answer_begin(a, WIRE_ERROR);
    wire_put_u64(&a->frame, WIRE_K_CODE, (uint64_t)err->code);
    wire_put_str(&a->frame, WIRE_K_TEXT, err->text);
    answer_end(a);
    return answer_flush(a);
}
