#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "linemyers.h"
#include "banned.h"

/* Edits after which one search is cut. What it found by then takes at most log2 of it levels of
 * recursion. */
#define COST_MAX 512

/* The part of both sequences that is worked on: items from lo up to, not with, hi. */
struct box {
    int32_t a_lo, a_hi, b_lo, b_hi;
};

/* The furthest a-position reached on each diagonal (a - b), from the front and from the back. */
struct search {
    const uint32_t *a, *b;
    struct linemyers_side *sides[2];
    int32_t *front, *back; /* indexed by diagonal, also negative */
    int64_t work;
};

/* The diagonals in use: those that can be reached with the edits so far and lie within the box. */
struct band {
    int32_t lo, hi;
    int32_t min, max;
};

struct point {
    int32_t a, b;
};

/* One more edit reaches one more diagonal on each side; at the box's edge it becomes narrower
 * instead. */
static void band_widen(struct band *d, int32_t *reached, int32_t nowhere)
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
static bool step_front(struct search *s, const struct box *x, struct band *d,
                       const struct band *met, struct point *ret)
{
    band_widen(d, s->front, -1);
    for (int32_t k = d->max; k >= d->min; k -= 2) {
        int32_t a = s->front[k - 1] >= s->front[k + 1] ? s->front[k - 1] + 1 : s->front[k + 1];
        int32_t from = a;
        while (a < x->a_hi && a - k < x->b_hi && s->a[a] == s->b[a - k])
            a++;
        s->front[k] = a;
        s->work -= 1 + a - from;
        if (met && k >= met->min && k <= met->max && s->back[k] <= a) {
            *ret = (struct point){a, a - k};
            return true;
        }
    }
    return false;
}

static bool step_back(struct search *s, const struct box *x, struct band *d, const struct band *met,
                      struct point *ret)
{
    band_widen(d, s->back, INT32_MAX);
    for (int32_t k = d->max; k >= d->min; k -= 2) {
        int32_t a = s->back[k - 1] < s->back[k + 1] ? s->back[k - 1] : s->back[k + 1] - 1;
        int32_t from = a;
        while (a > x->a_lo && a - k > x->b_lo && s->a[a - 1] == s->b[a - k - 1])
            a--;
        s->back[k] = a;
        s->work -= 1 + from - a;
        if (met && k >= met->min && k <= met->max && a <= s->front[k]) {
            *ret = (struct point){a, a - k};
            return true;
        }
    }
    return false;
}

/* The point that the search from the front came furthest to. */
static struct point furthest(const struct search *s, const struct box *x, const struct band *d)
{
    struct point best = {x->a_lo, x->b_lo};
    for (int32_t k = d->max; k >= d->min; k -= 2) {
        int32_t a = s->front[k] < x->a_hi ? s->front[k] : x->a_hi;
        if (a - k > x->b_hi)
            a = x->b_hi + k;
        if (a - best.a + a - k - best.b > 0)
            best = (struct point){a, a - k};
    }
    return best;
}

/* A point to divide the box at, other than its corners; false when the work allowed is used up. */
static bool find_middle(struct search *s, const struct box *x, struct point *ret)
{
    const int32_t front_start = x->a_lo - x->b_lo, back_start = x->a_hi - x->b_hi;
    const bool odd = (front_start - back_start) & 1;
    struct band front = {x->a_lo - x->b_hi, x->a_hi - x->b_lo, front_start, front_start};
    struct band back = {front.lo, front.hi, back_start, back_start};
    s->front[front_start] = x->a_lo;
    s->back[back_start] = x->a_hi;
    for (int cost = 1; s->work > 0; cost++) {
        if (step_front(s, x, &front, odd ? &back : NULL, ret))
            return true;
        if (step_back(s, x, &back, odd ? NULL : &front, ret))
            return true;
        if (cost >= COST_MAX) {
            *ret = furthest(s, x, &front);
            return true;
        }
    }
    return false;
}

static void trim(const struct search *s, struct box *x)
{
    while (x->a_lo < x->a_hi && x->b_lo < x->b_hi && s->a[x->a_lo] == s->b[x->b_lo]) {
        x->a_lo++;
        x->b_lo++;
    }
    while (x->a_lo < x->a_hi && x->b_lo < x->b_hi && s->a[x->a_hi - 1] == s->b[x->b_hi - 1]) {
        x->a_hi--;
        x->b_hi--;
    }
}

static void compare(struct search *s, struct box x)
{
    for (;;) {
        trim(s, &x);
        struct point middle;
        if (x.a_lo == x.a_hi || x.b_lo == x.b_hi || !find_middle(s, &x, &middle)) {
            memset(s->sides[0]->changed + x.a_lo, 1, (size_t)(x.a_hi - x.a_lo));
            memset(s->sides[1]->changed + x.b_lo, 1, (size_t)(x.b_hi - x.b_lo));
            return;
        }
        compare(s, (struct box){x.a_lo, middle.a, x.b_lo, middle.b});
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
    struct search s = {
        .a = a->items,
        .b = b->items,
        .sides = {a, b},
        .front = reached + b->count + 1,
        .back = reached + diagonals + b->count + 1,
        .work = work,
    };
    compare(&s, (struct box){0, (int32_t)a->count, 0, (int32_t)b->count});
    return 0;
}
