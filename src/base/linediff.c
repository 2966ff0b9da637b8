/*
 * Four steps: split both texts into lines, number the lines by their bytes (lineset), find a short
 * edit script between the two sequences of numbers (linemyers), print it as hunks.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cleanup.h"
#include "linediff.h"
#include "banned.h"

/* A hash table of the classes found so far, with open addressing, at most two thirds full. The
 * lines of both texts are numbered in one sequence from 1, which keeps a slot small. */
struct class_table {
    struct {
        uint32_t hash;
        uint32_t line; /* the first of its class; 0: free */
    } * slots;
    size_t mask;
    struct lineset *a, *b;
};

static void lineset_free(struct lineset *s)
{
    free(s->at);
    free(s->class);
    *s = (struct lineset){0};
}

/* -E2BIG: too many lines. The text must outlive the set. */
static int lineset_split(const uint8_t *data, uint32_t size, struct lineset *ret)
{
    uint32_t count = 0;
    for (const uint8_t *at = data, *end = data + size; at < end; count++) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    if (count > LINESET_LINES_MAX)
        return -E2BIG;
    struct lineset s = {.data = data, .count = count};
    s.at = malloc(sizeof *s.at * ((size_t)count + 1));
    s.class = calloc((size_t)count + 1, sizeof *s.class);
    if (!s.at || !s.class) {
        lineset_free(&s);
        return -ENOMEM;
    }
    s.at[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *newline = memchr(data + s.at[i], '\n', size - s.at[i]);
        s.at[i + 1] = newline ? (uint32_t)(newline + 1 - data) : size;
    }
    *ret = s;
    return 0;
}

static uint64_t hash_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_line(const uint64_t key[2], const uint8_t *data, uint32_t size)
{
    uint64_t h = key[0] ^ size;
    while (size > 0) {
        uint64_t word = 0;
        uint32_t take = size < sizeof word ? size : (uint32_t)sizeof word;
        memcpy(&word, data, take);
        h = hash_mix(h ^ word, key[1]) + key[0];
        data += take;
        size -= take;
    }
    return hash_mix(h, key[1] ^ 0x9e3779b97f4a7c15u);
}

/* The set that holds a line of that number, and the line's index there. */
static struct lineset *class_table_set(const struct class_table *t, uint32_t line,
                                       uint32_t *ret_index)
{
    bool in_a = line <= t->a->count;
    *ret_index = in_a ? line - 1 : line - 1 - t->a->count;
    return in_a ? t->a : t->b;
}

/* Fills in the classes of both sets; *ret_classes is how many there are. */
static int lineset_classify(struct lineset *a, struct lineset *b, uint32_t *ret_classes)
{
    struct class_table t = {.mask = 15, .a = a, .b = b};
    size_t lines = (size_t)a->count + b->count;
    uint32_t classes = 0;
    uint64_t key[2];
    while (t.mask < lines + lines / 2)
        t.mask = t.mask * 2 + 1;
    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key)
        return -EIO;
    key[1] |= 1;
    t.slots = calloc(t.mask + 1, sizeof *t.slots);
    if (!t.slots)
        return -ENOMEM;
    for (uint32_t line = 1; line <= lines; line++) {
        uint32_t index;
        struct lineset *s = class_table_set(&t, line, &index);
        const uint8_t *data = s->data + s->at[index];
        uint32_t size = s->at[index + 1] - s->at[index];
        uint64_t hash = hash_line(key, data, size);
        size_t slot = hash & t.mask;
        for (; t.slots[slot].line; slot = (slot + 1) & t.mask) {
            uint32_t i;
            const struct lineset *other = class_table_set(&t, t.slots[slot].line, &i);
            if (t.slots[slot].hash == hash >> 32 && other->at[i + 1] - other->at[i] == size &&
                memcmp(other->data + other->at[i], data, size) == 0) {
                s->class[index] = other->class[i];
                break;
            }
        }
        if (t.slots[slot].line)
            continue;
        t.slots[slot].hash = (uint32_t)(hash >> 32);
        t.slots[slot].line = line;
        s->class[index] = classes++;
    }
    free(t.slots);
    *ret_classes = classes;
    return 0;
}

