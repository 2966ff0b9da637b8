/*
 * Edits of a text in memory. Where `old` is not in the text, the lines that are most like it are
 * found and what differs there is explained.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "edit.h"
#include "linediff.h"
#include "text.h"
#include "banned.h"

#define LINES_SHOWN   30u
#define CHANGES_SHOWN 4u
#define PER_CHANGE    4u /* lines of one side of a change */
#define LINE_BYTES    300u
#define KNOWN_AGAIN   8u /* bytes that `new` has at least, to be recognised in the text */

uint64_t span_count(struct span b, uint8_t byte, size_t end)
{
    uint64_t count = 0;
    for (size_t at = 0; at < end; at++) {
        const uint8_t *found = memchr(b.data + at, byte, end - at);
        if (!found)
            break;
        count++;
        at = (size_t)(found - b.data);
    }
    return count;
}

/* Appends a text with all its lines ending alike. */
static void edit_put_endings(struct buf *out, struct span s, bool crlf)
{
    for (size_t at = 0; at < s.n;) {
        size_t end = span_line_end(s, at);
        bool newline = s.data[end - 1] == '\n';
        size_t kept = end - newline - (newline && end - at > 1 && s.data[end - 2] == '\r');
        buf_append(out, s.data + at, kept - at);
        if (newline)
            buf_append_str(out, crlf ? "\r\n" : "\n");
        at = end;
    }
}

static uint64_t span_count_crlf(struct span s)
{
    static const struct span CRLF = {(const uint8_t *)"\r\n", 2};
    uint64_t count = 0;
    for (size_t at = 0; (at = span_find(s, CRLF, at)) != SIZE_MAX; at += 2)
        count++;
    return count;
}

/* Counts places and remembers the first. If only one may be there, places that overlap count each:
 * which one is meant? */
static void edit_find_places(struct span text, const struct edit *e, struct edit_match *m)
{
    size_t at = 0, seen = 0;
    uint64_t line = 1;
    while ((at = span_find(text, e->old, at)) != SIZE_MAX) {
        if (m->count < EDIT_PLACES_MAX) {
            line += span_count(span_part(text, seen, at), '\n', at - seen);
            m->line[m->count] = line;
            seen = at;
        }
        m->count++;
        at += e->all ? e->old.n : 1;
    }
}

int edit_apply(struct span text, const struct edit *given, struct buf *out, struct edit_match *ret)
{
    _cleanup_buf_ struct buf old_buf = BUF_INIT(2 * given->old.n + 1),
                             new_buf = BUF_INIT(2 * given->new.n + 1);
    struct edit e = *given;
    struct edit_match m = {0};
    uint64_t crlf = span_count_crlf(text);
    bool all_crlf = crlf > 0 && crlf == span_count(text, '\n', text.n);
    bool new_differs = span_count_crlf(e.new) < span_count(e.new, '\n', e.new.n);
    size_t done = 0, at;
    edit_find_places(text, &e, &m);
    if (m.count == 0 && memchr(e.old.data, '\n', e.old.n)) {
        edit_put_endings(&old_buf, e.old, crlf > 0);
        e.old = (struct span){old_buf.data, old_buf.len};
        edit_find_places(text, &e, &m);
        m.endings = m.count > 0;
    }
    if (old_buf.failed)
        return -ENOMEM;
    if (m.count == 0)
        return -ENOENT;
    if (m.endings || (all_crlf && new_differs)) {
        edit_put_endings(&new_buf, e.new, crlf > 0);
        e.new = (struct span){new_buf.data, new_buf.len};
        m.endings = true;
    }
    if (new_buf.failed)
        return -ENOMEM;
    if (m.count > 1 && !e.all) {
        *ret = m;
        return -ENOTUNIQ;
    }
    while ((at = span_find(text, e.old, done)) != SIZE_MAX) {
        buf_append(out, text.data + done, at - done);
        buf_append(out, e.new.data, e.new.n);
        done = at + e.old.n;
    }
    buf_append(out, text.data + done, text.n - done);
    if (out->failed)
        return out->len + e.new.n > out->max - text.n ? -E2BIG : -ENOMEM;
    *ret = m;
    return 0;
}

