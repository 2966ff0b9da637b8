/*
 * Finds the place of each hunk in a file, and writes the patched file.
 *
 * The rules are those of GNU patch. Hunks are compared with the lines that the file had before. A
 * hunk is expected at the offset of the one before it; the search begins there and goes one line
 * further down, one further up, and so on. It must not change lines above the hunk before it, but
 * may share context with it. It is tied to an end of the file only if it has less context there
 * than at its other end. With fuzz N, N lines of context at its ends need not match. Wherever `git
 * apply` would apply a diff, these rules do too, with the same result (test_diff_corpus.py).
 *
 * A hunk whose counts were wrong is tied to no end, since it may have lost lines. A hunk without
 * line numbers must match at one place only, or behind the line that its header names.
 */
#include <errno.h>
#include <stdlib.h>

#include "linediff.h"
#include "patch.h"
#include "../edit/edit.h"
#include "banned.h"

int text_lines_split(const uint8_t *data, size_t size, struct text_lines *ret)
{
    struct text_lines t = {0};
    const uint8_t *end = size ? data + size : data;
    for (const uint8_t *at = data; at < end; t.count++) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    if (t.count > TEXT_LINES_MAX)
        return -E2BIG;
    t.lines = calloc(t.count + 1, sizeof *t.lines);
    if (!t.lines)
        return -ENOMEM;
    for (size_t i = 0; i < t.count; i++) {
        const uint8_t *newline = memchr(data, '\n', (size_t)(end - data));
        size_t n = (size_t)((newline ? newline + 1 : end) - data);
        t.lines[i] = (struct text_line){data, (uint32_t)n};
        data += n;
    }
    *ret = t;
    return 0;
}

void text_lines_free(struct text_lines *t)
{
    free(t->lines);
    *t = (struct text_lines){0};
}

int hunk_lines_make(const struct diff *d, const struct diff_hunk *h, struct hunk_lines *ret)
{
    struct hunk_lines p = {.hunk = h,
                           .old = calloc(h->old_count + 1, sizeof *p.old),
                           .new = calloc(h->new_count + 1, sizeof *p.new)};
    bool changed = false;
    if (!p.old || !p.new) {
        hunk_lines_free(&p);
        return -ENOMEM;
    }
    for (size_t i = 0; i < h->count; i++) {
        const struct diff_line *line = &d->lines[h->first + i];
        struct text_line as = {line->text, line->size};
        if (line->kind != '+')
            p.old[p.n_old++] = as;
        if (line->kind != '-')
            p.new[p.n_new++] = as;
        changed |= line->kind != ' ';
        p.before += !changed;
        p.behind = line->kind == ' ' ? p.behind + 1 : 0;
    }
    *ret = p;
    return 0;
}

void hunk_lines_free(struct hunk_lines *p)
{
    free(p->old);
    free(p->new);
    *p = (struct hunk_lines){0};
}

/* Turns the hunk around: its result is what is looked for. */
static void hunk_lines_swap(struct hunk_lines *p)
{
    struct text_line *old = p->old;
    size_t n = p->n_old;
    p->old = p->new;
    p->n_old = p->n_new;
    p->new = old;
    p->n_new = n;
}

struct placer {
    const struct place_call *call;
    struct text_lines *file;
    struct hunk_lines pattern;
    size_t *placed; /* for each hunk the line where it begins, from 0 */
    size_t n_placed;
    enum place_why why; /* of the hunk that is being placed */
    size_t expected;    /* the line behind the hunk before it */
    size_t lowest;      /* the first line that no hunk has changed or passed */
    int64_t offset;     /* of the hunk before */
    struct place_result result;
};

enum match_how {
    MATCH_EXACT,
    MATCH_LAST_NEWLINE, /* a newline may be missing at the end of the file */
    MATCH_SPACE         /* blanks and carriage returns at the ends of lines do not count, too */
};

static uint32_t length_without_space(const struct text_line *a)
{
    uint32_t n = a->size;
    while (n > 0 && strchr(" \t\r\n", a->text[n - 1]) && a->text[n - 1])
        n--;
    return n;
}

