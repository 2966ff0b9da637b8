#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "lines.h"
#include "banned.h"

/* Makes room for one more element; the array doubles. */
static bool array_grow(void **array, size_t *cap, size_t count, size_t size)
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

void lines_free(struct lines *l)
{
    buf_free(&l->text);
    free(l->runs);
    free(l->all);
    *l = LINES_INIT;
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
    if (!array_grow((void **)&l->runs, &l->cap_runs, l->n_runs, sizeof *l->runs)) {
        l->failed = true;
        return;
    }
    l->runs[l->n_runs++] =
        (struct run){(uint32_t)at, (uint32_t)n, (uint16_t)style, (uint16_t)width};
}

void lines_puts(struct lines *l, unsigned style, const char *text)
{
    size_t n = strlen(text);
    lines_put(l, style, text, n, clean_width(text, n));
}

void lines_end(struct lines *l)
{
    if (l->count >= LINES_MAX || !array_grow((void **)&l->all, &l->cap, l->count, sizeof *l->all))
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

/* Styled text. */

void styled_free(struct styled *s)
{
    buf_free(&s->text);
    free(s->spans);
    *s = STYLED_INIT;
}

void styled_clear(struct styled *s)
{
    s->text.len = 0;
    s->text.failed = false;
    s->count = 0;
}

void styled_add(struct styled *s, unsigned style, const char *text, size_t n)
{
    bool same = s->count && s->spans[s->count - 1].style == style;
    if (n == 0 || (!same && !array_grow((void **)&s->spans, &s->cap, s->count, sizeof *s->spans)) ||
        buf_append(&s->text, text, n) < 0)
        return;
    if (!same)
        s->spans[s->count++].style = (uint16_t)style;
    s->spans[s->count - 1].end = (uint32_t)s->text.len;
}

void styled_puts(struct styled *s, unsigned style, const char *text)
{
    styled_add(s, style, text, strlen(text));
}

void styled_append(struct styled *to, const struct styled *from)
{
    size_t at = 0;
    for (size_t i = 0; i < from->count; at = from->spans[i++].end)
        styled_add(to, from->spans[i].style, (const char *)from->text.data + at,
                   from->spans[i].end - at);
}

int styled_width(const struct styled *s)
{
    return s->text.len ? clean_width((const char *)s->text.data, s->text.len) : 0;
}

void lines_put_styled(struct lines *l, const struct styled *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->count; at = s->spans[i++].end)
        lines_put(l, s->spans[i].style, (const char *)s->text.data + at, s->spans[i].end - at,
                  clean_width((const char *)s->text.data + at, s->spans[i].end - at));
}

/*
 * Wrapping. Each character is looked at twice at most: once to measure its word, once to place it;
 * a word longer than a line is measured no further than the line. So time is linear in the text.
 */

struct wrapper {
    const struct styled *styled;
    const char *text;
    size_t n;
    const struct margin *margin;
    struct lines *out;
    size_t span; /* that of what is placed next */
    int width, column;
    bool open, later; /* a line is begun; it is not the first */
};

static struct wrapper wrapper_open(const struct styled *s, const struct margin *m, int width,
                                   struct lines *out)
{
    return (struct wrapper){.styled = s,
                            .text = (const char *)s->text.data,
                            .n = s->text.len,
                            .margin = m,
                            .out = out,
                            .width = width > 2 ? width : 2};
}

static void wrap_begin_line(struct wrapper *w)
{
    if (w->open)
        return;
    lines_puts(w->out, w->later ? w->margin->rest_style : w->margin->first_style,
               w->later ? w->margin->rest : w->margin->first);
    w->open = w->later = true;
    w->column = 0;
}

static void wrap_end_line(struct wrapper *w)
{
    wrap_begin_line(w);
    lines_end(w->out);
    w->open = false;
    w->column = 0;
}

static unsigned wrap_style(struct wrapper *w, size_t at)
{
    while (w->span + 1 < w->styled->count && w->styled->spans[w->span].end <= at)
        w->span++;
    return w->styled->spans[w->span].style;
}

/* Places [from, to), which is `width` columns wide and fits, piece by piece as styles change. */
static void wrap_put(struct wrapper *w, size_t from, size_t to, int width)
{
    wrap_begin_line(w);
    w->column += width;
    while (from < to) {
        unsigned style = wrap_style(w, from);
        uint32_t end = w->styled->spans[w->span].end;
        size_t until = end < to ? end : to;
        int part = until == to ? width : clean_width(w->text + from, until - from);
        lines_put(w->out, style, w->text + from, until - from, part);
        width -= part;
        from = until;
    }
}

/* Places `width` blanks in the style of what is at `at`. */
static void wrap_put_blanks(struct wrapper *w, size_t at, int width)
{
    wrap_begin_line(w);
    for (w->column += width; width > 0; width--)
        lines_put(w->out, wrap_style(w, at), " ", 1, 1);
}