/* Letters from U+00C0 to U+017F without their accents; '.' for those that have no such form. */
static const char LETTERS[] = "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
                              "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll."
                              "...nnnnnn...oooooo..rrrrrrsssssssstttt..uuuuuuuuuuuuwwyyyzzzzzz.";

/* In the order of their numbers. */
static const struct {
    uint32_t first, last;
    const char *as;
} RANGES[] = {
    {0x00a0, 0x00a0, ""},    {0x00ab, 0x00ab, "'"}, /* no-break space; quotes */
    {0x00ad, 0x00ad, ""},    {0x00b4, 0x00b4, "'"}, /* soft hyphen; acute accent */
    {0x00bb, 0x00bb, "'"},   {0x02b9, 0x02bc, "'"}, /* quotes */
    {0x0300, 0x036f, ""},    {0x1680, 0x1680, ""},  /* accents; spaces */
    {0x2000, 0x200a, ""},    {0x200b, 0x200f, ""},  /* spaces; zero width, direction */
    {0x2010, 0x2015, "-"},   {0x2018, 0x201f, "'"}, /* dashes; quotes */
    {0x2026, 0x2026, "..."}, {0x2028, 0x2029, ""},  /* ellipsis; separators */
    {0x202a, 0x202e, ""},    {0x202f, 0x202f, ""},  /* direction; space */
    {0x2032, 0x2036, "'"},   {0x2039, 0x203a, "'"}, /* primes; quotes */
    {0x205f, 0x205f, ""},    {0x2060, 0x2064, ""},  /* space; invisible operators */
    {0x2212, 0x2212, "-"},   {0x3000, 0x3000, ""},  /* minus; space */
    {0xfe00, 0xfe0f, ""},    {0xfe58, 0xfe58, "-"}, /* variants; dashes */
    {0xfe63, 0xfe63, "-"},   {0xfeff, 0xfeff, ""},  /* byte order mark */
};

static uint8_t fold_ascii(uint8_t c)
{
    if (c == 0 || c == ' ' || (c >= '\t' && c <= '\r'))
        return 0;
    if (c == '"' || c == '`')
        return '\'';
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 'a' - 'A') : c;
}

