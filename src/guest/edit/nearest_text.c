/*
 * The lines of a text that are most like those of `old`.
 *
 * Lines are compared folded, by a hash. Each line of the text that is the same as one of `old`
 * votes for where `old` would begin; rare lines count more than common ones. If no line is the
 * same, the line wins that has most pairs of characters in common with one of the longest of `old`.
 * The text is walked a fixed number of times, and what is remembered of it is bounded.
 */
#include <errno.h>
#include <stdlib.h>

#include "edit.h"
#include "text.h"
#include "banned.h"

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

static const uint8_t ASCII[128] = {
    0,    1,   2,    3,   4,   5,   6,   7,    8,   0,   0,   0,   0,    0,   14,  15,
    16,   17,  18,   19,  20,  21,  22,  23,   24,  25,  26,  27,  28,   29,  30,  31,
    0,    '!', '\'', '#', '$', '%', '&', '\'', '(', ')', '*', '+', ',',  '-', '.', '/',
    '0',  '1', '2',  '3', '4', '5', '6', '7',  '8', '9', ':', ';', '<',  '=', '>', '?',
    '@',  'a', 'b',  'c', 'd', 'e', 'f', 'g',  'h', 'i', 'j', 'k', 'l',  'm', 'n', 'o',
    'p',  'q', 'r',  's', 't', 'u', 'v', 'w',  'x', 'y', 'z', '[', '\\', ']', '^', '_',
    '\'', 'a', 'b',  'c', 'd', 'e', 'f', 'g',  'h', 'i', 'j', 'k', 'l',  'm', 'n', 'o',
    'p',  'q', 'r',  's', 't', 'u', 'v', 'w',  'x', 'y', 'z', '{', '|',  '}', '~', 127};

static struct folded fold_ascii(uint8_t c)
{
    return (struct folded){.used = 1, .n = ASCII[c] != 0, .bytes = {ASCII[c]}};
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
    if (s.data[at] < 0x80)
        return fold_ascii(s.data[at]);
    s = span_part(s, at, s.n);
    size_t used = utf8_character(s.data, s.n);
    uint32_t code = fold_code(s);
    struct folded f = {.used = (uint8_t)(used ? used : 1)};
    const char *as = NULL;
    char letter[2] = {0};
    if (used && code >= 0xff01 && code <= 0xff5e) {
        f = fold_ascii((uint8_t)(code - 0xff01 + '!'));
        f.used = (uint8_t)used;
        return f;
    }
    if (used && code >= 0xc0 && code < 0xc0 + sizeof LETTERS - 1 && LETTERS[code - 0xc0] != '.') {
        letter[0] = LETTERS[code - 0xc0];
        as = letter;
    }
    for (size_t i = 0; used && !as && i < ARRAY_SIZE(RANGES) && RANGES[i].first <= code; i++)
        if (code <= RANGES[i].last)
            as = RANGES[i].as;
    f.n = as ? (uint8_t)strlen(as) : f.used;
    memcpy(f.bytes, as ? (const void *)as : s.data, f.n);
    return f;
}

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

struct line_form {
    uint64_t hash;   /* of the folded line */
    uint32_t folded; /* its length */
    uint32_t pairs;  /* how many bits are set in: */
    uint64_t set[PAIRS_WORDS];
};

/* A walk over the lines of a text that are not blank; zero but for the text at first. */
struct line_walk {
    struct span text;
    size_t next;    /* offset of the next line */
    uint64_t lines; /* passed so far: the current line has the number lines - 1, from 0 */
    struct line_form form;
};

struct old_line {
    uint64_t hash;
    uint32_t folded;
    uint32_t next; /* the next line with the same hash, plus 1; 0: none */
    uint32_t hits; /* how often the text has it */
};

struct old_lines {
    struct old_line *lines;
    size_t count;
    uint32_t *table; /* by hash: a line plus 1 */
    uint32_t slots;
};

