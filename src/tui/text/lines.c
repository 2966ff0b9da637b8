#include <stdlib.h>
#include <string.h>

#include "clean.h"
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

void lines_plain(const struct lines *l, size_t line, struct buf *out)
{
    const struct line *at = &l->all[line];
    for (size_t i = at->first; i < at->first + at->count; i++)
        buf_append(out, l->text.data + l->runs[i].at, l->runs[i].n);
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
    const struct styled *text;
    const struct margin *margin;
    struct lines *out;
    size_t span; /* that of what is placed next */
    int width, column;
    bool open, later; /* a line is begun; it is not the first */
};

static const char *wrap_text(const struct wrapper *w)
{
    return (const char *)w->text->text.data;
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
    while (w->span + 1 < w->text->count && w->text->spans[w->span].end <= at)
        w->span++;
    return w->text->spans[w->span].style;
}

/* Places [from, to), which is `width` columns wide and fits, piece by piece as styles change. */
static void wrap_put(struct wrapper *w, size_t from, size_t to, int width)
{
    wrap_begin_line(w);
    w->column += width;
    while (from < to) {
        unsigned style = wrap_style(w, from);
        size_t until = w->text->spans[w->span].end < to ? w->text->spans[w->span].end : to;
        int part = until == to ? width : clean_width(wrap_text(w) + from, until - from);
        lines_put(w->out, style, wrap_text(w) + from, until - from, part);
        width -= part;
        from = until;
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_one_of(uint32_t c, const uint32_t *set, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (set[i] == c)
            return true;
    return false;
}

/* May a line end between these two, of which one is wide? Not before what closes, nor after what
 * opens. */
static bool may_break(uint32_t before, uint32_t after)
{
    static const uint32_t closes[] = {0x3001, 0x3002, 0xff0c, 0xff0e, 0xff01, 0xff1f, 0xff1a,
                                      0xff1b, 0x300d, 0x300f, 0x3011, 0x300b, 0xff09, 0x3009,
                                      ')',    ']',    '}',    ',',    '.',    '!',    '?'};
    static const uint32_t opens[] = {0x300c, 0x300e, 0x3010, 0x300a, 0xff08, 0x3008, '(', '[', '{'};
    return !is_one_of(after, closes, ARRAY_SIZE(closes)) &&
           !is_one_of(before, opens, ARRAY_SIZE(opens));
}

/* The end of the word at `at`, and its width; no more than fits in a line. */
static size_t wrap_word_end(const struct wrapper *w, size_t at, int *ret_width)
{
    const char *s = wrap_text(w);
    size_t n = w->text->text.len, i = at, size;
    int width = 0, one, last = 0;
    uint32_t before = 0;
    while (i < n && s[i] != '\n' && !is_blank(s[i])) {
        uint32_t code = clean_decode(s + i, n - i, &size);
        size = clean_next(s + i, n - i, &one);
        if (i > at &&
            (width + one > w->width || ((one == 2 || last == 2) && may_break(before, code))))
            break;
        width += one;
        i += size;
        last = one;
        before = code;
    }
    *ret_width = width;
    return i;
}

/* Blanks between words shrink to nothing at the end of a line; at its start they are an
 * indentation. */
static void wrap_put_blanks(struct wrapper *w, size_t from, size_t n)
{
    int room = w->column ? w->width - w->column : w->width / 2;
    wrap_begin_line(w);
    for (size_t i = 0; i < n && room > 0; i++, room--) {
        lines_put(w->out, wrap_style(w, from + i), " ", 1, 1);
        w->column++;
    }
}

void wrap_words(const struct styled *s, const struct margin *m, int width, struct lines *out)
{
    struct wrapper w = {.text = s, .margin = m, .out = out, .width = width > 2 ? width : 2};
    size_t n = s->text.len, blanks = 0, blanks_at = 0;
    for (size_t i = 0; i < n;) {
        int wide;
        if (wrap_text(&w)[i] == '\n') {
            wrap_end_line(&w);
            i++;
            blanks = 0;
            continue;
        }
        if (is_blank(wrap_text(&w)[i])) {
            for (blanks_at = i; i < n && is_blank(wrap_text(&w)[i]);)
                i++;
            blanks = i - blanks_at;
            continue;
        }
        size_t to = wrap_word_end(&w, i, &wide);
        if (w.column > 0 && w.column + (int)(blanks < 4096 ? blanks : 4096) + wide > w.width)
            wrap_end_line(&w);
        else if (blanks)
            wrap_put_blanks(&w, blanks_at, blanks);
        if (w.column + wide > w.width && w.column > 0)
            wrap_end_line(&w);
        wrap_put(&w, i, to, wide);
        blanks = 0;
        i = to;
    }
    if (w.open)
        wrap_end_line(&w);
}

/* Blanks up to the next stop, within the line. */
static void wrap_put_tab(struct wrapper *w, size_t at, int tab_width)
{
    int until = w->column + tab_width - w->column % tab_width;
    wrap_begin_line(w);
    for (; w->column < until && w->column < w->width; w->column++)
        lines_put(w->out, wrap_style(w, at), " ", 1, 1);
}

/* The next stretch that fits: up to a tab, a newline, the end of the line. */
static size_t wrap_stretch_end(const struct wrapper *w, size_t at, int *ret_width)
{
    const char *s = wrap_text(w);
    size_t n = w->text->text.len;
    int width = 0, one;
    while (at < n && s[at] != '\n' && s[at] != '\t') {
        size_t size = clean_next(s + at, n - at, &one);
        if (w->column + width + one > w->width)
            break;
        width += one;
        at += size;
    }
    *ret_width = width;
    return at;
}

void wrap_exact(const struct styled *s, const struct margin *m, int width, int tab_width,
                struct lines *out)
{
    struct wrapper w = {.text = s, .margin = m, .out = out, .width = width > 2 ? width : 2};
    size_t n = s->text.len;
    for (size_t i = 0; i < n;) {
        char c = wrap_text(&w)[i];
        int wide;
        if (c == '\n') {
            wrap_end_line(&w);
            i++;
            continue;
        }
        if (w.open && w.column >= w.width)
            wrap_end_line(&w);
        if (c == '\t') {
            wrap_put_tab(&w, i++, tab_width);
            continue;
        }
        size_t to = wrap_stretch_end(&w, i, &wide);
        if (to == i) /* a wide character, and one column left */
            wrap_end_line(&w);
        else
            wrap_put(&w, i, to, wide);
        i = to;
    }
    if (w.open || n == 0)
        wrap_end_line(&w);
}

bool wrap_one(const struct styled *s, const struct margin *m, int width, int tab_width,
              struct lines *out)
{
    struct wrapper w = {.text = s, .margin = m, .out = out, .width = width > 2 ? width : 2};
    size_t n = s->text.len, i = 0;
    wrap_begin_line(&w);
    int whole = w.width, wide;
    w.width--; /* the last column is for the …, if there is more */
    while (i < n && wrap_text(&w)[i] != '\n' && w.column < w.width) {
        if (wrap_text(&w)[i] == '\t') {
            wrap_put_tab(&w, i++, tab_width);
            continue;
        }
        size_t to = wrap_stretch_end(&w, i, &wide);
        if (to == i)
            break;
        wrap_put(&w, i, to, wide);
        i = to;
    }
    bool cut = false;
    if (i < n && wrap_text(&w)[i] != '\n') {
        size_t size = clean_next(wrap_text(&w) + i, n - i, &wide);
        bool last = i + size == n || wrap_text(&w)[i + size] == '\n';
        cut = !last || wrap_text(&w)[i] == '\t' || w.column + wide > whole;
        if (cut)
            lines_put(out, ROLE_MUTED, "…", strlen("…"), 1);
        else
            wrap_put(&w, i, i + size, wide);
    }
    wrap_end_line(&w);
    return cut;
}
