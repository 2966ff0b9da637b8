/*
 * The hunks of one file: @@ lines and their bodies.
 *
 * A header is believed if its counts come out even with the body; then what follows the body does
 * not belong to the hunk. If they do not, or if there are none, the body reaches as far as its
 * lines look like one, and the counts are made from it.
 */
#include <errno.h>
#include <string.h>

#include "diff_text.h"
#include "banned.h"

#define LINE_NUMBER_MAX 100000000u

bool cursor_at_names(const struct cursor *c)
{
    return slice_begins(cursor_line(c), "--- ") && slice_begins(cursor_line_after(c), "+++ ");
}

/* The kind of a line of a body: ' ', '-', '+', '\\'; 0 if it is none. An empty line is context that
 * has lost its blank. */
static char body_kind(struct slice s)
{
    if (s.size == 0)
        return ' ';
    return strchr(" -+\\", s.at[0]) && s.at[0] ? s.at[0] : 0;
}

/* The line under a mail: "-- ", then the version of git. */
static bool is_signature(struct slice s)
{
    return slice_is(s, "-- ") || slice_is(s, "--");
}

/* Would this line go on with the hunk, if the hunk were longer than it says? */
static bool goes_on(const struct cursor *c)
{
    struct slice s = cursor_line(c);
    char kind = cursor_done(c) ? 0 : body_kind(s);
    if (kind == 0 || cursor_at_names(c) || is_signature(s) || slice_is(s, "---"))
        return false;
    return kind == '+' || kind == '-' || slice_trim(s).size > 0;
}

/* How many lines the body has if its header's counts are right; -EINVAL if they are not. */
static ssize_t counted_length(struct cursor c, uint32_t old, uint32_t new)
{
    ssize_t n = 0;
    for (; old || new || (!cursor_done(&c) && *c.at == '\\'); n++) {
        char kind = cursor_done(&c) ? 0 : body_kind(cursor_line(&c));
        if (kind == 0 || (kind != '+' && kind != '\\' && old == 0) || (kind == '+' && new == 0) ||
            (kind == ' ' && new == 0))
            return -EINVAL;
        old -= kind == ' ' || kind == '-';
        new -= kind == ' ' || kind == '+';
        cursor_next(&c);
    }
    return goes_on(&c) ? -EINVAL : n;
}

static bool ends_body(const struct cursor *c)
{
    struct slice s = cursor_line(c);
    return cursor_done(c) || body_kind(s) == 0 || cursor_at_names(c) || slice_is(s, "-- ");
}

/* What may stand right behind a body without being a broken line of it. */
static bool is_boundary(const struct cursor *c)
{
    static const char *const KNOWN[] = {
        "@@",  "diff ", "```", "~~~",      "*** ",  "Index: ", "index ",
        "-- ", "--- ",  "===", "Only in ", "From ", "commit ", "</"};
    struct slice s = cursor_line(c);
    for (size_t i = 0; i < ARRAY_SIZE(KNOWN); i++)
        if (slice_begins(s, KNOWN[i]))
            return true;
    return cursor_done(c);
}

/* How many lines the body has by their look. Empty lines at its end are text between hunks, unless
 * the header counted them. */
static int looked_length(struct cursor c, const struct diff_hunk *said, bool counts, size_t *ret,
                         struct error *err)
{
    size_t n = 0, empty = 0, began = c.line;
    uint32_t old = 0, new = 0;
    for (; !ends_body(&c); n++, cursor_next(&c)) {
        struct slice s = cursor_line(&c);
        char kind = body_kind(s);
        empty = s.size == 0 ? empty + 1 : 0;
        old += kind == ' ' || kind == '-';
        new += kind == ' ' || kind == '+';
    }
    bool missing = counts && (said->old_count > old || said->new_count > new);
    if (missing && empty == 0 && !is_boundary(&c))
        return error_set(
            err, EINVAL,
            "line %zu of the diff begins with none of ' ', '+' and '-', but the hunk of line %zu "
            "says that it goes on (-%u +%u lines said, -%u +%u found)",
            c.line, began - 1, said->old_count, said->new_count, old, new);
    uint32_t extra = counts && said->old_count <= old && said->old_count >= old - (uint32_t)empty &&
                             old - said->old_count == new - said->new_count
                         ? old - said->old_count
                         : (uint32_t)empty;
    *ret = n - extra;
    return 0;
}

static int take_line(struct diff *d, struct cursor *c, struct error *err)
{
    struct slice s = cursor_line(c), whole = cursor_whole(c);
    char kind = body_kind(s);
    cursor_next(c);
    if (kind == '\\')
        return 0;
    if (s.size > 0)
        whole = slice_behind(whole, 1);
    if (!cursor_done(c) && *c->at == '\\')
        whole.size--;
    return diff_add_line(d, kind, whole.at, whole.size, err);
}

