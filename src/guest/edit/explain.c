#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

#include "differ.h"
#include "explain.h"
#include "explain_lines.h"
#include "fold.h"
#include "loose.h"
#include "window.h"
#include "banned.h"

#define PLACES_MAX 5
#define TOLD_AGAIN 8 /* bytes that `new` has at least, to be recognised as being there already */

/* How much of a place belongs to the blanks around `old`: as many lines as it has blank ones there.
 */
static size_t grow_back(struct bytes text, size_t begin, struct bytes lead)
{
    uint64_t breaks = bytes_count(lead, '\n', lead.n);
    while (lead.n && begin > 0) {
        uint8_t c = text.data[begin - 1];
        if (c == '\n' && breaks-- == 0)
            break;
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
            break;
        begin--;
    }
    return begin;
}

static size_t grow_on(struct bytes text, size_t end, struct bytes trail)
{
    uint64_t breaks = bytes_count(trail, '\n', trail.n);
    bool counted = breaks > 0;
    while (trail.n && end < text.n) {
        uint8_t c = text.data[end];
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
            break;
        if (c == '\n' && breaks == 0)
            break;
        breaks -= c == '\n';
        end++;
        if (counted && breaks == 0)
            break;
    }
    return end;
}

/* The place with the blanks around it that `old` has around its text, too. */
static struct loose_span with_blanks(struct bytes text, struct bytes old, struct loose_span s)
{
    size_t lead = 0, trail = old.n;
    while (lead < old.n && isspace(old.data[lead]))
        lead++;
    while (trail > lead && isspace(old.data[trail - 1]))
        trail--;
    return (struct loose_span){grow_back(text, s.begin, bytes_part(old, 0, lead)),
                               grow_on(text, s.end, bytes_part(old, trail, old.n))};
}

static void say_others(struct bytes text, const struct loose_span *s, int n, struct buf *out)
{
    if (n < 2)
        return;
    buf_append_str(out, "Other places like that begin at line");
    for (int i = 1; i < n; i++)
        buf_printf(out, "%s %" PRIu64,
                   i > 1   ? ","
                   : n > 2 ? "s"
                           : "",
                   bytes_line_at(text, s[i].begin));
    buf_append_str(out, n == PLACES_MAX ? " and perhaps further on.\n" : ".\n");
}

/* Text that is the same but for blanks, quotes and the like. True if there is some. */
static bool explain_loose(struct bytes text, struct bytes old, struct buf *out,
                          struct explain_place *ret)
{
    struct loose_span spans[PLACES_MAX];
    struct differ d;
    int n = loose_find(text, old, spans, PLACES_MAX);
    if (n <= 0)
        return false;
    struct loose_span s = with_blanks(text, old, spans[0]);
    ret->line = bytes_line_at(text, s.begin);
    ret->count = bytes_line_at(text, s.end - 1) - ret->line + 1;
    differ_find(old, bytes_part(text, s.begin, s.end), ret->line, &d);
    lines_put_range(out, "The nearest text, ", ret->line, ret->count);
    buf_append_str(out, ", differs from `old` only in:\n");
    differ_say(&d, out);
    say_others(text, spans, n, out);
    return true;
}

/* The lines of a place, ending as those of `old` do: that is not what is to be told here. */
static void say_difference(struct bytes old, struct bytes place, uint64_t line, struct buf *out)
{
    _cleanup_buf_ struct buf plain_old = BUF_INIT(2 * old.n + 1), plain = BUF_INIT(2 * place.n + 1);
    match_put_endings(&plain_old, old, false);
    match_put_endings(&plain, place, false);
    if (plain_old.failed || plain.failed || plain.len == 0)
        return;
    if (old.data[old.n - 1] != '\n' && plain.data[plain.len - 1] == '\n')
        plain.len--;
    lines_put_difference(out, (struct bytes){plain_old.data, plain_old.len},
                         (struct bytes){plain.data, plain.len}, line);
}

static bool explain_window(struct bytes text, struct bytes old, struct buf *out,
                           struct explain_place *ret)
{
    struct window w;
    if (window_find(text, old, &w) <= 0)
        return false;
    *ret = (struct explain_place){w.line, w.count};
    lines_put_range(out, "The nearest text is at ", w.line, w.count);
    say_difference(old, bytes_part(text, w.begin, w.end), w.line, out);
    return true;
}

/* Lines as read_file shows them, with a number and a tab before each: how long that is; 0 if it is
 * not so. */
static size_t number_length(struct bytes line)
{
    size_t at = 0, digits = 0;
    while (at < line.n && line.data[at] == ' ')
        at++;
    for (; at < line.n && isdigit(line.data[at]); digits++)
        at++;
    return digits && at < line.n && line.data[at] == '\t' ? at + 1 : 0;
}

static bool has_numbers(struct bytes old)
{
    size_t at = 0;
    while (at < old.n && number_length(bytes_part(old, at, old.n)))
        at = bytes_line_end(old, at);
    return at == old.n;
}

static bool explain_numbers(struct bytes old, struct buf *out)
{
    if (!has_numbers(old))
        return false;
    buf_append_str(
        out,
        "`old` begins its lines with numbers, as read_file shows them: they are not in the file,"
        " leave them out.\n");
    return true;
}

static void explain_done_already(struct bytes text, const struct edit *e, struct buf *out)
{
    size_t at = e->new.n >= TOLD_AGAIN ? bytes_find(text, e->new, 0) : SIZE_MAX;
    if (at != SIZE_MAX)
        buf_printf(out,
                   "The text of `new` is already there, at line %" PRIu64
                   ": was this edit made before?\n",
                   bytes_line_at(text, at));
}

void explain_missing(struct bytes text, const struct edit *e, struct buf *out,
                     struct explain_place *ret)
{
    *ret = (struct explain_place){0};
    explain_done_already(text, e, out);
    if (text.n == 0) {
        buf_append_str(out, "The file is empty: write_file fills it.\n");
        return;
    }
    if (explain_numbers(e->old, out))
        return;
    if (!explain_loose(text, e->old, out, ret) && !explain_window(text, e->old, out, ret)) {
        buf_append_str(out, "Nothing in the file is like it; read_file shows what is there.\n");
        return;
    }
    buf_append_str(out, "The file has there:\n");
    lines_put_numbered(out, text, ret->line, ret->count);
}
