#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "item.h"
#include "banned.h"

struct item *item_new(enum item_kind kind)
{
    struct item *it = calloc(1, sizeof *it);
    if (!it)
        return NULL;
    it->kind = kind;
    it->raw = BUF_INIT(ITEM_TEXT_MAX);
    it->text = BUF_INIT(ITEM_TEXT_MAX);
    it->lines = LINES_INIT;
    it->stale = true;
    return it;
}

struct item *item_free(struct item *it)
{
    if (!it)
        return NULL;
    item_forget(it);
    buf_free(&it->raw);
    buf_free(&it->text);
    free(it->id);
    free(it->name);
    free(it->summary);
    free(it->outcome);
    free(it->last);
    free(it);
    return NULL;
}

char *clean_string(const char *text, size_t n, size_t most)
{
    _cleanup_buf_ struct buf b = BUF_INIT(most * CLEAN_GROWTH + 8);
    clean_append(&b, text, n < most ? n : most, true);
    char *s = buf_cstr(&b);
    return strdup(s ? s : "");
}

void item_say(struct item *it, const char *text, size_t n, bool output)
{
    clean_append(&it->text, text, n, output);
    it->stale = true;
}

void item_stream(struct item *it, const char *text, size_t n)
{
    buf_append(&it->raw, text, n);
    item_say(it, text, n, false);
}

void item_stream_cut(struct item *it, size_t keep)
{
    if (keep >= it->raw.len)
        return;
    it->raw.len = keep;
    it->raw.failed = it->text.failed = false;
    it->text.len = 0;
    if (it->width)
        item_forget(it); /* lines are only ever added to a document */
    item_say(it, (const char *)it->raw.data, keep, false);
}

void item_forget(struct item *it)
{
    lines_free(&it->lines);
    if (it->kind == ITEM_ANSWER && it->width)
        markdown_free(&it->markdown);
    it->width = 0;
    it->stale = true;
}

bool item_moves(const struct item *it)
{
    return it->kind == ITEM_PASSING || (it->kind == ITEM_CALL && it->state == CALL_RUNNING) ||
           (it->kind == ITEM_THINKING && !it->over);
}

size_t item_height(const struct item *it, int width)
{
    if (it->height)
        return it->height;
    if (it->kind == ITEM_CALL || it->kind == ITEM_THINKING)
        return 1 + it->body.head + it->body.tail;
    return 1 + it->text.len / (size_t)(width > 20 ? width * 2 / 3 : 14);
}

const char *spinner(unsigned tick)
{
    static const char *const frames[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    return frames[tick % ARRAY_SIZE(frames)];
}
