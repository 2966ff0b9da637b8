#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "line.h"
#include "banned.h"

void lines_free(struct lines *l)
{
    buf_free(&l->text);
    free(l->runs);
    free(l->all);
    *l = LINES_INIT;
}

/* Room for one more; the array doubles. */
static bool grow(void **array, size_t *cap, size_t count, size_t size)
{
    if (count < *cap)
        return true;
    size_t more = *cap ? *cap * 2 : 16;
    void *bigger = reallocarray(*array, more, size);
    if (!bigger)
        return false;
    *array = bigger;
    *cap = more;
    return true;
}

void lines_put(struct lines *l, unsigned style, const char *text, size_t n, int width)
{
    if (l->failed || n == 0)
        return;
    struct run *last = l->n_runs > l->open ? &l->runs[l->n_runs - 1] : NULL;
    size_t at = l->text.len;
    if (buf_append(&l->text, text, n) < 0) {
        l->failed = true;
        return;
    }
    if (last && last->style == style) {
        last->n += (uint32_t)n;
        last->width += (uint16_t)width;
        return;
    }
    if (!grow((void **)&l->runs, &l->cap_runs, l->n_runs, sizeof *l->runs)) {
        l->failed = true;
        return;
    }
    l->runs[l->n_runs++] =
        (struct run){(uint32_t)at, (uint32_t)n, (uint16_t)style, (uint16_t)width};
}

void lines_say(struct lines *l, unsigned style, const char *text)
{
    size_t n = strlen(text);
    lines_put(l, style, text, n, clean_width(text, n));
}

void lines_end(struct lines *l)
{
    if (l->count >= LINES_MAX || !grow((void **)&l->all, &l->cap, l->count, sizeof *l->all))
        l->failed = true;
    if (l->failed)
        return;
    struct line *line = &l->all[l->count++];
    *line = (struct line){.first = l->open, .count = (uint32_t)l->n_runs - l->open};
    for (size_t i = l->open; i < l->n_runs; i++)
        line->width += l->runs[i].width;
    l->open = (uint32_t)l->n_runs;
}

void lines_cut(struct lines *l, size_t count)
{
    if (count >= l->count)
        return;
    l->open = l->all[count].first;
    if (l->open < l->n_runs)
        l->text.len = l->runs[l->open].at;
    l->n_runs = l->open;
    l->count = count;
}

void lines_plain(const struct lines *l, size_t line, struct buf *out)
{
    const struct line *at = &l->all[line];
    for (size_t i = at->first; i < at->first + at->count; i++)
        buf_append(out, l->text.data + l->runs[i].at, l->runs[i].n);
}
