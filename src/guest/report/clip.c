#include <string.h>

#include "report.h"
#include "banned.h"

void clip_add(struct clip *c, const void *data, size_t n)
{
    const uint8_t *at = data;
    c->total += n;
    size_t room = CLIP_HEAD - c->head.len, first = n < room ? n : room;
    if (buf_append(&c->head, at, first) < 0)
        return;
    at += first;
    n -= first;
    if (n > CLIP_TAIL) {
        at += n - CLIP_TAIL;
        n = CLIP_TAIL;
    }
    if (c->tail.len + n > CLIP_TAIL * 2)
        buf_consume(&c->tail, c->tail.len - CLIP_TAIL);
    buf_append(&c->tail, at, n);
}

void clip_add_str(struct clip *c, const char *s)
{
    clip_add(c, s, strlen(s));
}

void clip_reset(struct clip *c)
{
    c->head.len = c->tail.len = c->total = 0;
}

void clip_free(struct clip *c)
{
    buf_free(&c->head);
    buf_free(&c->tail);
    buf_free(&c->whole);
}

const char *clip_text(struct clip *c)
{
    size_t kept = c->tail.len < CLIP_TAIL ? c->tail.len : CLIP_TAIL;
    c->whole.len = 0;
    buf_append(&c->whole, c->head.data, c->head.len);
    if (c->total > c->head.len + kept)
        buf_printf(&c->whole, "\n[... %zu bytes left out ...]\n", c->total - c->head.len - kept);
    if (kept)
        buf_append(&c->whole, c->tail.data + c->tail.len - kept, kept);
    const char *text = buf_cstr(&c->whole);
    return text ? text : "";
}