/* The end of the word at `at`, and its width; no more than fits in a line. A line may end beside a
 * wide character, but not before what closes, nor after what opens. */
static size_t wrap_word_end(const struct wrapper *w, size_t at, int *ret_width)
{
    static const wchar_t closes[] = L"\u3001\u3002\uff0c\uff0e\uff01\uff1f\uff1a\uff1b\u300d\u300f"
                                    L"\u3011\u300b\uff09\u3009)]},.!?";
    static const wchar_t opens[] = L"\u300c\u300e\u3010\u300a\uff08\u3008([{";
    size_t i = at, size;
    int width = 0, one, last = 0;
    wchar_t before = 0;
    while (i < w->n && !strchr("\n \t", w->text[i])) {
        wchar_t code = (wchar_t)clean_decode(w->text + i, w->n - i, &size);
        size = clean_next(w->text + i, w->n - i, &one);
        bool may_break = (one == 2 || last == 2) && !wcschr(closes, code) && !wcschr(opens, before);
        if (i > at && (width + one > w->width || may_break))
            break;
        width += one;
        i += size;
        last = one;
        before = code;
    }
    *ret_width = width;
    return i;
}

void wrap_words(const struct styled *s, const struct margin *m, int width, struct lines *out)
{
    struct wrapper w = wrapper_open(s, m, width, out);
    for (size_t i = 0; i < w.n;) {
        size_t blanks_at = i, to;
        int word;
        while (i < w.n && (w.text[i] == ' ' || w.text[i] == '\t'))
            i++;
        int blanks = i - blanks_at < 4096 ? (int)(i - blanks_at) : 4096;
        if (i == w.n)
            break;
        if (w.text[i] == '\n') {
            wrap_end_line(&w);
            i++;
            continue;
        }
        to = wrap_word_end(&w, i, &word);
        if (w.column > 0 && w.column + blanks + word > w.width) {
            wrap_end_line(&w);
        } else if (blanks) {
            /* At the start of a line, blanks are an indentation. */
            int room = w.column ? w.width - w.column : w.width / 2;
            wrap_put_blanks(&w, blanks_at, blanks < room ? blanks : room);
        }
        if (w.column + word > w.width && w.column > 0)
            wrap_end_line(&w);
        wrap_put(&w, i, to, word);
        i = to;
    }
    if (w.open)
        wrap_end_line(&w);
}

/* Places what fits in the rest of the line: a tab, or text up to a tab or newline. Returns its end;
 * `at`: nothing fits. */
static size_t wrap_put_stretch(struct wrapper *w, size_t at, int tab_width)
{
    size_t to = at, size;
    int width = 0, one;
    if (w->text[at] == '\t') {
        int until = w->column + tab_width - w->column % tab_width;
        wrap_put_blanks(w, at, (until < w->width ? until : w->width) - w->column);
        return at + 1;
    }
    while (to < w->n && w->text[to] != '\n' && w->text[to] != '\t') {
        size = clean_next(w->text + to, w->n - to, &one);
        if (w->column + width + one > w->width)
            break;
        width += one;
        to += size;
    }
    if (to > at)
        wrap_put(w, at, to, width);
    return to;
}

void wrap_exact(const struct styled *s, const struct margin *m, int width, int tab_width,
                struct lines *out)
{
    struct wrapper w = wrapper_open(s, m, width, out);
    for (size_t i = 0, to; i < w.n; i = to) {
        if (w.text[i] == '\n') {
            wrap_end_line(&w);
            to = i + 1;
            continue;
        }
        if (w.open && w.column >= w.width)
            wrap_end_line(&w);
        to = wrap_put_stretch(&w, i, tab_width);
        if (to == i) /* a wide character, and one column left */
            wrap_end_line(&w);
    }
    if (w.open || w.n == 0)
        wrap_end_line(&w);
}

bool wrap_one(const struct styled *s, const struct margin *m, int width, int tab_width,
              struct lines *out)
{
    struct wrapper w = wrapper_open(s, m, width, out);
    const char *newline = w.n ? memchr(w.text, '\n', w.n) : NULL;
    int total = 0, one;
    w.n = newline ? (size_t)(newline - w.text) : w.n;
    for (size_t i = 0; i < w.n && total <= w.width; total += one) {
        size_t size = clean_next(w.text + i, w.n - i, &one);
        if (w.text[i] == '\t')
            one = tab_width - total % tab_width;
        i += size;
    }
    bool cut = total > w.width;
    w.width -= cut; /* the last column is for the … */
    wrap_begin_line(&w);
    for (size_t i = 0, to; i < w.n && w.column < w.width; i = to) {
        to = wrap_put_stretch(&w, i, tab_width);
        if (to == i)
            break;
    }
    if (cut)
        lines_puts(out, ROLE_MUTED, "…");
    wrap_end_line(&w);
    return cut;
}