/* Edits after which one search is cut. What it found by then takes at most log2 of it levels of
 * recursion. */
#define COST_MAX 512

/* The part of both sequences that is worked on: items from lo up to, not with, hi. */
struct myers_box {
    int32_t a_lo, a_hi, b_lo, b_hi;
};

/* The furthest a-position reached on each diagonal (a - b), from the front and from the back. */
struct myers_search {
    const uint32_t *a, *b;
    struct linemyers_side *sides[2];
    int32_t *front, *back; /* indexed by diagonal, also negative */
    int64_t work;
};

/* The diagonals in use: those that can be reached with the edits so far and lie within the box. */
struct myers_band {
    int32_t lo, hi;
    int32_t min, max;
};

struct myers_point {
    int32_t a, b;
};

/* One more edit reaches one more diagonal on each side; at the box's edge it becomes narrower
 * instead. */
static void myers_band_widen(struct myers_band *d, int32_t *reached, int32_t nowhere)
{
    if (d->min > d->lo)
        reached[--d->min - 1] = nowhere;
    else
        d->min++;
    if (d->max < d->hi)
        reached[++d->max + 1] = nowhere;
    else
        d->max--;
}

/* Goes forward by one edit on every diagonal; true when a way from the back was met. */
static bool myers_step_front(struct myers_search *s, const struct myers_box *x,
                             struct myers_band *d, const struct myers_band *met,
                             struct myers_point *ret)
{
    myers_band_widen(d, s->front, -1);
    for (int32_t k = d->max; k >= d->min; k -= 2) {
        int32_t a = s->front[k - 1] >= s->front[k + 1] ? s->front[k - 1] + 1 : s->front[k + 1];
        int32_t from = a;
        while (a < x->a_hi && a - k < x->b_hi && s->a[a] == s->b[a - k])
            a++;
        s->front[k] = a;
        s->work -= 1 + a - from;
        if (met && k >= met->min && k <= met->max && s->back[k] <= a) {
            *ret = (struct myers_point){a, a - k};
            return true;
        }
    }
    return false;
}

static bool myers_step_back(struct myers_search *s, const struct myers_box *x, struct myers_band *d,
                            const struct myers_band *met, struct myers_point *ret)
{
    myers_band_widen(d, s->back, INT32_MAX);
    for (int32_t k = d->max; k >= d->min; k -= 2) {
        int32_t a = s->back[k - 1] < s->back[k + 1] ? s->back[k - 1] : s->back[k + 1] - 1;
        int32_t from = a;
        while (a > x->a_lo && a - k > x->b_lo && s->a[a - 1] == s->b[a - k - 1])
            a--;
        s->back[k] = a;
        s->work -= 1 + from - a;
        if (met && k >= met->min && k <= met->max && a <= s->front[k]) {
            *ret = (struct myers_point){a, a - k};
            return true;
        }
    }
    return false;
}

/* The point that the search from the front came furthest to. */
static struct myers_point myers_furthest(const struct myers_search *s, const struct myers_box *x,
                                         const struct myers_band *d)
{
    struct myers_point best = {x->a_lo, x->b_lo};
    for (int32_t k = d->max; k >= d->min; k -= 2) {
        int32_t a = s->front[k] < x->a_hi ? s->front[k] : x->a_hi;
        if (a - k > x->b_hi)
            a = x->b_hi + k;
        if (a - best.a + a - k - best.b > 0)
            best = (struct myers_point){a, a - k};
    }
    return best;
}