uint32_t fold_code(struct span s)
{
    size_t n = utf8_character(s.data, s.n);
    if (n < 2)
        return s.data[0];
    uint32_t code = s.data[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (s.data[i] & 0x3f);
    return code;
}

struct folded fold_at(struct span s, size_t at)
{
    uint8_t letter = s.data[at] < 0x80 ? fold_ascii(s.data[at]) : 0;
    if (s.data[at] < 0x80)
        return (struct folded){.used = 1, .n = letter != 0, .bytes = {letter}};
    s = span_part(s, at, s.n);
    size_t used = utf8_character(s.data, s.n);
    uint32_t code = fold_code(s);
    struct folded f = {.used = (uint8_t)(used ? used : 1)};
    const char *as = NULL;
    if (used && code >= 0xff01 && code <= 0xff5e)
        letter = fold_ascii((uint8_t)(code - 0xff01 + '!'));
    else if (used && code >= 0xc0 && code < 0xc0 + sizeof LETTERS - 1 &&
             LETTERS[code - 0xc0] != '.')
        letter = (uint8_t)LETTERS[code - 0xc0];
    for (size_t i = 0; used && !letter && i < ARRAY_SIZE(RANGES) && RANGES[i].first <= code; i++)
        if (code <= RANGES[i].last)
            as = RANGES[i].as;
    f.n = letter ? 1 : as ? (uint8_t)strlen(as) : f.used;
    memcpy(f.bytes, letter ? (const void *)&letter : as ? (const void *)as : s.data, f.n);
    return f;
}

/*
 * The lines of a text that are most like those of `old`.
 *
 * Lines are compared folded, by a hash. Each line of the text that is the same as one of `old`
 * votes for where `old` would begin; rare lines count more than common ones. If no line is the
 * same, the line wins that has most pairs of characters in common with one of the longest of `old`.
 * The text is walked a fixed number of times, and what is remembered of it is bounded.
 */
#define OLD_LINES_MAX 2000u /* of `old` that are looked at */
#define HITS_MAX      20000u
#define HITS_OF_LINE  64u /* a line that is there more often tells nothing */
#define WEAK_FOLDED   3u  /* a line with fewer characters, such as `}`, tells little */
#define WEIGHT_MAX    64u
#define LIKENESS_MIN  50u /* percent */
#define CONTAINED     85u /* percent at most for a line that holds another one */
#define ANCHORS_MAX   3
#define ANCHOR_LEAST  4u /* a shorter line is like too many others */
#define PAIRS_WORDS   16
#define PAIRS_BYTES   120u /* of a folded line from which pairs are taken: more fill the set */

/* A walk over the lines of a text that are not blank; zero but for the text at first. */
struct line_walk {
    struct span text;
    size_t next;     /* offset of the next line */
    uint64_t lines;  /* passed so far: the current line has this number, from 1 */
    uint64_t hash;   /* of the current line, folded */
    uint32_t folded; /* its length */
    uint32_t pairs;  /* how many bits are set in: */
    uint64_t set[PAIRS_WORDS];
};

struct old_line {
    uint64_t hash;
    uint32_t number; /* from 0 */
    uint32_t folded;
    uint32_t hits; /* how often the text has it */
};

/* A line of the text that is the same as one of `old`: where `old` would begin. */
struct line_hit {
    int64_t start;
    const struct old_line *line;
};

/* Moves on to the next line that is not blank, and folds it. */
static bool line_walk_next(struct line_walk *w, bool with_pairs)
{
    while (w->next < w->text.n) {
        size_t at = w->next, end = span_line_end(w->text, w->next);
        uint8_t before = 0;
        *w = (struct line_walk){
            .text = w->text, .next = end, .lines = w->lines + 1, .hash = 0xcbf29ce484222325u};
        while (at < end) {
            struct folded c = fold_at(w->text, at);
            for (uint8_t i = 0; i < c.n; i++) {
                w->hash = (w->hash ^ c.bytes[i]) * 0x100000001b3u;
                if (with_pairs && w->folded > 0 && w->folded < PAIRS_BYTES) {
                    uint32_t bit = ((uint32_t)before << 8 | c.bytes[i]) * 2654435761u >> 22;
                    w->set[bit / 64] |= (uint64_t)1 << bit % 64;
                }
                before = c.bytes[i];
                w->folded++;
            }
            at += c.used;
        }
        for (size_t i = 0; with_pairs && i < PAIRS_WORDS; i++)
            w->pairs += (uint32_t)__builtin_popcountll(w->set[i]);
        if (w->folded)
            return true;
    }
    return false;
}

static int old_line_compare(const void *a, const void *b)
{
    const struct old_line *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->number > y->number) - (x->number < y->number);
}