/* A line of the text that is the same as one of `old`: where `old` would begin. */
struct line_hit {
    int64_t start;
    uint32_t old_line;
};

static uint64_t hash_mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* Moves on to the next line that is not blank, and folds it. */
static bool line_walk_next(struct line_walk *w, bool with_pairs)
{
    while (w->next < w->text.n) {
        size_t at = w->next, end = span_line_end(w->text, w->next);
        struct line_form f = {.hash = 0xcbf29ce484222325u};
        uint8_t before = 0;
        w->next = end;
        w->lines++;
        while (at < end) {
            struct folded c = fold_at(w->text, at);
            for (uint8_t i = 0; i < c.n; i++) {
                f.hash = (f.hash ^ c.bytes[i]) * 0x100000001b3u;
                if (with_pairs && f.folded > 0 && f.folded < PAIRS_BYTES) {
                    uint64_t bit =
                        hash_mix((uint64_t)before << 8 | c.bytes[i]) % (PAIRS_WORDS * 64);
                    f.set[bit / 64] |= (uint64_t)1 << bit % 64;
                }
                before = c.bytes[i];
                f.folded++;
            }
            at += c.used;
        }
        for (size_t i = 0; with_pairs && i < PAIRS_WORDS; i++)
            f.pairs += (uint32_t)__builtin_popcountll(f.set[i]);
        w->form = f;
        if (f.folded)
            return true;
    }
    return false;
}

static void old_lines_free(struct old_lines *o)
{
    free(o->lines);
    free(o->table);
}

/* The slot of the lines with that hash, or the free one where they belong. */
static uint32_t *old_lines_slot(const struct old_lines *o, uint64_t hash)
{
    uint32_t slot = (uint32_t)(hash_mix(hash) & (o->slots - 1));
    while (o->table[slot] && o->lines[o->table[slot] - 1].hash != hash)
        slot = (slot + 1) & (o->slots - 1);
    return &o->table[slot];
}

static int old_lines_make(struct span old, struct old_lines *o)
{
    uint64_t total = span_lines(old);
    struct line_walk w = {.text = old};
    o->count = total < OLD_LINES_MAX ? (size_t)total : OLD_LINES_MAX;
    o->slots = 64;
    while (o->slots < 2 * o->count)
        o->slots *= 2;
    o->lines = calloc(o->count + 1, sizeof *o->lines);
    o->table = calloc(o->slots, sizeof *o->table);
    if (!o->lines || !o->table)
        return -ENOMEM;
    while (line_walk_next(&w, false) && w.lines <= o->count) {
        uint32_t *slot = old_lines_slot(o, w.form.hash);
        o->lines[w.lines - 1] = (struct old_line){w.form.hash, w.form.folded, *slot, 0};
        *slot = (uint32_t)w.lines;
    }
    return 0;
}