/* A point to divide the box at, other than its corners; false when the work allowed is used up. */
static bool myers_find_middle(struct myers_search *s, const struct myers_box *x,
                              struct myers_point *ret)
{
    const int32_t front_start = x->a_lo - x->b_lo, back_start = x->a_hi - x->b_hi;
    const bool odd = (front_start - back_start) & 1;
    struct myers_band front = {x->a_lo - x->b_hi, x->a_hi - x->b_lo, front_start, front_start};
    struct myers_band back = {front.lo, front.hi, back_start, back_start};
    s->front[front_start] = x->a_lo;
    s->back[back_start] = x->a_hi;
    for (int cost = 1; s->work > 0; cost++) {
        if (myers_step_front(s, x, &front, odd ? &back : NULL, ret))
            return true;
        if (myers_step_back(s, x, &back, odd ? NULL : &front, ret))
            return true;
        if (cost >= COST_MAX) {
            *ret = myers_furthest(s, x, &front);
            return true;
        }
    }
    return false;
}

static void myers_compare(struct myers_search *s, struct myers_box x)
{
    for (;;) {
        struct myers_point middle;
        while (x.a_lo < x.a_hi && x.b_lo < x.b_hi && s->a[x.a_lo] == s->b[x.b_lo]) {
            x.a_lo++;
            x.b_lo++;
        }
        while (x.a_lo < x.a_hi && x.b_lo < x.b_hi && s->a[x.a_hi - 1] == s->b[x.b_hi - 1]) {
            x.a_hi--;
            x.b_hi--;
        }
        if (x.a_lo == x.a_hi || x.b_lo == x.b_hi || !myers_find_middle(s, &x, &middle)) {
            memset(s->sides[0]->changed + x.a_lo, 1, (size_t)(x.a_hi - x.a_lo));
            memset(s->sides[1]->changed + x.b_lo, 1, (size_t)(x.b_hi - x.b_lo));
            return;
        }
        myers_compare(s, (struct myers_box){x.a_lo, middle.a, x.b_lo, middle.b});
        x.a_lo = middle.a;
        x.b_lo = middle.b;
    }
}

int linemyers(struct linemyers_side *a, struct linemyers_side *b, int64_t work)
{
    /* Diagonals run from -b->count - 1 to a->count + 1. */
    size_t diagonals = (size_t)a->count + b->count + 3;
    _cleanup_free_ int32_t *reached = malloc(2 * diagonals * sizeof *reached);
    if (!reached)
        return -ENOMEM;
    struct myers_search s = {
        .a = a->items,
        .b = b->items,
        .sides = {a, b},
        .front = reached + b->count + 1,
        .back = reached + diagonals + b->count + 1,
        .work = work,
    };
    myers_compare(&s, (struct myers_box){0, (int32_t)a->count, 0, (int32_t)b->count});
    return 0;
}

/* Steps of the search allowed for one pair of texts: about a second. */
#define WORK_MAX (1LL << 28)

struct text {
    const uint8_t *data;
    size_t size;
};

/* Bytes at the head that are the same, in whole lines. */
static size_t common_head(const struct text *a, const struct text *b)
{
    size_t n = 0, most = a->size < b->size ? a->size : b->size;
    while (n < most && a->data[n] == b->data[n])
        n++;
    if (n == a->size && n == b->size)
        return n;
    const uint8_t *newline = n ? memrchr(a->data, '\n', n) : NULL;
    return newline ? (size_t)(newline + 1 - a->data) : 0;
}

/* Bytes at the tail that are the same, in whole lines less those that are kept as context. */
static size_t common_tail(const struct text *a, const struct text *b)
{
    size_t n = 0, most = a->size < b->size ? a->size : b->size;
    while (n < most && a->data[a->size - 1 - n] == b->data[b->size - 1 - n])
        n++;
    const uint8_t *at = a->data + a->size - n, *end = a->data + a->size;
    for (unsigned i = 0; i < LINEDIFF_CONTEXT + 1 && at < end; i++) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return (size_t)(end - at);
}