/* Do the old lines match from line `at` (from 0) on, less so many at the head and at the tail? */
static bool match_at(const struct placer *p, enum match_how how, size_t at, size_t head,
                     size_t tail)
{
    const struct hunk_lines *t = &p->pattern;
    if (head + tail > t->n_old)
        return true;
    if (at + t->n_old - tail > p->file->count)
        return false;
    for (size_t i = head; i < t->n_old - tail; i++) {
        const struct text_line *have = &p->file->lines[at + i], *want = &t->old[i];
        uint32_t n = have->size, n_want = want->size;
        if (*p->call->work == 0)
            return false;
        --*p->call->work;
        if (how == MATCH_SPACE) {
            n = length_without_space(have);
            n_want = length_without_space(want);
        } else if (how == MATCH_LAST_NEWLINE && at + i + 1 == p->file->count && n + 1 == n_want &&
                   want->text[n] == '\n') {
            n_want = n;
        }
        if (n != n_want || memcmp(have->text, want->text, n) != 0)
            return false;
    }
    return true;
}

/* The first line from `from` on where they match; SIZE_MAX if there is none. */
static size_t match_find(const struct placer *p, enum match_how how, size_t from, size_t head,
                         size_t tail)
{
    for (size_t at = from; at + p->pattern.n_old <= p->file->count + tail && *p->call->work; at++)
        if (match_at(p, how, at, head, tail))
            return at;
    return SIZE_MAX;
}

