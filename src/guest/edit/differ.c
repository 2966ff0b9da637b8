#include "differ.h"
#include "fold.h"
#include "banned.h"

/* The walk: where we are on both sides. */
struct walk {
    struct bytes old, file;
    size_t i, j;
    uint64_t line;
    struct differ *d;
};

static void note(struct walk *w, enum differ_kind kind, uint64_t line, struct bytes old,
                 struct bytes file)
{
    struct differ_finding *f = &w->d->found[kind];
    if (f->count++ == 0)
        *f = (struct differ_finding){1, line, old, file};
}

/* The run at `at` of what is not seen. */
static struct bytes gap_at(struct bytes s, size_t at)
{
    size_t end = at;
    while (end < s.n) {
        struct folded f = fold_next(bytes_part(s, end, s.n));
        if (f.n)
            break;
        end += f.used;
    }
    return bytes_part(s, at, end);
}

/* The first character of that kind in a run; empty if there is none. */
static struct bytes first_of(struct bytes s, enum fold_kind kind)
{
    for (size_t at = 0; at < s.n;) {
        struct folded f = fold_next(bytes_part(s, at, s.n));
        if (f.kind == kind)
            return bytes_part(s, at, at + f.used);
        at += f.used;
    }
    return (struct bytes){0};
}

/* Runs that hold a kind of character which only one of the two has. True if so: then that is the
 * difference.
 */
static bool note_odd(struct walk *w, struct bytes a, struct bytes b)
{
    static const struct {
        enum fold_kind fold;
        enum differ_kind kind;
    } odd[] = {{FOLD_ODD_BLANK, DIFFER_ODD_BLANK},
               {FOLD_INVISIBLE, DIFFER_INVISIBLE},
               {FOLD_FORM, DIFFER_FORM}};
    bool found = false;
    for (size_t i = 0; i < 3; i++) {
        struct bytes x = first_of(a, odd[i].fold), y = first_of(b, odd[i].fold);
        if (bytes_same(x, y))
            continue;
        note(w, odd[i].kind, w->line, x, y);
        found = true;
    }
    return found;
}

/* The line's indentation grew or shrank: by as much as that of the lines before? */
static void compare_shift(struct differ *d, struct bytes old, struct bytes file)
{
    bool more = file.n >= old.n;
    struct bytes longer = more ? file : old, shorter = more ? old : file;
    struct bytes shift = bytes_part(longer, 0, longer.n - shorter.n);
    bool fits = bytes_same(bytes_part(longer, shift.n, longer.n), shorter);
    if (d->indents++ == 0) {
        d->uniform = fits && shift.n > 0;
        d->file_has_more = more;
        d->more = shift;
    } else {
        d->uniform = d->uniform && fits && more == d->file_has_more && bytes_same(shift, d->more);
    }
}

static struct bytes without_cr(struct bytes s)
{
    return s.n && s.data[s.n - 1] == '\r' ? bytes_part(s, 0, s.n - 1) : s;
}

/* One line's part of two runs, up to the newlines at `x` and `y`. */
static void compare_line_end(struct walk *w, uint64_t line, struct bytes a, struct bytes b)
{
    struct bytes x = without_cr(a), y = without_cr(b);
    if ((x.n < a.n) != (y.n < b.n))
        note(w, DIFFER_ENDINGS, line, bytes_part(a, x.n, a.n), bytes_part(b, y.n, b.n));
    if (!bytes_same(x, y))
        note(w, DIFFER_TRAILING, line, x, y);
}

/* Runs with as many newlines each: the ends of lines, then the start of the next one. */
static void compare_breaks(struct walk *w, struct bytes a, struct bytes b, bool followed)
{
    uint64_t line = w->line;
    const uint8_t *x, *y;
    while (a.n && b.n && (x = memchr(a.data, '\n', a.n)) && (y = memchr(b.data, '\n', b.n))) {
        size_t n = (size_t)(x - a.data), m = (size_t)(y - b.data);
        compare_line_end(w, line++, bytes_part(a, 0, n), bytes_part(b, 0, m));
        a = bytes_part(a, n + 1, a.n);
        b = bytes_part(b, m + 1, b.n);
    }
    if (!followed)
        return;
    compare_shift(w->d, a, b);
    if (!bytes_same(a, b))
        note(w, DIFFER_INDENT, line, a, b);
}

static void compare_gap(struct walk *w, struct bytes a, struct bytes b)
{
    uint64_t n = bytes_count(a, '\n', a.n), m = bytes_count(b, '\n', b.n);
    bool starts = w->i == 0, followed = w->i + a.n < w->old.n;
    if (bytes_same(a, b)) {
        if (n && followed)
            compare_breaks(w, a, b, followed);
    } else if (note_odd(w, a, b)) {
        return;
    } else if (n != m) {
        note(w, DIFFER_BREAKS, w->line, a, b);
    } else if (n > 0 || (starts && followed)) {
        compare_breaks(w, a, b, followed);
    } else {
        note(w, followed ? DIFFER_INNER : DIFFER_TRAILING, w->line, a, b);
    }
}

static enum differ_kind kind_of(enum fold_kind a, enum fold_kind b)
{
    if (a == FOLD_QUOTE || b == FOLD_QUOTE)
        return DIFFER_QUOTE;
    if (a == FOLD_DASH || b == FOLD_DASH)
        return DIFFER_DASH;
    return a == FOLD_FORM || b == FOLD_FORM ? DIFFER_FORM : DIFFER_CASE;
}

/* Characters that are seen. One may fold to as many bytes as several of the other side. */
static void compare_seen(struct walk *w)
{
    struct folded a = fold_next(bytes_part(w->old, w->i, w->old.n));
    struct folded b = fold_next(bytes_part(w->file, w->j, w->file.n));
    size_t i = w->i, j = w->j, n = a.n, m = b.n;
    w->i += a.used;
    w->j += b.used;
    while (n < m && w->i < w->old.n) {
        struct folded more = fold_next(bytes_part(w->old, w->i, w->old.n));
        n += more.n;
        w->i += more.used;
    }
    while (m < n && w->j < w->file.n) {
        struct folded more = fold_next(bytes_part(w->file, w->j, w->file.n));
        m += more.n;
        w->j += more.used;
    }
    struct bytes x = bytes_part(w->old, i, w->i), y = bytes_part(w->file, j, w->j);
    if (!bytes_same(x, y))
        note(w, kind_of(a.kind, b.kind), w->line, x, y);
}

void differ_find(struct bytes old, struct bytes file, uint64_t line, struct differ *ret)
{
    *ret = (struct differ){0};
    struct walk w = {.old = old, .file = file, .line = line, .d = ret};
    for (;;) {
        struct bytes a = gap_at(w.old, w.i), b = gap_at(w.file, w.j);
        compare_gap(&w, a, b);
        w.i += a.n;
        w.j += b.n;
        w.line += bytes_count(b, '\n', b.n);
        if (w.i >= w.old.n || w.j >= w.file.n)
            return;
        compare_seen(&w);
    }
}