/* Cuts off what both texts have in common at the head and the tail, and splits the rest. */
static int linediff_split(struct text a, struct text b, struct linediff *d)
{
    if (a.size > LINEDIFF_SIZE_MAX || b.size > LINEDIFF_SIZE_MAX)
        return -E2BIG;
    size_t same = common_head(&a, &b), head = same;
    for (d->lead = 0; d->lead < LINEDIFF_CONTEXT && head > 0; d->lead++) {
        const uint8_t *newline = head > 1 ? memrchr(a.data, '\n', head - 1) : NULL;
        head = newline ? (size_t)(newline + 1 - a.data) : 0;
    }
    size_t tail = common_tail(&(struct text){a.data + same, a.size - same},
                              &(struct text){b.data + same, b.size - same});
    d->trail = tail ? LINEDIFF_CONTEXT : 0;
    for (size_t i = 0; i < head; i++)
        d->skipped += a.data[i] == '\n';
    int r = lineset_split(a.data + head, (uint32_t)(a.size - tail - head), &d->a);
    return r < 0 ? r : lineset_split(b.data + head, (uint32_t)(b.size - tail - head), &d->b);
}

/* One side made smaller: the search sees only lines that occur on the other side too, and none of
 * the common lines around the window, so that a hunk gets all of its context. */
struct reduced {
    uint32_t *items;
    uint32_t *lines; /* where each item stands in the whole */
    uint8_t *item_changed;
    uint8_t *changed; /* by line of the whole */
    uint32_t count;
};

static void reduced_free(struct reduced *s)
{
    free(s->items);
    free(s->lines);
    free(s->item_changed);
    free(s->changed);
}

static int reduced_make(const struct linediff *d, const struct lineset *set,
                        const uint8_t *in_other, struct reduced *s)
{
    size_t room = (size_t)set->count + 1;
    s->items = malloc(room * sizeof *s->items);
    s->lines = malloc(room * sizeof *s->lines);
    s->item_changed = calloc(room, 1);
    s->changed = calloc(room, 1);
    if (!s->items || !s->lines || !s->item_changed || !s->changed)
        return -ENOMEM;
    for (uint32_t i = d->lead; i < set->count - d->trail; i++) {
        if (!in_other[set->class[i]]) {
            s->changed[i] = 1;
            continue;
        }
        s->items[s->count] = set->class[i];
        s->lines[s->count++] = i;
    }
    return 0;
}

static int linediff_mark(struct linediff *d, struct reduced *a, struct reduced *b)
{
    uint32_t classes;
    int r = lineset_classify(&d->a, &d->b, &classes);
    if (r < 0)
        return r;
    _cleanup_free_ uint8_t *in_a = calloc((size_t)classes + 1, 1),
                           *in_b = calloc((size_t)classes + 1, 1);
    if (!in_a || !in_b)
        return -ENOMEM;
    for (uint32_t i = d->lead; i < d->a.count - d->trail; i++)
        in_a[d->a.class[i]] = 1;
    for (uint32_t i = d->lead; i < d->b.count - d->trail; i++)
        in_b[d->b.class[i]] = 1;
    if (reduced_make(d, &d->a, in_b, a) < 0 || reduced_make(d, &d->b, in_a, b) < 0)
        return -ENOMEM;
    struct linemyers_side x = {a->items, a->item_changed, a->count},
                          y = {b->items, b->item_changed, b->count};
    r = linemyers(&x, &y, WORK_MAX);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < a->count; i++)
        a->changed[a->lines[i]] = a->item_changed[i];
    for (uint32_t i = 0; i < b->count; i++)
        b->changed[b->lines[i]] = b->item_changed[i];
    return 0;
}

/* Turns the marks into runs of changed lines. Lines that are not marked pair up one by one. */
static int linediff_collect(struct linediff *d, const uint8_t *a_changed, const uint8_t *b_changed)
{
    for (uint32_t i = 0, j = 0; i < d->a.count || j < d->b.count; i++, j++) {
        struct linediff_change c = {.a_line = i, .b_line = j};
        while (i < d->a.count && a_changed[i])
            i++;
        while (j < d->b.count && b_changed[j])
            j++;
        c.a_count = i - c.a_line;
        c.b_count = j - c.b_line;
        if (c.a_count == 0 && c.b_count == 0)
            continue;
        if (!list_grow(&d->changes, d->count, sizeof *d->changes))
            return -ENOMEM;
        d->changes[d->count++] = c;
    }
    return 0;
}

