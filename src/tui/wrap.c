/*
 * Each character is looked at twice at most: once to measure the word it is in, once to place it; a
 * word that is longer than a line is measured no further than the line. So time is linear in the
 * text, whatever it is.
 */
#include <string.h>

#include "clean.h"
#include "wrap.h"
#include "banned.h"

struct wrapper {
    const struct flow *flow;
    const struct margin *margin;
    struct lines *out;
    size_t span; /* that of what is placed next */
    int width, column;
    bool open, later; /* a line is begun; it is not the first */
};

static const char *text_of(const struct wrapper *w)
{
    return (const char *)w->flow->text.data;
}

static void begin(struct wrapper *w)
{
    if (w->open)
        return;
    lines_say(w->out, w->later ? w->margin->rest_style : w->margin->first_style,
              w->later ? w->margin->rest : w->margin->first);
    w->open = w->later = true;
    w->column = 0;
}

static void end(struct wrapper *w)
{
    begin(w);
    lines_end(w->out);
    w->open = false;
    w->column = 0;
}

static unsigned style_at(struct wrapper *w, size_t at)
{
    while (w->span + 1 < w->flow->count && w->flow->spans[w->span].end <= at)
        w->span++;
    return w->flow->spans[w->span].style;
}

/* Places [from, to), which is `width` columns wide and fits, piece by piece as styles change. */
static void place(struct wrapper *w, size_t from, size_t to, int width)
{
    begin(w);
    w->column += width;
    while (from < to) {
        unsigned style = style_at(w, from);
        size_t until = w->flow->spans[w->span].end < to ? w->flow->spans[w->span].end : to;
        int part = until == to ? width : clean_width(text_of(w) + from, until - from);
        lines_put(w->out, style, text_of(w) + from, until - from, part);
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

/* May a line end between these two, of which one is wide? Not before what closes, nor behind what
 * opens. */
static bool parts(uint32_t before, uint32_t after)
{
    static const uint32_t closes[] = {0x3001, 0x3002, 0xff0c, 0xff0e, 0xff01, 0xff1f, 0xff1a,
                                      0xff1b, 0x300d, 0x300f, 0x3011, 0x300b, 0xff09, 0x3009,
                                      ')',    ']',    '}',    ',',    '.',    '!',    '?'};
    static const uint32_t opens[] = {0x300c, 0x300e, 0x3010, 0x300a, 0xff08, 0x3008, '(', '[', '{'};
    return !is_one_of(after, closes, ARRAY_SIZE(closes)) &&
           !is_one_of(before, opens, ARRAY_SIZE(opens));
}

/* The end of the word at `at`, and its width; no more than fits in a line. */
static size_t word_end(const struct wrapper *w, size_t at, int *ret_width)
{
    const char *s = text_of(w);
    size_t n = w->flow->text.len, i = at, size;
    int width = 0, one, last = 0;
    uint32_t before = 0;
    while (i < n && s[i] != '\n' && !is_blank(s[i])) {
        uint32_t code = clean_decode(s + i, n - i, &size);
        size = clean_next(s + i, n - i, &one);
        if (i > at && (width + one > w->width || ((one == 2 || last == 2) && parts(before, code))))
            break;
        width += one;
        i += size;
        last = one;
        before = code;
    }
    *ret_width = width;
    return i;
}

static size_t blanks_end(const struct wrapper *w, size_t at)
{
    while (at < w->flow->text.len && is_blank(text_of(w)[at]))
        at++;
    return at;
}

/* Blanks between words shrink to nothing at the end of a line; at its start they are an
 * indentation. */
static void put_blanks(struct wrapper *w, size_t from, size_t n)
{
    int room = w->column ? w->width - w->column : w->width / 2;
    begin(w);
    for (size_t i = 0; i < n && room > 0; i++, room--) {
        lines_put(w->out, style_at(w, from + i), " ", 1, 1);
        w->column++;
    }
}

void wrap_words(const struct flow *f, const struct margin *m, int width, struct lines *out)
{
    struct wrapper w = {.flow = f, .margin = m, .out = out, .width = width > 2 ? width : 2};
    size_t n = f->text.len, blanks = 0, blanks_at = 0;
    for (size_t i = 0; i < n;) {
        int wide;
        if (text_of(&w)[i] == '\n') {
            end(&w);
            i++;
            blanks = 0;
            continue;
        }
        size_t behind = blanks_end(&w, i);
        if (behind > i) {
            blanks_at = i;
            blanks = behind - i;
            i = behind;
            continue;
        }
        size_t to = word_end(&w, i, &wide);
        if (w.column > 0 && w.column + (int)(blanks < 4096 ? blanks : 4096) + wide > w.width)
            end(&w);
        else if (blanks)
            put_blanks(&w, blanks_at, blanks);
        if (w.column + wide > w.width && w.column > 0)
            end(&w);
        place(&w, i, to, wide);
        blanks = 0;
        i = to;
    }
    if (w.open)
        end(&w);
}

/* Blanks up to the next stop, within the line. */
static void put_tab(struct wrapper *w, size_t at, int tab)
{
    int until = w->column + tab - w->column % tab;
    begin(w);
    for (; w->column < until && w->column < w->width; w->column++)
        lines_put(w->out, style_at(w, at), " ", 1, 1);
}

/* The next stretch that fits: up to a tab, a line end, the end of the line. */
static size_t stretch_end(const struct wrapper *w, size_t at, int *ret_width)
{
    const char *s = text_of(w);
    size_t n = w->flow->text.len;
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

void wrap_exact(const struct flow *f, const struct margin *m, int width, int tab, struct lines *out)
{
    struct wrapper w = {.flow = f, .margin = m, .out = out, .width = width > 2 ? width : 2};
    size_t n = f->text.len;
    for (size_t i = 0; i < n;) {
        char c = text_of(&w)[i];
        int wide;
        if (c == '\n') {
            end(&w);
            i++;
            continue;
        }
        if (w.open && w.column >= w.width)
            end(&w);
        if (c == '\t') {
            put_tab(&w, i++, tab);
            continue;
        }
        size_t to = stretch_end(&w, i, &wide);
        if (to == i) /* a wide character, and one column left */
            end(&w);
        else
            place(&w, i, to, wide);
        i = to;
    }
    if (w.open || n == 0)
        end(&w);
}

bool wrap_one(const struct flow *f, const struct margin *m, int width, int tab, struct lines *out)
{
    struct wrapper w = {.flow = f, .margin = m, .out = out, .width = width > 2 ? width : 2};
    size_t n = f->text.len, i = 0;
    begin(&w);
    int whole = w.width, wide;
    w.width--; /* the last column is for the …, if there is more */
    while (i < n && text_of(&w)[i] != '\n' && w.column < w.width) {
        if (text_of(&w)[i] == '\t') {
            put_tab(&w, i++, tab);
            continue;
        }
        size_t to = stretch_end(&w, i, &wide);
        if (to == i)
            break;
        place(&w, i, to, wide);
        i = to;
    }
    bool cut = false;
    if (i < n && text_of(&w)[i] != '\n') {
        size_t size = clean_next(text_of(&w) + i, n - i, &wide);
        bool last = i + size == n || text_of(&w)[i + size] == '\n';
        cut = !last || text_of(&w)[i] == '\t' || w.column + wide > whole;
        if (cut)
            lines_put(out, ROLE_MUTED, "…", strlen("…"), 1);
        else
            place(&w, i, i + size, wide);
    }
    end(&w);
    return cut;
}
