/*
 * The hunks of one file: @@ lines and their bodies.
 *
 * A header is believed if its counts agree with the body; then what follows the body does not
 * belong to the hunk. If they do not agree, or there are none, the body reaches as far as its lines
 * look like one, and the counts are made from it.
 */
#include <errno.h>

#include "diff.h"
#include "banned.h"

#define LINE_NUMBER_MAX 100000000u

/* The kind of a line of a body: ' ', '-', '+', '\\'; 0 if it is none. An empty line is context that
 * has lost its blank. */
static char hunk_line_kind(struct slice s)
{
    if (s.size == 0)
        return ' ';
    return strchr(" -+\\", s.at[0]) && s.at[0] ? s.at[0] : 0;
}

/* How many lines the body has if its header's counts are right; -EINVAL if they are not: it is
 * shorter, or the next line would continue it. */
static ssize_t hunk_counted_length(struct cursor c, uint32_t old, uint32_t new)
{
    ssize_t n = 0;
    for (; old || new || (!cursor_done(&c) && *c.at == '\\'); n++) {
        char kind = cursor_done(&c) ? 0 : hunk_line_kind(cursor_line(&c));
        if (kind == 0 || (kind != '+' && kind != '\\' && old == 0) || (kind == '+' && new == 0) ||
            (kind == ' ' && new == 0))
            return -EINVAL;
        old -= kind == ' ' || kind == '-';
        new -= kind == ' ' || kind == '+';
        cursor_next(&c);
    }
    struct slice s = cursor_line(&c);
    char kind = cursor_done(&c) ? 0 : hunk_line_kind(s);
    /* "-- " and the version of git end a mail. */
    if (kind == 0 || cursor_at_names(&c) || slice_is(s, "-- ") || slice_is(s, "--") ||
        slice_is(s, "---"))
        return n;
    return kind == '+' || kind == '-' || slice_trim(s).size > 0 ? -EINVAL : n;
}

/* How many lines the body has by their look; `counts` is the header if it has counts, or NULL.
 * Empty lines at the end are text between hunks, unless the header counted them. */
static int hunk_visible_length(struct cursor c, const struct diff_hunk *counts, size_t *ret,
                               struct error *err)
{
    /* What may follow a body without being a broken line of it. */
    static const char *const BOUNDARIES[] = {
        "@@",  "diff ", "```", "~~~",      "*** ",  "Index: ", "index ",
        "-- ", "--- ",  "===", "Only in ", "From ", "commit ", "</"};
    size_t n = 0, empty = 0, began = c.line;
    uint32_t old = 0, new = 0;
    for (; !cursor_done(&c) && !cursor_at_names(&c); n++, cursor_next(&c)) {
        struct slice s = cursor_line(&c);
        char kind = hunk_line_kind(s);
        if (kind == 0 || slice_is(s, "-- "))
            break;
        empty = s.size == 0 ? empty + 1 : 0;
        old += kind == ' ' || kind == '-';
        new += kind == ' ' || kind == '+';
    }
    *ret = n - empty;
    if (!counts)
        return 0;
    bool boundary = cursor_done(&c);
    for (size_t i = 0; i < ARRAY_SIZE(BOUNDARIES); i++)
        boundary |= slice_begins(cursor_line(&c), BOUNDARIES[i]);
    if ((counts->old_count > old || counts->new_count > new) && empty == 0 && !boundary)
        return error_set(
            err, EINVAL,
            "line %zu of the diff begins with none of ' ', '+' and '-', but the hunk of line %zu "
            "says that it goes on (its header has -%u +%u lines, its body -%u +%u)",
            c.line, began - 1, counts->old_count, counts->new_count, old, new);
    if (counts->old_count <= old && counts->old_count >= old - (uint32_t)empty &&
        old - counts->old_count == new - counts->new_count)
        *ret = n - (old - counts->old_count);
    return 0;
}

static int hunk_add_lines(struct diff *d, struct cursor *c, size_t n, struct error *err)
{
    int r = 0;
    for (size_t i = 0; i < n && r >= 0; i++) {
        struct slice s = cursor_line(c), whole = cursor_whole(c);
        char kind = hunk_line_kind(s);
        cursor_next(c);
        if (kind == '\\')
            continue;
        if (s.size > 0)
            whole = slice_skip(whole, 1);
        if (!cursor_done(c) && *c->at == '\\') /* No newline at end of file */
            whole.size--;
        r = diff_add_line(d, kind, whole, err);
    }
    return r;
}