/* Lines that were only added or only deleted may stand further down as well, which reads better: a
 * new function then ends with its own closing brace, not with the one before it. */
static void linediff_slide_down(struct linediff *d)
{
    for (size_t i = 0; i < d->count; i++) {
        struct linediff_change *c = &d->changes[i];
        if (c->a_count && c->b_count)
            continue;
        const struct lineset *s = c->a_count ? &d->a : &d->b;
        uint32_t n = c->a_count + c->b_count;
        uint32_t *line = c->a_count ? &c->a_line : &c->b_line,
                 *other = c->a_count ? &c->b_line : &c->a_line;
        uint32_t end = s->count - d->trail;
        if (i + 1 < d->count)
            end = (c->a_count ? c[1].a_line : c[1].b_line) - 1;
        while (*line + n < end && s->class[*line] == s->class[*line + n]) {
            ++*line;
            ++*other;
        }
    }
}

int linediff_make(const void *a, size_t a_size, const void *b, size_t b_size, struct linediff *ret)
{
    struct linediff d = {0};
    _cleanup_(reduced_free) struct reduced x = {0}, y = {0};
    int r =
        linediff_split((struct text){a ? a : "", a_size}, (struct text){b ? b : "", b_size}, &d);
    if (r >= 0)
        r = linediff_mark(&d, &x, &y);
    if (r >= 0)
        r = linediff_collect(&d, x.changed, y.changed);
    if (r < 0) {
        linediff_free(&d);
        return r;
    }
    linediff_slide_down(&d);
    *ret = d;
    return 0;
}

void linediff_free(struct linediff *d)
{
    lineset_free(&d->a);
    lineset_free(&d->b);
    free(d->changes);
    *d = (struct linediff){0};
}

void linediff_totals(const struct linediff *d, uint64_t *ret_added, uint64_t *ret_deleted)
{
    uint64_t added = 0, deleted = 0;
    for (size_t i = 0; i < d->count; i++) {
        added += d->changes[i].b_count;
        deleted += d->changes[i].a_count;
    }
    *ret_added = added;
    *ret_deleted = deleted;
}

struct printer {
    const struct linediff *d;
    int (*write)(void *data, const void *bytes, size_t n);
    void *data;
};

static int hunk_print_lines(const struct printer *p, const struct lineset *s, char sign,
                            uint32_t from, uint32_t n)
{
    static const char NO_NEWLINE[] = "\n\\ No newline at end of file\n";
    for (uint32_t i = from; i < from + n; i++) {
        const uint8_t *line = s->data + s->at[i];
        uint32_t size = s->at[i + 1] - s->at[i];
        int r = p->write(p->data, &sign, 1);
        if (r >= 0)
            r = p->write(p->data, line, size);
        if (r >= 0 && line[size - 1] != '\n')
            r = p->write(p->data, NO_NEWLINE, sizeof NO_NEWLINE - 1);
        if (r < 0)
            return r;
    }
    return 0;
}

/* "12,3"; a count of one is left out, and an empty range has the number of the line before it. */
static void format_range(char *ret, size_t size, uint32_t line, uint32_t count)
{
    if (count == 1)
        snprintf(ret, size, "%u", line + 1);
    else
        snprintf(ret, size, "%u,%u", count ? line + 1 : line, count);
}

