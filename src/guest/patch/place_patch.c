/* patch's rules: see place.h. Lines are counted from 1 here, as patch does. */
#include <errno.h>
#include <string.h>

#include "buf.h"
#include "place_rules.h"
#include "banned.h"

/* How many lines need not match at both ends; negative at an end that the hunk is tied to. */
struct fuzz {
    int64_t head, tail;
};

static struct fuzz spread_fuzz(const struct hunk_lines *t, unsigned fuzz)
{
    int64_t before = (int64_t)t->before, behind = (int64_t)t->behind;
    int64_t context = before > behind ? before : behind;
    struct fuzz f = {fuzz + before - context, fuzz + behind - context};
    if (!t->hunk->numbered || t->hunk->recounted) {
        f.head = f.head < 0 ? 0 : f.head;
        f.tail = f.tail < 0 ? 0 : f.tail;
    }
    return f;
}

static struct matcher matcher_of(const struct placer *p)
{
    enum match_how how = p->call->how.ignore_space   ? MATCH_SPACE
                         : p->pattern.hunk->numbered ? MATCH_EXACT
                                                     : MATCH_BARE;
    return (struct matcher){p->img, how, p->call->work};
}

static bool matches(const struct placer *p, int64_t line, int64_t head, int64_t tail)
{
    struct matcher m = matcher_of(p);
    return line >= 1 && match_at(&m, &p->pattern, (size_t)line - 1, (size_t)head, (size_t)tail);
}

/* The range of lines where a hunk may begin. */
struct range {
    int64_t lowest, highest;
};

static int64_t search(const struct placer *p, int64_t guess, struct range range, struct fuzz f)
{
    int64_t down = range.highest - guess, up = guess - range.lowest;
    int64_t most = down > up ? down : up;
    /* A guess far outside of the file is nearest to its start or its end. */
    int64_t least = down < 0 ? -down : guess < 1 ? 1 - guess : 0;
    for (int64_t i = least; i <= most && *p->call->work; i++) {
        --*p->call->work;
        if (i <= down && matches(p, guess + i, f.head, f.tail))
            return guess + i;
        if (i > 0 && i <= up && matches(p, guess - i, f.head, f.tail))
            return guess - i;
    }
    return 0;
}

/* The line where the hunk matches, 0 if there is none. `first` is what its header says. */
static int64_t locate(const struct placer *p, int64_t first, unsigned fuzz)
{
    const struct hunk_lines *t = &p->pattern;
    struct fuzz f = spread_fuzz(t, fuzz);
    int64_t lines = (int64_t)p->img->count, n = (int64_t)t->n_old, frozen = (int64_t)p->lowest;
    int64_t guess = first + p->offset;
    struct range range = {frozen + 1, lines - (n - f.tail) + 1};
    if (n == 0)
        return guess;
    if (f.head < 0 && first <= 1) {
        if (f.tail < 0 && n != lines)
            return 0;
        bool ok = frozen <= (int64_t)t->before && 1 <= range.highest &&
                  matches(p, 1, 0, f.tail < 0 ? 0 : f.tail);
        return ok ? 1 : 0;
    }
    if (f.head < 0)
        f.head = 0;
    if (f.tail < 0) {
        int64_t only = lines - n + 1;
        return only >= range.lowest && matches(p, only, f.head, 0) ? only : 0;
    }
    return search(p, guess, range, f);
}

static int64_t locate_bare(struct placer *p, unsigned fuzz)
{
    struct matcher m = matcher_of(p);
    struct fuzz f = spread_fuzz(&p->pattern, fuzz);
    size_t at = match_bare(&m, &p->pattern, p->lowest, p->expected, (size_t)f.head, (size_t)f.tail,
                           &p->why);
    return at == SIZE_MAX ? 0 : (int64_t)at + 1;
}

static int64_t first_line(uint32_t line, size_t count)
{
    return (int64_t)line + (count == 0);
}

/* A first hunk that matches turned around, sooner than as it is, was applied before. */
static bool is_applied(struct placer *p, unsigned fuzz)
{
    const struct hunk_lines *t = &p->pattern;
    if (!p->first || !t->hunk->numbered)
        return false;
    hunk_lines_swap(&p->pattern);
    bool applied = locate(p, first_line(t->hunk->new_line, t->n_old), fuzz) > 0;
    hunk_lines_swap(&p->pattern);
    return applied;
}

/* Writes the lines of the file up to one, all of them that were not. */
static void copy_till(struct placer *p, size_t line)
{
    for (; p->lowest < line && p->lowest < p->img->count; p->lowest++) {
        const struct image_line *s = image_line(p->img, p->lowest);
        if (!p->on_new_line)
            buf_append(p->out, "\n", 1);
        buf_append(p->out, s->text, s->size);
        p->on_new_line = s->text[s->size - 1] == '\n';
    }
}

/* Where blanks do not count, line ends do not either: a new line gets those of the file. */
static void put_line(struct placer *p, const struct diff_line *line)
{
    size_t n = line->size;
    bool newline = n > 0 && line->text[n - 1] == '\n';
    if (!p->on_new_line)
        buf_append(p->out, "\n", 1);
    p->on_new_line = newline;
    if (!p->call->how.ignore_space || !newline || p->img->count == 0) {
        buf_append(p->out, line->text, n);
        return;
    }
    const struct image_line *first = image_line(p->img, 0);
    bool crlf = first->size > 1 && first->text[first->size - 2] == '\r' &&
                first->text[first->size - 1] == '\n';
    n -= n > 1 && line->text[n - 2] == '\r' ? 2 : 1;
    buf_append(p->out, line->text, n);
    buf_append_str(p->out, crlf ? "\r\n" : "\n");
}

static void write_hunk(struct placer *p, size_t where)
{
    const struct hunk_lines *t = &p->pattern;
    size_t old = 0;
    for (size_t i = 0; i < t->hunk->count; i++) {
        const struct diff_line *line = &t->lines[i];
        if (line->kind != ' ')
            copy_till(p, where - 1 + old);
        if (line->kind == '-')
            p->lowest++;
        if (line->kind == '+')
            put_line(p, line);
        old += line->kind != '+';
    }
    p->expected = where - 1 + old;
}

int place_as_patch(struct placer *p)
{
    const struct diff_hunk *h = p->pattern.hunk;
    int64_t first = first_line(h->old_line, p->pattern.n_old), where = 0;
    size_t context = p->pattern.before > p->pattern.behind ? p->pattern.before : p->pattern.behind;
    unsigned most = p->call->how.fuzz < context ? p->call->how.fuzz : (unsigned)context, fuzz = 0;
    for (;; fuzz++) {
        where = h->numbered ? locate(p, first, fuzz) : locate_bare(p, fuzz);
        if (where > 0 || fuzz == most || p->why == PLACE_SEVERAL)
            break;
        if (is_applied(p, fuzz)) {
            p->why = PLACE_APPLIED;
            return 0;
        }
    }
    if (where <= 0 || (size_t)where - 1 + p->pattern.before < p->lowest)
        return 0;
    if (h->numbered) {
        p->offset = where - first;
        place_note(p, p->offset, fuzz);
    } else {
        place_note(p, 0, fuzz);
    }
    write_hunk(p, (size_t)where);
    return 1;
}

void place_copy_rest(struct placer *p)
{
    copy_till(p, p->img->count);
}