/* The first line from `from` on that reads as the anchor of a hunk without numbers. */
static size_t find_anchor(const struct placer *p, size_t from)
{
    struct slice anchor = p->pattern.hunk->anchor;
    for (size_t i = from; i < p->file->count && *p->call->work; i++) {
        const struct text_line *line = &p->file->lines[i];
        struct slice s =
            slice_trim((struct slice){(const char *)line->text, length_without_space(line)});
        --*p->call->work;
        if (s.size == anchor.size && memcmp(s.at, anchor.at, s.size) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* The place of a hunk without numbers, SIZE_MAX if it has none or several. */
static size_t locate_unnumbered(struct placer *p, size_t head, size_t tail)
{
    const struct hunk_lines *t = &p->pattern;
    enum match_how how = p->call->ignore_space ? MATCH_SPACE : MATCH_LAST_NEWLINE;
    size_t count = p->file->count;
    if (t->hunk->anchor.size > 0) {
        size_t anchor = find_anchor(p, p->expected);
        if (anchor == SIZE_MAX)
            anchor = find_anchor(p, p->lowest);
        if (anchor != SIZE_MAX && t->n_old == 0)
            return anchor + 1;
        size_t found = anchor == SIZE_MAX ? SIZE_MAX : match_find(p, how, anchor, head, tail);
        if (found != SIZE_MAX)
            return found;
    }
    if (t->n_old == 0) { /* new lines without context: only into an empty file or at its end */
        if (t->hunk->at_end || count == 0)
            return count;
        p->why = PLACE_SEVERAL;
        return SIZE_MAX;
    }
    if (t->hunk->at_end) {
        bool fits = t->n_old <= count && count - t->n_old >= p->lowest;
        return fits && match_at(p, how, count - t->n_old, head, tail) ? count - t->n_old : SIZE_MAX;
    }
    size_t first = match_find(p, how, p->expected, head, tail);
    if (first == SIZE_MAX && p->expected > p->lowest)
        first = match_find(p, how, p->lowest, head, tail);
    if (first == SIZE_MAX || match_find(p, how, first + 1, head, tail) == SIZE_MAX)
        return first;
    p->why = PLACE_SEVERAL;
    return SIZE_MAX;
}

/* The place of a hunk whose header names the line `first` (from 0); -1 if it has none. */
static int64_t locate_numbered(const struct placer *p, int64_t first, unsigned fuzz)
{
    const struct hunk_lines *t = &p->pattern;
    enum match_how how = p->call->ignore_space ? MATCH_SPACE : MATCH_EXACT;
    int64_t count = (int64_t)p->file->count, n = (int64_t)t->n_old;
    int64_t before = (int64_t)t->before, behind = (int64_t)t->behind;
    int64_t context = before > behind ? before : behind;
    /* Negative at an end with too little context: the hunk is tied to that end of the file. */
    int64_t head = fuzz + before - context, tail = fuzz + behind - context;
    bool start = !t->hunk->recounted && first <= 0 && head < 0;
    bool end = !t->hunk->recounted && tail < 0;
    head = head < 0 ? 0 : head;
    tail = tail < 0 ? 0 : tail;
    if (n == 0)
        return first + p->offset;
    if (start)
        return p->lowest <= t->before && match_at(p, how, 0, 0, (size_t)tail) ? 0 : -1;
    if (end) {
        bool fits = n <= count && count - n >= (int64_t)p->lowest;
        return fits && match_at(p, how, (size_t)(count - n), (size_t)head, 0) ? count - n : -1;
    }
    /* From the guess on by turns one line further down and one further up. A guess far outside of
     * the file is nearest to its start or its end. */
    int64_t guess = first + p->offset, down = count - n + tail - guess,
            up = guess - (int64_t)p->lowest, most = down > up ? down : up;
    for (int64_t i = down < 0 ? -down : guess < 0 ? -guess : 0; i <= most && *p->call->work; i++) {
        --*p->call->work;
        if (i <= down && match_at(p, how, (size_t)(guess + i), (size_t)head, (size_t)tail))
            return guess + i;
        if (i > 0 && i <= up && match_at(p, how, (size_t)(guess - i), (size_t)head, (size_t)tail))
            return guess - i;
    }
    return -1;
}

/* Finds the place of p->pattern and notes it. False with p->why if it has none. */
static bool place_hunk(struct placer *p)
{
    struct hunk_lines *t = &p->pattern;
    const struct diff_hunk *h = t->hunk;
    bool first_hunk = p->n_placed == 0 && p->result.failures == 0;
    size_t context = t->before > t->behind ? t->before : t->behind;
    unsigned most = p->call->fuzz < context ? p->call->fuzz : (unsigned)context;
    /* patch names the line before if there are no lines. */
    int64_t first = (int64_t)h->old_line + (t->n_old == 0) - 1, at = -1;
    unsigned fuzz = 0;
    for (;; fuzz++) {
        size_t head = fuzz + t->before > context ? fuzz + t->before - context : 0;
        size_t tail = fuzz + t->behind > context ? fuzz + t->behind - context : 0;
        at = h->numbered ? locate_numbered(p, first, fuzz)
                         : (int64_t)locate_unnumbered(p, head, tail);
        if (at >= 0 || fuzz == most || p->why == PLACE_SEVERAL)
            break;
        /* A first hunk that matches turned around, sooner than as it is, was applied before. */
        if (first_hunk && h->numbered) {
            hunk_lines_swap(t);
            int64_t new_first = (int64_t)h->new_line + (t->n_old == 0) - 1;
            bool applied = locate_numbered(p, new_first, fuzz) >= 0;
            hunk_lines_swap(t);
            if (applied) {
                p->why = PLACE_APPLIED;
                return false;
            }
        }
    }
    if (at < 0 || (size_t)at + t->before < p->lowest)
        return false;
    size_t count = p->file->count, end = (size_t)at + t->n_old;
    p->placed[p->n_placed++] = (size_t)at;
    p->expected = end;
    if (t->before < h->count) /* it changes something */
        p->lowest = end - t->behind < count ? end - t->behind : count;
    if (h->numbered) {
        p->offset = at - first;
        if (llabs(p->offset) > llabs(p->result.offset))
            p->result.offset = p->offset;
    }
    p->result.fuzz = fuzz > p->result.fuzz ? fuzz : p->result.fuzz;
    return true;
}

/* Why p->pattern has no place, and where it nearly has one. */
static struct place_failure explain_failure(struct placer *p, size_t number)
{
    struct hunk_lines *t = &p->pattern;
    struct place_failure f = {.hunk = t, .number = number, .why = p->why};
    size_t at = SIZE_MAX;
    if (*p->call->work == 0)
        f.why = PLACE_COSTLY;
    if (f.why != PLACE_NOWHERE)
        return f;
    if (t->n_old > 0)
        at = match_find(p, MATCH_EXACT, 0, 0, 0);
    if (at != SIZE_MAX)
        f.why = at < p->lowest ? PLACE_BEHIND : PLACE_ELSEWHERE;
    if (at == SIZE_MAX && t->n_new > 0) {
        hunk_lines_swap(t);
        at = match_find(p, MATCH_EXACT, 0, 0, 0);
        hunk_lines_swap(t);
        f.why = at != SIZE_MAX ? PLACE_APPLIED : f.why;
    }
    if (at == SIZE_MAX && t->n_old > 0) {
        at = match_find(p, MATCH_SPACE, 0, 0, 0);
        f.why = at != SIZE_MAX ? PLACE_SPACE : f.why;
    }
    f.line = at != SIZE_MAX ? at + 1 : 0;
    return f;
}

static void write_line(struct buf *out, const uint8_t *text, size_t size)
{
    if (out->len > 0 && out->data[out->len - 1] != '\n')
        buf_append(out, "\n", 1);
    buf_append(out, text, size);
}

/* Writes the file with all hunks in their places. Context stays as the file has it. */
static void write_patched(struct placer *p, struct buf *out)
{
    const struct text_line *file = p->file->lines;
    size_t done = 0, count = p->file->count;
    /* Where blanks do not count, line ends do not either: a new line gets those of the file. */
    bool own_ends = p->call->ignore_space && count > 0;
    bool crlf = own_ends && file->size > 1 && file->text[file->size - 2] == '\r' &&
                file->text[file->size - 1] == '\n';
    for (size_t i = 0; i < p->n_placed; i++) {
        const struct diff_hunk *h = &p->call->diff->hunks[p->call->file->first_hunk + i];
        size_t at = p->placed[i];
        for (size_t k = 0; k < h->count; k++) {
            const struct diff_line *line = &p->call->diff->lines[h->first + k];
            size_t n = line->size;
            for (; line->kind != ' ' && done < at && done < count; done++)
                write_line(out, file[done].text, file[done].size);
            if (line->kind == '+' && own_ends && n > 0 && line->text[n - 1] == '\n') {
                write_line(out, line->text, n - (n > 1 && line->text[n - 2] == '\r' ? 2 : 1));
                buf_append_str(out, crlf ? "\r\n" : "\n");
            } else if (line->kind == '+') {
                write_line(out, line->text, n);
            }
            done += line->kind == '-';
            at += line->kind != '+';
        }
    }
    for (; done < count; done++)
        write_line(out, file[done].text, file[done].size);
}

int place_hunks(const struct place_call *call, struct text_lines *file, struct buf *out,
                struct place_result *ret)
{
    const struct diff_file *f = call->file;
    _cleanup_free_ size_t *placed = calloc(f->hunks + 1, sizeof *placed);
    if (!placed)
        return -ENOMEM;
    struct placer p = {.call = call, .file = file, .placed = placed};
    for (size_t i = 0; i < f->hunks && (call->failed || p.result.failures == 0); i++) {
        if (hunk_lines_make(call->diff, &call->diff->hunks[f->first_hunk + i], &p.pattern) < 0)
            return -ENOMEM;
        p.why = PLACE_NOWHERE;
        bool found = place_hunk(&p);
        p.result.failures += !found;
        if (!found && call->failed) {
            struct place_failure failure = explain_failure(&p, i + 1);
            call->failed(call->data, &failure);
        }
        hunk_lines_free(&p.pattern);
    }
    if (p.result.failures == 0)
        write_patched(&p, out);
    if (out->failed)
        return -ENOBUFS;
    *ret = p.result;
    return 0;
}

int hunk_nearest_find(const struct text_lines *file, const struct hunk_lines *p, size_t guess,
                      struct hunk_nearest *ret)
{
    _cleanup_buf_ struct buf old = BUF_INIT(DIFF_SIZE_MAX + 1);
    struct line_range near;
    struct linediff d;
    *ret = (struct hunk_nearest){.n_expected = p->n_old};
    if (p->n_old == 0 || file->count == 0)
        return 0;
    for (size_t i = 0; i < p->n_old; i++)
        buf_append(&old, p->old[i].text, p->old[i].size);
    if (old.failed)
        return -ENOMEM;
    const uint8_t *begin = file->lines[0].text;
    const struct text_line *last = &file->lines[file->count - 1];
    int r = nearest_text_find((struct span){begin, (size_t)(last->text + last->size - begin)},
                              (struct span){old.data, old.len}, (int64_t)guess, &near);
    if (r <= 0)
        return r;

    /* From the first to the last change between the hunk and those lines. Lines that the text has
     * in addition at its ends only belong to the place if nothing else differs. */
    const struct text_line *first = &file->lines[near.line - 1], *end = first + near.count - 1;
    r = linediff_make(old.data, old.len, first->text, (size_t)(end->text + end->size - first->text),
                      &d);
    if (r < 0)
        return r;
    size_t from = 0, to = d.count;
    while (to - from > 1 && d.changes[from].a_count == 0 && d.skipped + d.changes[from].a_line == 0)
        from++;
    while (to - from > 1 && d.changes[to - 1].a_count == 0 &&
           d.skipped + d.changes[to - 1].a_line == p->n_old)
        to--;
    *ret = (struct hunk_nearest){.line = near.line};
    if (to > from) {
        const struct linediff_change *a = &d.changes[from], *b = &d.changes[to - 1];
        ret->expected = d.skipped + a->a_line;
        ret->n_expected = b->a_line + b->a_count - a->a_line;
        ret->found = near.line - 1 + d.skipped + a->b_line;
        ret->n_found = b->b_line + b->b_count - a->b_line;
        ret->line = ret->found + 1;
    }
    linediff_free(&d);
    return 0;
}