int hunk_parse_body(struct diff *d, struct cursor *c, struct error *err)
{
    size_t n;
    int r = hunk_visible_length(*c, NULL, &n, err);
    return r < 0 ? r : hunk_add_lines(d, c, n, err);
}

static bool hunk_parse_number(struct slice *s, uint32_t *ret)
{
    uint32_t v = 0;
    size_t n = 0;
    for (; n < s->size && s->at[n] >= '0' && s->at[n] <= '9'; n++) {
        v = v * 10 + (uint32_t)(s->at[n] - '0');
        if (v > LINE_NUMBER_MAX)
            return false;
    }
    *s = slice_skip(*s, n);
    *ret = v;
    return n > 0;
}

/* "-12,3" or "-12". */
static bool hunk_parse_range(struct slice *s, char sign, uint32_t *line, uint32_t *count)
{
    struct slice at = slice_trim(*s);
    if (at.size == 0 || at.at[0] != sign)
        return false;
    at = slice_skip(at, 1);
    *count = 1;
    if (!hunk_parse_number(&at, line))
        return false;
    if (at.size && at.at[0] == ',') {
        at = slice_skip(at, 1);
        if (!hunk_parse_number(&at, count))
            return false;
    }
    *s = at;
    return true;
}

static int hunk_parse(struct diff *d, struct cursor *c, struct error *err)
{
    struct slice s = cursor_line(c), whole = cursor_whole(c), rest = slice_skip(s, 2);
    struct diff_hunk h = {.header = s};
    size_t began = c->line, length = 0;
    if (slice_begins(s, "@@@"))
        return error_set(err, EINVAL,
                         "line %zu: this is the diff of a merge (@@@); give a diff of two versions",
                         began);
    h.numbered = hunk_parse_range(&rest, '-', &h.old_line, &h.old_count);
    bool counts = h.numbered && hunk_parse_range(&rest, '+', &h.new_line, &h.new_count);
    if (h.numbered && !counts)
        h.new_line = h.old_line;
    if (!h.numbered) {
        /* The text between or behind the @@, unless it only says "somewhere". */
        h.anchor = slice_trim(slice_skip(s, 2));
        const char *end = memmem(h.anchor.at, h.anchor.size, "@@", 2);
        if (end) {
            rest = slice_trim(slice_skip(h.anchor, (size_t)(end + 2 - h.anchor.at)));
            h.anchor.size = (size_t)(end - h.anchor.at);
            h.anchor = rest.size ? rest : slice_trim(h.anchor);
        }
        if (slice_is(h.anchor, "...") || slice_is(h.anchor, "\u2026"))
            h.anchor.size = 0;
    }
    d->crlf |= whole.size >= 2 && whole.at[whole.size - 2] == '\r';
    cursor_next(c);
    ssize_t n = counts ? hunk_counted_length(*c, h.old_count, h.new_count) : -EINVAL;
    h.recounted = h.numbered && n < 0;
    int r = 0;
    if (n >= 0)
        length = (size_t)n;
    else
        r = hunk_visible_length(*c, counts ? &h : NULL, &length, err);
    if (r >= 0)
        r = diff_add_hunk(d, &h, err);
    if (r >= 0)
        r = hunk_add_lines(d, c, length, err);
    if (r >= 0 && diff_last_hunk(d)->count == 0)
        return error_set(err, EINVAL,
                         "line %zu of the diff: no line with ' ', '+' or '-' follows this @@ line",
                         began);
    return r;
}

int hunks_parse(struct diff *d, struct cursor *c, struct error *err)
{
    while (!cursor_done(c) && slice_begins(cursor_line(c), "@@")) {
        int r = hunk_parse(d, c, err);
        if (r < 0)
            return r;
        /* Empty lines between hunks, which models like to write. */
        struct cursor ahead = *c;
        cursor_skip_blank(&ahead);
        if (slice_begins(cursor_line(&ahead), "@@"))
            *c = ahead;
    }
    return 0;
}
