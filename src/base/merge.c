#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "linediff.h"
#include "merge.h"
#include "banned.h"

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

bool merge_is_text(const struct merge_text *t)
{
    return t->size == 0 || !memchr(t->data, 0, t->size);
}

/* Positions in a diff are relative to its window; these are relative to the base. */
static uint32_t change_from(const struct side *s, size_t i)
{
    return s->diff.skipped + s->diff.changes[i].a_line;
}

static uint32_t change_to(const struct side *s, size_t i)
{
    return change_from(s, i) + s->diff.changes[i].a_count;
}

/* Adds the changes of one side that overlap the region or touch it. True if there were any. */
static bool region_absorb(struct region *r, struct side *s, int which)
{
    bool any = false;
    while (s->next < s->diff.count && change_from(s, s->next) <= r->to) {
        const struct linediff_change *c = &s->diff.changes[s->next];
        if (change_to(s, s->next) > r->to)
            r->to = change_to(s, s->next);
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

static int merge_regions(struct merge *m)
{
    struct region r;
    uint32_t at = 0;
    int conflicts = 0;
    while (region_next(m, &r)) {
        put_lines(m, &m->base, at, r.from);
        if (r.changed[0] && r.changed[1])
            conflicts += put_conflict(m, &r);
        else if (r.changed[0])
            put_lines(m, &m->sides[0].lines, r.side_from[0], r.side_to[0]);
        else
            put_lines(m, &m->sides[1].lines, r.side_from[1], r.side_to[1]);
        at = r.to;
    }
    put_lines(m, &m->base, at, m->base.count);
    return m->out->failed ? -ENOMEM : conflicts;
}

static int side_open(struct side *s, const struct merge_text *base, const struct merge_text *text)
{
    int r = lineset_split(text->data, (uint32_t)text->size, &s->lines);
    return r < 0 ? r : linediff_make(base->data, base->size, text->data, text->size, &s->diff);
}

static void merge_close(struct merge *m)
{
    lineset_free(&m->base);
    for (int i = 0; i < 2; i++) {
        lineset_free(&m->sides[i].lines);
        linediff_free(&m->sides[i].diff);
    }
}

/* Markers end as the first line of mine does. */
static const char *newline_of(const struct merge_text *t)
{
    const uint8_t *end = t->size ? memchr(t->data, '\n', t->size) : NULL;
    return end && end > (const uint8_t *)t->data && end[-1] == '\r' ? "\r\n" : "\n";
}

int merge_texts(const struct merge_text *base, const struct merge_text *mine,
                const struct merge_text *theirs, const struct merge_labels *labels, struct buf *ret)
{
    const struct merge_text *texts[] = {base, mine, theirs};
    struct merge_text whole[3];
    for (int i = 0; i < 3; i++) {
        if (texts[i]->size > MERGE_SIZE_MAX)
            return -E2BIG;
        if (!merge_is_text(texts[i]))
            return -EILSEQ;
        whole[i] = texts[i]->data ? *texts[i] : (struct merge_text){"", 0};
    }
    _cleanup_(merge_close) struct merge m = {
        .labels = labels, .out = ret, .newline = newline_of(&whole[1])};
    int r = lineset_split(whole[0].data, (uint32_t)whole[0].size, &m.base);
    if (r >= 0)
        r = side_open(&m.sides[0], &whole[0], &whole[1]);
    if (r >= 0)
        r = side_open(&m.sides[1], &whole[0], &whole[2]);
    return r < 0 ? r : merge_regions(&m);
}
