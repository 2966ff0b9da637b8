#include <stdio.h>

#include "clock.h"
#include "ticker.h"
#include "utf8.h"
#include "banned.h"

#define EACH (500 * NS_PER_MS)

void ticker_start(struct ticker *t, const struct tool_call *c)
{
    t->progress = c->progress;
    t->began = clock_now();
    t->next = t->began + EACH;
}

static bool is_blank(uint8_t c)
{
    return c == '\n' || c == '\r' || c == ' ';
}

/* The last line that is not blank, or the end of it. */
static void last_line(const struct box_capture *c, char *line, size_t size)
{
    const struct buf *b = c->tail.len ? &c->tail : &c->head;
    size_t end = b->len;
    while (end > 0 && is_blank(b->data[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && b->data[begin - 1] != '\n' && b->data[begin - 1] != '\r' &&
           end - begin < size / 4)
        begin--;
    begin += utf8_cut_start(b->data + begin, end - begin);
    _cleanup_buf_ struct buf text = BUF_INIT(4 * size);
    text_append(&text, b->data + begin, end - begin);
    snprintf(line, size, "%s", text.len && buf_cstr(&text) ? (const char *)text.data : "");
}

void ticker_tick(struct ticker *t, const struct box_capture *output)
{
    int64_t now = clock_now();
    char line[256];
    if (!t->progress || now < t->next)
        return;
    t->next = now + EACH;
    last_line(output, line, sizeof line);
    t->progress->say(t->progress->data, (double)(now - t->began) / NS_PER_S, line);
}
