#include <errno.h>
#include <stdlib.h>

#include "cleanup.h"
#include "window.h"
#include "window_lines.h"
#include "banned.h"

#define HITS_MAX     20000u
#define HITS_OF_LINE 64u /* a line that is there more often tells nothing */
#define WEAK_FOLDED  3u  /* a line with fewer characters, such as `}`, tells little */
#define WEIGHT_MAX   64u

/* A line of the text that is the same as one of `old`: where `old` would begin. */
struct hit {
    int64_t start;
    uint32_t old_line;
};

struct votes {
    struct old_lines *old;
    struct hit *hits;
    size_t count;
};

static void votes_free(struct votes *v)
{
    free(v->hits);
}

/* All lines of `old` with one hash have as many hits: once they are too many, nothing more is done
 * for them.
 */
static void vote(void *data, uint64_t number, const struct line_form *form)
{
    struct votes *v = data;
    for (uint32_t i = old_lines_find(v->old, form->hash); i; i = v->old->lines[i - 1].next) {
        struct old_line *l = &v->old->lines[i - 1];
        if (l->hits == HITS_OF_LINE)
            return;
        l->hits++;
        if (v->count < HITS_MAX)
            v->hits[v->count++] = (struct hit){(int64_t)number - (int64_t)(i - 1), i - 1};
    }
}

static int compare(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static uint32_t weight(const struct votes *v, const struct hit *h)
{
    const struct old_line *l = &v->old->lines[h->old_line];
    if (l->hits == HITS_OF_LINE)
        return 0;
    return l->folded < WEAK_FOLDED ? 1 : WEIGHT_MAX / l->hits + 1;
}

/* The beginning with the most votes; those a few lines off count too, since lines may be missing.
 * False if nobody voted. */
static bool elect(struct votes *v, int64_t *ret_start)
{
    int64_t slack = 2 + (int64_t)v->old->count / 10;
    uint64_t sum = 0, best = 0;
    qsort(v->hits, v->count, sizeof *v->hits, compare);
    for (size_t first = 0, i = 0; i < v->count; i++) {
        sum += weight(v, &v->hits[i]);
        for (; v->hits[i].start - v->hits[first].start > slack; first++)
            sum -= weight(v, &v->hits[first]);
        if (sum > best) {
            best = sum;
            *ret_start = v->hits[first].start;
        }
    }
    return best > 1; /* a lone brace is no reason */
}

/* The text's line that is most like one of the longest of `old`. */
struct resemblance {
    const struct old_lines *old;
    const struct line_form *anchors;
    const uint32_t *anchor_lines;
    size_t n_anchors;
    unsigned best; /* in percent */
    int64_t start;
};

#define RESEMBLANCE_MIN 50u

static void compare_line(void *data, uint64_t number, const struct line_form *form)
{
    struct resemblance *r = data;
    for (size_t i = 0; i < r->n_anchors; i++) {
        unsigned percent = line_form_likeness(&r->anchors[i], form, r->best);
        if (percent > r->best) {
            r->best = percent;
            r->start = (int64_t)number - (int64_t)r->anchor_lines[i];
        }
    }
}

static bool most_alike(struct bytes text, const struct old_lines *old, int64_t *ret_start)
{
    struct line_form anchors[ANCHORS_MAX];
    uint32_t lines[ANCHORS_MAX];
    struct resemblance r = {
        .old = old, .anchors = anchors, .anchor_lines = lines, .best = RESEMBLANCE_MIN - 1};
    r.n_anchors = old_lines_anchors(old, anchors, lines);
    if (r.n_anchors == 0)
        return false;
    each_line(text, true, compare_line, &r);
    *ret_start = r.start;
    return r.best >= RESEMBLANCE_MIN;
}

/* From the number of a first line (from 0, perhaps before the text) to what lies there. */
static bool place_window(struct bytes text, int64_t start, uint64_t count, struct window *ret)
{
    struct window w = {0};
    if (start < 0) {
        count -= (uint64_t)-start < count ? (uint64_t)-start : count;
        start = 0;
    }
    for (int64_t i = 0; i < start && w.begin < text.n; i++)
        w.begin = bytes_line_end(text, w.begin);
    w.end = w.begin;
    w.line = (uint64_t)start + 1;
    while (w.count < count && w.end < text.n) {
        w.end = bytes_line_end(text, w.end);
        w.count++;
    }
    *ret = w;
    return w.count > 0;
}

int window_find(struct bytes text, struct bytes old, struct window *ret)
{
    _cleanup_(old_lines_free) struct old_lines lines = {0};
    _cleanup_(votes_free) struct votes v = {.old = &lines};
    int64_t start = 0;
    int r = old_lines_make(old, &lines);
    if (r < 0)
        return r;
    v.hits = calloc(HITS_MAX, sizeof *v.hits);
    if (!v.hits)
        return -ENOMEM;
    each_line(text, false, vote, &v);
    if (!elect(&v, &start) && !most_alike(text, &lines, &start))
        return 0;
    return place_window(text, start, lines.total, ret);
}
