/*
 * Searching one file.
 *
 * The file is read, never mapped: another process may shrink it meanwhile. It is read into a window
 * that begins with a line; the part that can be searched ends with a line and has the context lines
 * behind it. Then the window moves on and keeps the context lines before. It grows for long lines,
 * up to a limit; a longer line is searched in pieces.
 *
 * A file with a NUL byte in the window is binary: the scan ends there, as in rg.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search.h"
#include "text.h"
#include "wire.h"
#include "banned.h"

#define WINDOW_FIRST (256u << 10)
#define BEFORE_MATCH 100u /* bytes of a long line shown before its match */

/* The window while it is searched. */
struct scan_window {
    struct scan *s;
    struct scan_result *r;
    size_t len;
    size_t whole;    /* up to here there are whole lines */
    size_t at;       /* the first line that was not searched */
    size_t numbered; /* a line start whose number is known, */
    uint64_t number; /* and its number */
    uint64_t bytes;  /* read in all */
    bool ends;       /* the file ends with it */
};

int scan_init(struct scan *s, struct matcher *matcher, unsigned context, uint64_t file_max)
{
    *s = (struct scan){
        .matcher = matcher, .context = context, .file_max = file_max, .room = WINDOW_FIRST};
    s->text = malloc(s->room);
    return s->text ? 0 : -ENOMEM;
}

void scan_free(struct scan *s)
{
    matcher_free(s->matcher);
    free(s->text);
}

/* Where the `lines` lines before `end` begin, which is a line start. */
static size_t scan_lines_before(const uint8_t *text, size_t end, unsigned lines)
{
    while (lines-- > 0 && end > 0) {
        const uint8_t *before = memrchr(text, '\n', end - 1);
        end = before ? (size_t)(before + 1 - text) : 0;
    }
    return end;
}

/* How far the window can be searched; w->at if it has to grow first. */
static size_t scan_searchable(struct scan_window *w)
{
    if (w->ends) {
        w->whole = w->len;
        return w->len;
    }
    const uint8_t *last = memrchr(w->s->text, '\n', w->len);
    w->whole = last ? (size_t)(last + 1 - w->s->text) : 0;
    size_t end = scan_lines_before(w->s->text, w->whole, w->s->context);
    if (end > w->at || w->s->room < SCAN_WINDOW_MAX)
        return end > w->at ? end : w->at;
    if (w->whole > w->at)
        return w->whole;
    w->r->partly = true;
    w->whole = w->len;
    return w->len;
}

static uint64_t count_newlines(const uint8_t *s, size_t n)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += s[i] == '\n';
    return count;
}

/* The number of the line that begins at `line`; lines are asked for in order. */
static uint64_t scan_line_number(struct scan_window *w, size_t line)
{
    w->number += count_newlines(w->s->text + w->numbered, line - w->numbered);
    w->numbered = line;
    return w->number;
}

/* A line of n bytes, or as much of it as is shown, without half a character at either end. */
static void scan_put_part(struct buf *b, uint16_t key, const uint8_t *s, size_t n, size_t from)
{
    size_t shown = n - from < SCAN_LINE_SHOWN ? n - from : SCAN_LINE_SHOWN;
    if (from > 0) {
        size_t half = utf8_cut_start(s + from, shown);
        from += half, shown -= half;
    }
    if (from + shown < n)
        shown -= utf8_cut_end(s + from, shown);
    if (from > 0)
        wire_put_u64(b, WIRE_K_OFFSET, from);
    wire_put(b, key, s + from, shown);
}

static void scan_put_context(struct buf *b, uint16_t key, const uint8_t *text, size_t from,
                             size_t to, unsigned lines)
{
    while (from < to && lines-- > 0) {
        const uint8_t *end = memchr(text + from, '\n', to - from);
        size_t n = end ? (size_t)(end - text) - from : to - from;
        size_t shown = n > 0 && text[from + n - 1] == '\r' ? n - 1 : n;
        scan_put_part(b, key, text + from, shown, 0);
        from += n + 1;
    }
}

static void scan_put_hit(struct scan_window *w, const struct hit *h)
{
    struct buf *b = &w->r->frames;
    const uint8_t *text = w->s->text;
    size_t n = h->line_end - h->line, column = h->match - h->line;
    size_t from = n > SCAN_LINE_SHOWN && column > BEFORE_MATCH ? column - BEFORE_MATCH : 0;
    size_t at = wire_begin(b, WIRE_ENTRY);
    wire_put_u64(b, WIRE_K_LINE, scan_line_number(w, h->line));
    wire_put_u64(b, WIRE_K_COLUMN, column + 1);
    wire_put_u64(b, WIRE_K_SIZE, n);
    scan_put_part(b, WIRE_K_TEXT, text + h->line, n, from);
    if (w->s->context) {
        scan_put_context(b, WIRE_K_BEFORE, text, scan_lines_before(text, h->line, w->s->context),
                         h->line, w->s->context);
        scan_put_context(b, WIRE_K_AFTER, text, h->next, w->whole, w->s->context);
    }
    wire_end(b, at);
    w->r->kept++;
}

/* Moves the window on to the first line that was not searched. The context lines before it stay,
 * unless they fill a window that cannot grow, or a line was split there. */
static void scan_move_on(struct scan_window *w)
{
    size_t from = scan_lines_before(w->s->text, w->at, w->s->context);
    bool split = w->at > 0 && w->s->text[w->at - 1] != '\n';
    if (split || (w->at - from > w->s->room / 2 && w->s->room >= SCAN_WINDOW_MAX))
        from = w->at;
    scan_line_number(w, from < w->numbered ? w->numbered : from);
    /* A line may have been numbered that stays in the window as context. */
    if (w->numbered > from) {
        w->number -= count_newlines(w->s->text + from, w->numbered - from);
        w->numbered = from;
    }
    memmove(w->s->text, w->s->text + from, w->len - from);
    w->len -= from;
    w->at -= from;
    w->numbered = 0;
}

int scan_file(struct scan *s, int fd, struct scan_result *result)
{
    struct scan_window w = {.s = s, .r = result, .number = 1};
    for (;;) {
        int r;
        while (w.len < s->room && !w.ends) {
            ssize_t n = read(fd, s->text + w.len, s->room - w.len);
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                return -errno;
            w.ends = n == 0;
            w.len += (size_t)n;
            w.bytes += (uint64_t)n;
        }
        unsigned kinds = text_kinds(s->text, w.len);
        result->binary = kinds & TEXT_NUL;
        if (result->binary)
            return 0;
        size_t end = scan_searchable(&w);
        if (end == w.at && !w.ends) {
            uint8_t *more = realloc(s->text, 2 * s->room);
            if (!more)
                return -ENOMEM;
            s->text = more;
            s->room *= 2;
            continue;
        }
        struct hit h;
        while ((r = matcher_next(s->matcher, s->text, end, kinds, w.at, &h)) > 0) {
            result->count++;
            if (result->kept < result->keep_max && result->frames.len < result->bytes_max)
                scan_put_hit(&w, &h);
            w.at = h.next;
        }
        if (r < 0)
            result->failed_line = scan_line_number(&w, h.line);
        w.at = end;
        if (r < 0 || w.ends)
            return r;
        result->partly |= w.bytes >= s->file_max;
        if (w.bytes >= s->file_max)
            return 0;
        scan_move_on(&w);
    }
}
