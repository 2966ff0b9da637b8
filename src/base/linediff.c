#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "linediff.h"
#include "linemyers.h"
#include "banned.h"

/* Steps of the search allowed for one pair of texts: about a second. */
#define WORK_MAX (1LL << 28)

struct text {
    const uint8_t *data;
    size_t size;
};

/* Where the line before the one that starts at `at` starts. */
static size_t line_before(const uint8_t *data, size_t at)
{
    const uint8_t *newline = at > 1 ? memrchr(data, '\n', at - 1) : NULL;
    return newline ? (size_t)(newline + 1 - data) : 0;
}

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

static uint32_t count_newlines(const uint8_t *data, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += data[i] == '\n';
    return count;
}

static int split(struct text a, struct text b, struct linediff *d)
{
    if (a.size > LINEDIFF_SIZE_MAX || b.size > LINEDIFF_SIZE_MAX)
        return -E2BIG;
    size_t same = common_head(&a, &b), head = same;
    for (d->lead = 0; d->lead < LINEDIFF_CONTEXT && head > 0; d->lead++)
        head = line_before(a.data, head);
    size_t tail = common_tail(&(struct text){a.data + same, a.size - same},
                              &(struct text){b.data + same, b.size - same});
    d->trail = tail ? LINEDIFF_CONTEXT : 0;
    d->skipped = count_newlines(a.data, head);
    int r = lineset_split(a.data + head, (uint32_t)(a.size - tail - head), &d->a);
    return r < 0 ? r : lineset_split(b.data + head, (uint32_t)(b.size - tail - head), &d->b);
}

/* One side made smaller: only lines that occur on the other side too take part in the search, and
 * never those that are known to be the same: a hunk must not have less context than the text around
 * it gives. */
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

static int reduce(const struct linediff *d, const struct lineset *set, const uint8_t *in_other,
                  struct reduced *s)
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

static void expand(struct reduced *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        s->changed[s->lines[i]] = s->item_changed[i];
}

static int mark_changed(struct linediff *d, struct reduced *a, struct reduced *b)
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
    if (reduce(d, &d->a, in_b, a) < 0 || reduce(d, &d->b, in_a, b) < 0)
        return -ENOMEM;
    struct linemyers_side x = {a->items, a->item_changed, a->count},
                          y = {b->items, b->item_changed, b->count};
    r = linemyers(&x, &y, WORK_MAX);
    if (r < 0)
        return r;
    expand(a);
    expand(b);
    return 0;
}

static int add_change(struct linediff *d, size_t *room, struct linediff_change c)
{
    if (d->count == *room) {
        *room = *room ? *room * 2 : 16;
        struct linediff_change *more = realloc(d->changes, *room * sizeof *more);
        if (!more)
            return -ENOMEM;
        d->changes = more;
    }
    d->changes[d->count++] = c;
    return 0;
}

/* Turns the marks into runs of changed lines. Lines that are not marked pair up one by one. */
static int collect(struct linediff *d, const uint8_t *a_changed, const uint8_t *b_changed)
{
    size_t room = 0;
    for (uint32_t i = 0, j = 0; i < d->a.count || j < d->b.count; i++, j++) {
        struct linediff_change c = {.a_line = i, .b_line = j};
        while (i < d->a.count && a_changed[i])
            i++;
        while (j < d->b.count && b_changed[j])
            j++;
        c.a_count = i - c.a_line;
        c.b_count = j - c.b_line;
        if ((c.a_count || c.b_count) && add_change(d, &room, c) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Lines that were only added or only deleted may stand further down as well, which reads better: a
 * new function then ends with its own closing brace, not with the one before it. */
static void slide_down(struct linediff *d)
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
    int r = split((struct text){a ? a : "", a_size}, (struct text){b ? b : "", b_size}, &d);
    if (r >= 0)
        r = mark_changed(&d, &x, &y);
    if (r >= 0)
        r = collect(&d, x.changed, y.changed);
    if (r < 0) {
        linediff_free(&d);
        return r;
    }
    slide_down(&d);
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