static int line_hit_compare(const void *a, const void *b)
{
    const struct line_hit *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static uint32_t line_hit_weight(const struct line_hit *h)
{
    if (h->line->hits == HITS_OF_LINE)
        return 0;
    return h->line->folded < WEAK_FOLDED ? 1 : WEIGHT_MAX / h->line->hits + 1;
}

/* The first line with the most votes, of several the one nearest to the guess, and the number of
 * lines up to the last that voted. Votes for a line nearby count too, since lines may be missing. 0
 * if there are none. */
static int nearest_by_votes(struct span text, struct span old, int64_t guess, int64_t *ret_start,
                            uint64_t *ret_count)
{
    _cleanup_free_ struct old_line *lines = calloc(OLD_LINES_MAX, sizeof *lines);
    _cleanup_free_ struct line_hit *hits = calloc(HITS_MAX, sizeof *hits);
    struct line_walk w = {.text = old};
    size_t n = 0, count = 0, best_first = 0, best_last = 0;
    int64_t best_distance = 0;
    uint64_t sum = 0, best = 0, total = span_lines(old);
    int64_t slack = 2 + (int64_t)(total < OLD_LINES_MAX ? total : OLD_LINES_MAX) / 10;
    if (!lines || !hits)
        return -ENOMEM;
    while (line_walk_next(&w, false) && w.lines <= OLD_LINES_MAX)
        lines[n++] = (struct old_line){w.hash, (uint32_t)w.lines - 1, w.folded, 0};
    qsort(lines, n, sizeof *lines, old_line_compare);

    w = (struct line_walk){.text = text};
    while (line_walk_next(&w, false)) {
        size_t low = 0, high = n;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (lines[middle].hash < w.hash)
                low = middle + 1;
            else
                high = middle;
        }
        /* All lines with one hash have as many hits: too many for one, too many for all. */
        for (; low < n && lines[low].hash == w.hash && lines[low].hits < HITS_OF_LINE; low++) {
            lines[low].hits++;
            if (count < HITS_MAX)
                hits[count++] =
                    (struct line_hit){(int64_t)w.lines - 1 - lines[low].number, &lines[low]};
        }
    }
    qsort(hits, count, sizeof *hits, line_hit_compare);
    for (size_t first = 0, i = 0; i < count; i++) {
        sum += line_hit_weight(&hits[i]);
        for (; hits[i].start - hits[first].start > slack; first++)
            sum -= line_hit_weight(&hits[first]);
        int64_t distance = guess < 0 ? 0 : llabs(hits[first].start - guess);
        if (sum < best || (sum == best && distance >= best_distance))
            continue;
        best_distance = distance;
        best = sum;
        best_first = first;
        best_last = i;
    }
    if (best <= (total > 1)) /* a lone brace of several lines is no reason */
        return 0;
    *ret_start = hits[best_first].start;
    *ret_count = 0;
    for (size_t k = best_first; k <= best_last; k++) {
        uint64_t reach = (uint64_t)(hits[k].start - *ret_start) + hits[k].line->number + 1;
        *ret_count = reach > *ret_count && line_hit_weight(&hits[k]) ? reach : *ret_count;
    }
    return 1;
}

/* By the text's line that is most like one of the longest lines of `old`. */
static bool nearest_by_likeness(struct span text, struct span old, int64_t *ret_start)
{
    struct line_walk anchors[ANCHORS_MAX] = {0}, w = {.text = old};
    unsigned best = LIKENESS_MIN - 1;
    while (line_walk_next(&w, true) && w.lines <= OLD_LINES_MAX) {
        size_t at = ANCHORS_MAX;
        while (at > 0 && w.folded > anchors[at - 1].folded)
            at--;
        if (at == ANCHORS_MAX || w.folded < ANCHOR_LEAST)
            continue;
        memmove(&anchors[at + 1], &anchors[at], (ANCHORS_MAX - 1 - at) * sizeof *anchors);
        anchors[at] = w;
    }
    w = (struct line_walk){.text = text};
    while (anchors[0].folded && line_walk_next(&w, true))
        for (size_t i = 0; i < ANCHORS_MAX && anchors[i].folded; i++) {
            const struct line_walk *a = &anchors[i];
            unsigned common = 0, sum = a->pairs + w.pairs;
            for (size_t k = 0; k < PAIRS_WORDS; k++)
                common += (unsigned)__builtin_popcountll(a->set[k] & w.set[k]);
            unsigned percent = sum ? 200 * common / sum : 0;
            /* A line that contains the other one is nearly as good. */
            if (a->pairs && a->pairs <= w.pairs && CONTAINED * common / a->pairs > percent)
                percent = CONTAINED * common / a->pairs;
            if (percent > best) {
                best = percent;
                *ret_start = (int64_t)w.lines - (int64_t)a->lines;
            }
        }
    return best >= LIKENESS_MIN;
}

int nearest_text_find(struct span text, struct span old, int64_t guess, struct line_range *ret)
{
    int64_t start = 0; /* from 0, perhaps before the text */
    uint64_t voted = 0, count = span_lines(old), total = span_lines(text);
    int r = nearest_by_votes(text, old, guess, &start, &voted);
    if (r < 0)
        return r;
    if (r == 0 && !nearest_by_likeness(text, old, &start))
        return 0;
    count = voted > count ? voted : count;
    if (start < 0) {
        count -= (uint64_t)-start < count ? (uint64_t)-start : count;
        start = 0;
    }
    if ((uint64_t)start >= total || count == 0)
        return 0;
    count = count < total - (uint64_t)start ? count : total - (uint64_t)start;
    *ret = (struct line_range){(uint64_t)start + 1, count};
    return 1;
}