/* Prints the changes from first to last as one hunk, with their context. */
static int hunk_print(const struct printer *p, size_t first, size_t last)
{
    const struct linediff *d = p->d;
    const struct linediff_change *f = &d->changes[first], *l = &d->changes[last];
    uint32_t before = f->a_line < LINEDIFF_CONTEXT ? f->a_line : LINEDIFF_CONTEXT;
    uint32_t a_end = l->a_line + l->a_count, b_end = l->b_line + l->b_count;
    uint32_t after = d->a.count - a_end < LINEDIFF_CONTEXT ? d->a.count - a_end : LINEDIFF_CONTEXT;
    uint32_t at = f->a_line - before, b_from = f->b_line - before;
    char a[32], b[32], header[80];
    format_range(a, sizeof a, d->skipped + at, a_end + after - at);
    format_range(b, sizeof b, d->skipped + b_from, b_end + after - b_from);
    int n = snprintf(header, sizeof header, "@@ -%s +%s @@\n", a, b);
    int r = p->write(p->data, header, (size_t)n);
    for (size_t i = first; r >= 0 && i <= last; i++) {
        const struct linediff_change *c = &d->changes[i];
        r = hunk_print_lines(p, &d->a, ' ', at, c->a_line - at);
        if (r >= 0)
            r = hunk_print_lines(p, &d->a, '-', c->a_line, c->a_count);
        if (r >= 0)
            r = hunk_print_lines(p, &d->b, '+', c->b_line, c->b_count);
        at = c->a_line + c->a_count;
    }
    return r < 0 ? r : hunk_print_lines(p, &d->a, ' ', at, a_end + after - at);
}

int linediff_print(const struct linediff *d, int (*write)(void *data, const void *bytes, size_t n),
                   void *data)
{
    struct printer p = {d, write, data};
    for (size_t first = 0, last; first < d->count; first = last + 1) {
        last = first;
        while (last + 1 < d->count &&
               d->changes[last + 1].a_line - d->changes[last].a_line - d->changes[last].a_count <=
                   2 * LINEDIFF_CONTEXT)
            last++;
        int r = hunk_print(&p, first, last);
        if (r < 0)
            return r;
    }
    return 0;
}

/* One side: its lines, and what it changed against the base. */
struct side {
    struct lineset lines;
    struct linediff diff;
    size_t next;   /* the first change that is not merged yet */
    int64_t shift; /* line here = line of the base + shift, behind the changes before `next` */
};

/* A range of lines of the base that at least one side changed, and what it is on both sides. */
struct region {
    uint32_t from, to;
    uint32_t side_from[2], side_to[2];
    bool changed[2];
};

struct merge {
    struct lineset base;
    struct side sides[2]; /* mine, theirs */
    const struct merge_labels *labels;
    const char *newline;
    struct buf *out;
};

/* Where a change begins, counted in lines of the base; in a diff they are relative to its
 * window. */
static uint32_t change_from(const struct side *s, size_t i)
{
    return s->diff.skipped + s->diff.changes[i].a_line;
}

/* Adds the changes of one side that overlap the region or touch it. True if there were any. */
static bool region_absorb(struct region *r, struct side *s, int which)
{
    bool any = false;
    while (s->next < s->diff.count && change_from(s, s->next) <= r->to) {
        const struct linediff_change *c = &s->diff.changes[s->next];
        uint32_t to = change_from(s, s->next) + c->a_count;
        if (to > r->to)
            r->to = to;
        s->shift += (int64_t)c->b_count - c->a_count;
        s->next++;
        r->changed[which] = any = true;
    }
    return any;
}

/* The next region, made of all changes that overlap or touch each other. False at the end. */
static bool region_next(struct merge *m, struct region *ret)
{
    uint32_t first = UINT32_MAX;
    int64_t before[2] = {m->sides[0].shift, m->sides[1].shift};
    for (int i = 0; i < 2; i++) {
        struct side *s = &m->sides[i];
        if (s->next < s->diff.count && change_from(s, s->next) < first)
            first = change_from(s, s->next);
    }
    if (first == UINT32_MAX)
        return false;
    struct region r = {.from = first, .to = first};
    for (bool more = true; more;) {
        more = region_absorb(&r, &m->sides[0], 0);
        more |= region_absorb(&r, &m->sides[1], 1);
    }
    for (int i = 0; i < 2; i++) {
        r.side_from[i] = (uint32_t)((int64_t)r.from + before[i]);
        r.side_to[i] = (uint32_t)((int64_t)r.to + m->sides[i].shift);
    }
    *ret = r;
    return true;
}

static void put_lines(struct merge *m, const struct lineset *l, uint32_t from, uint32_t to)
{
    buf_append(m->out, l->data + l->at[from], l->at[to] - l->at[from]);
}