static int take_body(struct diff *d, struct cursor *c, size_t n, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        int r = take_line(d, c, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int hunk_parse_body(struct diff *d, struct cursor *c, struct error *err)
{
    size_t n;
    int r = looked_length(*c, &(struct diff_hunk){0}, false, &n, err);
    return r < 0 ? r : take_body(d, c, n, err);
}

/* A number, as long as it is not absurd. */
static bool take_number(struct slice *s, uint32_t *ret)
{
    uint32_t v = 0;
    size_t n = 0;
    for (; n < s->size && s->at[n] >= '0' && s->at[n] <= '9'; n++) {
        v = v * 10 + (uint32_t)(s->at[n] - '0');
        if (v > LINE_NUMBER_MAX)
            return false;
    }
    *s = slice_behind(*s, n);
    *ret = v;
    return n > 0;
}

/* "-12,3" or "-12". */
static bool take_range(struct slice *s, char sign, uint32_t *line, uint32_t *count)
{
    struct slice at = slice_trim(*s);
    if (at.size == 0 || at.at[0] != sign)
        return false;
    at = slice_behind(at, 1);
    *count = 1;
    if (!take_number(&at, line))
        return false;
    if (at.size && at.at[0] == ',') {
        at = slice_behind(at, 1);
        if (!take_number(&at, count))
            return false;
    }
    *s = at;
    return true;
}

/* What stands between or behind the @@ of a header without numbers, unless it only says
 * "somewhere". */
static struct slice find_anchor(struct slice rest)
{
    rest = slice_trim(rest);
    const char *end = rest.size >= 2 ? memmem(rest.at, rest.size, "@@", 2) : NULL;
    if (end) {
        struct slice behind = slice_trim(slice_behind(rest, (size_t)(end + 2 - rest.at)));
        rest.size = (size_t)(end - rest.at);
        rest = behind.size ? behind : slice_trim(rest);
    }
    bool says_nothing = slice_is(rest, "...") || slice_is(rest, "\u2026");
    return says_nothing ? (struct slice){rest.at, 0} : rest;
}

/* The header; *ret_counts says whether it has numbers of lines. */
static void parse_header(struct slice s, struct diff_hunk *h, bool *ret_counts)
{
    struct slice rest = slice_behind(s, 2);
    uint32_t old_count = 0, new_count = 0;
    h->header = s;
    h->numbered = take_range(&rest, '-', &h->old_line, &old_count);
    *ret_counts = h->numbered && take_range(&rest, '+', &h->new_line, &new_count);
    if (h->numbered && !*ret_counts)
        h->new_line = h->old_line;
    if (!h->numbered)
        h->anchor = find_anchor(slice_behind(s, 2));
    h->old_count = old_count;
    h->new_count = new_count;
}

static int parse_hunk(struct diff *d, struct cursor *c, struct error *err)
{
    struct diff_hunk said = {0};
    struct slice s = cursor_line(c), whole = cursor_whole(c);
    bool counts;
    size_t began = c->line;
    if (slice_begins(s, "@@@"))
        return error_set(err, EINVAL,
                         "line %zu: this is the diff of a merge (@@@); give a diff of two versions",
                         began);
    parse_header(s, &said, &counts);
    d->crlf |= whole.size >= 2 && whole.at[whole.size - 2] == '\r';
    cursor_next(c);
    ssize_t n = counts ? counted_length(*c, said.old_count, said.new_count) : -EINVAL;
    size_t length = n < 0 ? 0 : (size_t)n;
    int r = n < 0 ? looked_length(*c, &said, counts, &length, err) : 0;
    if (r < 0)
        return r;
    r = diff_add_hunk(d, err);
    if (r < 0)
        return r;
    said.first = d->n_lines;
    said.old_count = said.new_count = 0;
    said.recounted = said.numbered && n < 0;
    *diff_last_hunk(d) = said;
    r = take_body(d, c, length, err);
    if (r >= 0 && diff_last_hunk(d)->count == 0)
        return error_set(err, EINVAL,
                         "line %zu of the diff: no line with ' ', '+' or '-' follows this @@ line",
                         began);
    return r;
}

int hunks_parse(struct diff *d, struct cursor *c, struct error *err)
{
    while (!cursor_done(c) && slice_begins(cursor_line(c), "@@")) {
        int r = parse_hunk(d, c, err);
        if (r < 0)
            return r;
        /* Empty lines between hunks, which models like to write. */
        struct cursor ahead = *c;
        while (!cursor_done(&ahead) && slice_trim(cursor_line(&ahead)).size == 0)
            cursor_next(&ahead);
        if (slice_begins(cursor_line(&ahead), "@@"))
            *c = ahead;
    }
    return 0;
}