/* A line without its end, cut where it gets too long. */
static void explain_line(struct buf *out, struct span line)
{
    size_t n = line.n;
    while (n > 0 && (line.data[n - 1] == '\n' || line.data[n - 1] == '\r'))
        n--;
    size_t kept = n > LINE_BYTES ? LINE_BYTES - utf8_cut_end(line.data, LINE_BYTES) : n;
    buf_append(out, line.data, kept);
    if (kept < n)
        buf_printf(out, " … [%zu more bytes in this line]", n - kept);
    buf_append_str(out, "\n");
}

/* "2 tabs", "4 spaces", "1 tab and 2 spaces", "‘ (U+2018)", "nothing": what a reader cannot tell
 * apart by looking. */
static void explain_characters(struct buf *out, struct span s)
{
    uint64_t tabs = span_count(s, '\t', s.n), spaces = span_count(s, ' ', s.n);
    if (s.n == 0) {
        buf_append_str(out, "nothing");
    } else if (s.data[0] == '\n') {
        buf_append_str(out, "a line break");
    } else if (tabs + spaces == s.n) {
        if (tabs)
            buf_printf(out, "%" PRIu64 " tab%s", tabs, tabs > 1 ? "s" : "");
        buf_append_str(out, tabs && spaces ? " and " : "");
        if (spaces)
            buf_printf(out, "%" PRIu64 " space%s", spaces, spaces > 1 ? "s" : "");
    } else {
        struct folded f = fold_at(s, 0);
        if (f.n)
            buf_append(out, s.data, f.used);
        buf_printf(out, f.n ? " (U+%04" PRIX32 ")" : "U+%04" PRIX32, fold_code(s));
    }
}

static bool fold_same(struct span a, struct span b)
{
    size_t i = 0, k = 0, have_a = 0, have_b = 0;
    struct folded x = {0}, y = {0};
    for (;;) {
        while (have_a == x.n && i < a.n) {
            x = fold_at(a, i);
            i += x.used;
            have_a = 0;
        }
        while (have_b == y.n && k < b.n) {
            y = fold_at(b, k);
            k += y.used;
            have_b = 0;
        }
        if (have_a == x.n || have_b == y.n)
            return have_a == x.n && have_b == y.n;
        if (x.bytes[have_a++] != y.bytes[have_b++])
            return false;
    }
}

/* What differs in two lines that look alike, at the first place where they do. */
static void explain_alike(struct buf *out, struct span old, struct span file, uint64_t line)
{
    size_t head = 0, tail = 0, least = old.n < file.n ? old.n : file.n;
    if (!fold_same(old, file))
        return;
    while (head < least && old.data[head] == file.data[head])
        head++;
    while (tail < least - head && old.data[old.n - 1 - tail] == file.data[file.n - 1 - tail])
        tail++;
    while (head > 0 && head < least && (old.data[head] & 0xc0) == 0x80)
        head--; /* to the start of a character */
    buf_printf(out, "  (line %" PRIu64 " has ", line);
    explain_characters(out, span_part(file, head, file.n - tail));
    buf_append_str(out, " where `old` has ");
    explain_characters(out, span_part(old, head, old.n - tail));
    buf_append_str(out, ")\n");
}

static struct span explain_line_of(const struct lineset *s, uint32_t i)
{
    return (struct span){s->data + s->at[i], s->at[i + 1] - s->at[i]};
}

static void explain_side(struct buf *out, const char *side, const struct lineset *s, uint32_t first,
                         uint32_t n)
{
    for (uint32_t i = 0; i < n && i < PER_CHANGE; i++) {
        buf_printf(out, "  %s: ", side);
        explain_line(out, explain_line_of(s, first + i));
    }
    if (n > PER_CHANGE)
        buf_printf(out, "  %s: [%u more lines]\n", side, n - PER_CHANGE);
    if (n == 0)
        buf_printf(out, "  %s: [nothing]\n", side);
}

/* How many lines of `old` are in the nearest text, and the first ones that are not, both ways. Line
 * endings are made the same first: they only count if nothing else differs. */