static bool lines_same(const struct lineset *a, uint32_t i, const struct lineset *b, uint32_t j)
{
    size_t n = a->at[i + 1] - a->at[i];
    return n == b->at[j + 1] - b->at[j] && memcmp(a->data + a->at[i], b->data + b->at[j], n) == 0;
}

static void put_marker(struct merge *m, const char *marker, const char *label)
{
    if (m->out->len && m->out->data[m->out->len - 1] != '\n')
        buf_append_str(m->out, m->newline);
    buf_append_str(m->out, marker);
    if (label) {
        buf_append_str(m->out, " ");
        buf_append_str(m->out, label);
    }
    buf_append_str(m->out, m->newline);
}

/* Writes both versions; lines that they have in common at the head and at the tail stay outside.
 * Returns 1, or 0 if the versions are the same. */
static int put_conflict(struct merge *m, const struct region *r)
{
    const struct lineset *mine = &m->sides[0].lines, *theirs = &m->sides[1].lines;
    uint32_t a = r->side_from[0], a_end = r->side_to[0], b = r->side_from[1], b_end = r->side_to[1];
    uint32_t tail = a_end;
    while (a < a_end && b < b_end && lines_same(mine, a, theirs, b)) {
        a++;
        b++;
    }
    while (a < a_end && b < b_end && lines_same(mine, a_end - 1, theirs, b_end - 1)) {
        a_end--;
        b_end--;
    }
    put_lines(m, mine, r->side_from[0], a);
    bool differ = a < a_end || b < b_end;
    if (differ) {
        put_marker(m, "<<<<<<<", m->labels->mine);
        put_lines(m, mine, a, a_end);
        put_marker(m, "=======", NULL);
        put_lines(m, theirs, b, b_end);
        put_marker(m, ">>>>>>>", m->labels->theirs);
    }
    put_lines(m, mine, a_end, tail);
    return differ;
}

static void merge_close(struct merge *m)
{
    lineset_free(&m->base);
    for (int i = 0; i < 2; i++) {
        lineset_free(&m->sides[i].lines);
        linediff_free(&m->sides[i].diff);
    }
}

int merge_texts(const struct merge_text *base, const struct merge_text *mine,
                const struct merge_text *theirs, const struct merge_labels *labels, struct buf *ret)
{
    struct merge_text texts[] = {*base, *mine, *theirs};
    for (int i = 0; i < 3; i++) {
        if (texts[i].size > MERGE_SIZE_MAX)
            return -E2BIG;
        if (texts[i].size > 0 && memchr(texts[i].data, 0, texts[i].size))
            return -EILSEQ;
        if (!texts[i].data)
            texts[i] = (struct merge_text){"", 0};
    }
    /* Markers end as the first line of mine does. */
    const uint8_t *first = texts[1].data, *end = memchr(first, '\n', texts[1].size);
    _cleanup_(merge_close) struct merge m = {
        .labels = labels,
        .out = ret,
        .newline = end && end > first && end[-1] == '\r' ? "\r\n" : "\n",
    };
    int r = lineset_split(texts[0].data, (uint32_t)texts[0].size, &m.base);
    for (int i = 0; r >= 0 && i < 2; i++) {
        const struct merge_text *t = &texts[i + 1];
        r = lineset_split(t->data, (uint32_t)t->size, &m.sides[i].lines);
        if (r >= 0)
            r = linediff_make(texts[0].data, texts[0].size, t->data, t->size, &m.sides[i].diff);
    }
    if (r < 0)
        return r;
    struct region region;
    uint32_t at = 0;
    int conflicts = 0;
    while (region_next(&m, &region)) {
        put_lines(&m, &m.base, at, region.from);
        int changed = region.changed[0] ? 0 : 1;
        if (region.changed[0] && region.changed[1])
            conflicts += put_conflict(&m, &region);
        else
            put_lines(&m, &m.sides[changed].lines, region.side_from[changed],
                      region.side_to[changed]);
        at = region.to;
    }
    put_lines(&m, &m.base, at, m.base.count);
    return ret->failed ? -ENOMEM : conflicts;
}
