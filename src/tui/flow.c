#include <stdlib.h>
#include <string.h>

#include "wrap.h"
#include "banned.h"

void flow_free(struct flow *f)
{
    buf_free(&f->text);
    free(f->spans);
    *f = FLOW_INIT;
}

void flow_clear(struct flow *f)
{
    f->text.len = 0;
    f->text.failed = false;
    f->count = 0;
}

static bool new_span(struct flow *f)
{
    if (f->count < f->cap)
        return true;
    size_t more = f->cap ? f->cap * 2 : 8;
    struct span *bigger = reallocarray(f->spans, more, sizeof *bigger);
    if (!bigger)
        return false;
    f->spans = bigger;
    f->cap = more;
    return true;
}

void flow_add(struct flow *f, unsigned style, const char *text, size_t n)
{
    bool same = f->count && f->spans[f->count - 1].style == style;
    if (n == 0 || (!same && !new_span(f)) || buf_append(&f->text, text, n) < 0)
        return;
    if (!same)
        f->spans[f->count++].style = (uint16_t)style;
    f->spans[f->count - 1].end = (uint32_t)f->text.len;
}

void flow_say(struct flow *f, unsigned style, const char *text)
{
    flow_add(f, style, text, strlen(text));
}