static int line_hit_compare(const void *a, const void *b)
{
    const struct line_hit *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static uint32_t line_hit_weight(const struct old_lines *o, const struct line_hit *h)
{
    const struct old_line *l = &o->lines[h->old_line];
    if (l->hits == HITS_OF_LINE)
        return 0;
    return l->folded < WEAK_FOLDED ? 1 : WEIGHT_MAX / l->hits + 1;
}

/* The first line with the most votes, of several the one nearest to the guess, and the number of
 * lines up to the last that voted. Votes for a line nearby count too, since lines may be missing. 0
 * if there are none. */
static int nearest_by_votes(struct span text, struct old_lines *o, int64_t guess,
                            int64_t *ret_start, uint64_t *ret_count)
{
    struct line_walk w = {.text = text};
    size_t count = 0, best_first = 0, best_last = 0;
    int64_t slack = 2 + (int64_t)o->count / 10;
    int64_t best_distance = 0;
    uint64_t sum = 0, best = 0;
    _cleanup_free_ struct line_hit *hits = calloc(HITS_MAX, sizeof *hits);
    if (!hits)
        return -ENOMEM;
    while (line_walk_next(&w, false))
        for (uint32_t i = *old_lines_slot(o, w.form.hash); i; i = o->lines[i - 1].next) {
            /* All lines with one hash have as many hits: too many for one, too many for all. */
            if (o->lines[i - 1].hits == HITS_OF_LINE)
                break;
            o->lines[i - 1].hits++;
            if (count < HITS_MAX)
                hits[count++] = (struct line_hit){(int64_t)w.lines - (int64_t)i, i - 1};
        }
    qsort(hits, count, sizeof *hits, line_hit_compare);
    for (size_t first = 0, i = 0; i < count; i++) {
        sum += line_hit_weight(o, &hits[i]);
        for (; hits[i].start - hits[first].start > slack; first++)
            sum -= line_hit_weight(o, &hits[first]);
        int64_t distance = guess < 0 ? 0 : llabs(hits[first].start - guess);
        if (sum < best || (sum == best && distance >= best_distance))
            continue;
        best_distance = distance;
        best = sum;
        best_first = first;
        best_last = i;
    }
    if (best <= (o->count > 1)) /* a lone brace of several lines is no reason */
        return 0;
    *ret_start = hits[best_first].start;
    *ret_count = 0;
    for (size_t k = best_first; k <= best_last; k++) {
        uint64_t reach = (uint64_t)(hits[k].start - *ret_start) + hits[k].old_line + 1;
        *ret_count = reach > *ret_count && line_hit_weight(o, &hits[k]) ? reach : *ret_count;
    }
    return 1;
}

/* By the text's line that is most like one of the longest lines of `old`. */
static bool nearest_by_likeness(struct span text, struct span old, int64_t *ret_start)
{
    struct line_form anchors[ANCHORS_MAX] = {0};
    uint64_t numbers[ANCHORS_MAX] = {0};
    struct line_walk w = {.text = old};
    unsigned best = LIKENESS_MIN - 1;
    while (line_walk_next(&w, true) && w.lines <= OLD_LINES_MAX) {
        size_t at = ANCHORS_MAX;
        while (at > 0 && w.form.folded > anchors[at - 1].folded)
            at--;
        if (at == ANCHORS_MAX || w.form.folded < ANCHOR_LEAST)
            continue;
        for (size_t i = ANCHORS_MAX - 1; i > at; i--) {
            anchors[i] = anchors[i - 1];
            numbers[i] = numbers[i - 1];
        }
        anchors[at] = w.form;
        numbers[at] = w.lines;
    }
    w = (struct line_walk){.text = text};
    while (anchors[0].folded && line_walk_next(&w, true))
        for (size_t i = 0; i < ANCHORS_MAX && anchors[i].folded; i++) {
            const struct line_form *a = &anchors[i], *b = &w.form;
            unsigned common = 0, sum = a->pairs + b->pairs;
            for (size_t k = 0; k < PAIRS_WORDS; k++)
                common += (unsigned)__builtin_popcountll(a->set[k] & b->set[k]);
            unsigned percent = sum ? 200 * common / sum : 0;
            /* A line that contains the other one is nearly as good. */
            if (a->pairs && a->pairs <= b->pairs && CONTAINED * common / a->pairs > percent)
                percent = CONTAINED * common / a->pairs;
            if (percent > best) {
                best = percent;
                *ret_start = (int64_t)w.lines - (int64_t)numbers[i];
            }
        }
    return best >= LIKENESS_MIN;
}

int nearest_text_find(struct span text, struct span old, int64_t guess, struct line_range *ret)
{
    _cleanup_(old_lines_free) struct old_lines lines = {0};
    int64_t start = 0; /* from 0, perhaps before the text */
    uint64_t voted = 0, count = span_lines(old), total = span_lines(text);
    int r = old_lines_make(old, &lines);
    if (r >= 0)
        r = nearest_by_votes(text, &lines, guess, &start, &voted);
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