static void explain_changes(struct buf *out, struct span old, struct span place, uint64_t line)
{
    _cleanup_buf_ struct buf a = BUF_INIT(2 * old.n + 1), b = BUF_INIT(2 * place.n + 1);
    struct linediff d;
    uint64_t added, deleted, total = span_lines(old);
    edit_put_endings(&a, old, false);
    edit_put_endings(&b, place, false);
    if (b.len && old.data[old.n - 1] != '\n' && b.data[b.len - 1] == '\n')
        b.len--;
    if (a.failed || b.failed || linediff_make(a.data, a.len, b.data, b.len, &d) < 0) {
        buf_append_str(out, ".\n");
        return;
    }
    linediff_totals(&d, &added, &deleted);
    if (d.count == 0)
        buf_append_str(out, "; only line endings differ: the file has both CRLF and LF.\n");
    else
        buf_printf(out,
                   "; %" PRIu64 " of the %" PRIu64
                   " lines of `old` are there as they are. What differs:\n",
                   total - deleted, total);
    for (size_t i = 0; i < d.count && i < CHANGES_SHOWN; i++) {
        const struct linediff_change *c = &d.changes[i];
        uint64_t at = line + d.skipped + c->b_line;
        buf_printf(out, "  at line %" PRIu64 ":\n", at);
        explain_side(out, "`old`", &d.a, c->a_line, c->a_count);
        explain_side(out, "file ", &d.b, c->b_line, c->b_count);
        for (uint32_t k = 0; k < c->a_count && c->a_count == c->b_count && k < PER_CHANGE; k++)
            explain_alike(out, explain_line_of(&d.a, c->a_line + k),
                          explain_line_of(&d.b, c->b_line + k), at + k);
    }
    if (d.count > CHANGES_SHOWN)
        buf_printf(out, "  [%zu more places]\n", d.count - CHANGES_SHOWN);
    linediff_free(&d);
}

/* Do the lines begin with a number and a tab, as read_file shows them? */
static bool has_line_numbers(struct span old)
{
    for (size_t at = 0; at < old.n; at = span_line_end(old, at)) {
        size_t i = at, digits = 0;
        while (i < old.n && old.data[i] == ' ')
            i++;
        for (; i < old.n && isdigit(old.data[i]); digits++)
            i++;
        if (digits == 0 || i == old.n || old.data[i] != '\t')
            return false;
    }
    return true;
}

void edit_explain(struct span text, const struct edit *e, struct buf *out,
                  struct line_range *ret_nearest)
{
    struct line_range near = {0};
    *ret_nearest = near;
    size_t done = e->new.n >= KNOWN_AGAIN ? span_find(text, e->new, 0) : SIZE_MAX;
    if (done != SIZE_MAX)
        buf_printf(out,
                   "The text of `new` is already there, at line %" PRIu64
                   ": was this edit made before?\n",
                   span_count(text, '\n', done) + 1);
    if (text.n == 0) {
        buf_append_str(out, "The file is empty; use write_file.\n");
        return;
    }
    if (has_line_numbers(e->old)) {
        buf_append_str(out, "`old` begins its lines with numbers, as read_file shows them: they "
                            "are not in the file, leave them out.\n");
        return;
    }
    if (nearest_text_find(text, e->old, -1, &near) <= 0) {
        buf_append_str(out, "No text in the file is similar; look at it with read_file.\n");
        return;
    }
    size_t begin = 0, end;
    for (uint64_t i = 1; i < near.line; i++)
        begin = span_line_end(text, begin);
    end = begin;
    for (uint64_t i = 0; i < near.count; i++)
        end = span_line_end(text, end);
    if (near.count > 1)
        buf_printf(out, "The nearest text is at lines %" PRIu64 " to %" PRIu64, near.line,
                   near.line + near.count - 1);
    else
        buf_printf(out, "The nearest text is at line %" PRIu64, near.line);
    explain_changes(out, e->old, span_part(text, begin, end), near.line);
    buf_append_str(out, "These lines of the file:\n");
    for (uint64_t i = 0; i < near.count; i++) {
        end = span_line_end(text, begin);
        if (i == LINES_SHOWN) {
            buf_printf(out, "[%" PRIu64 " more lines]\n", near.count - i);
            break;
        }
        buf_printf(out, "%6" PRIu64 "\t", near.line + i);
        explain_line(out, span_part(text, begin, end));
        begin = end;
    }
    *ret_nearest = near;
}
