#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qtable.h"
#include "banned.h"

/* The order of equal actions is the seed's, but for the last action: ending the episode right away tells
 * most about a new state. */
static void shuffle(uint32_t *rank, size_t n, struct dice *dice)
{
    for (size_t i = 0; i < n; i++)
        rank[i] = (uint32_t)i;
    for (size_t i = n - 1; i > 1; i--) {
        size_t j = dice_below(dice, i);
        uint32_t other = rank[j];
        rank[j] = rank[i - 1];
        rank[i - 1] = other;
    }
}

int qtable_init(struct qtable *q, const struct qtable_options *o)
{
    *q = (struct qtable){.actions = o->actions,
                         .alpha = o->alpha,
                         .gamma = o->gamma,
                         .price = o->price,
                         .states = {.width = o->features},
                         .rank = calloc(o->actions, sizeof *q->rank)};
    if (!q->rank)
        return -ENOMEM;
    shuffle(q->rank, o->actions, o->dice);
    return 0;
}

void qtable_free(struct qtable *q)
{
    feature_map_free(&q->states);
    free(q->rank);
    free(q->entries);
    free(q->sums);
    free(q->tried);
    *q = (struct qtable){0};
}

static struct qtable_entry *entry(const struct qtable *q, size_t state, size_t action)
{
    return &q->entries[state * q->actions + action];
}

const struct qtable_entry *qtable_entry(const struct qtable *q, size_t state, size_t action)
{
    return entry(q, state, action);
}

static int grow(struct qtable *q)
{
    size_t room = q->room ? 2 * q->room : 64, size = q->actions * sizeof *q->entries;
    if (room > QTABLE_BYTES_MAX / size)
        return -ENOSPC;
    struct qtable_entry *entries = reallocarray(q->entries, room, size);
    if (entries)
        q->entries = entries;
    struct qtable_sum *sums = reallocarray(q->sums, room, sizeof *sums);
    if (sums)
        q->sums = sums;
    if (!entries || !sums)
        return -ENOMEM;
    q->room = room;
    return 0;
}

/* All tests may pass: that is the most that any action can lead to. Every step has its price, and after any
 * but the last action at least one more follows. */
static void hope_for_the_best(struct qtable *q, size_t state)
{
    for (size_t a = 0; a < q->actions; a++) {
        bool ends = a + 1 == q->actions;
        *entry(q, state, a) =
            (struct qtable_entry){.hope = 1 - q->price * (ends ? 1 : 2), .next = QTABLE_UNTRIED};
    }
    q->sums[state] = (struct qtable_sum){.hope = 1 - q->price};
}

ssize_t qtable_state(struct qtable *q, const int64_t *features)
{
    ssize_t known = feature_map_find(&q->states, features);
    if (known >= 0)
        return known;
    int r = q->states.count == q->room ? grow(q) : 0;
    ssize_t state = r < 0 ? r : feature_map_add(&q->states, features);
    if (state >= 0)
        hope_for_the_best(q, (size_t)state);
    return state;
}

static bool was_tried(const struct qtable_entry *e)
{
    return e->next != QTABLE_UNTRIED;
}

/* Tried, and something is known of what comes after it. */
static bool has_value(const struct qtable_entry *e)
{
    return was_tried(e) && !isnan(e->value);
}

ssize_t qtable_best(const struct qtable *q, size_t state)
{
    ssize_t best = -1;
    for (size_t a = 0; a < q->actions; a++) {
        const struct qtable_entry *e = entry(q, state, a),
                                  *b = best < 0 ? NULL : entry(q, state, (size_t)best);
        if (!has_value(e))
            continue;
        if (!b || e->value > b->value || (e->value >= b->value && q->rank[a] > q->rank[best]))
            best = (ssize_t)a;
    }
    return best;
}

/* How an explorer sees an action. */
struct prospect {
    double level; /* hope in whole prices of a step: what seconds cost is no reason to prefer one */
    double value; /* then, where more is known to be had; an untried one promises what its state does */
    uint32_t rank;
};

static struct prospect prospect_of(const struct qtable *q, size_t state, size_t action)
{
    const struct qtable_entry *e = entry(q, state, action);
    const struct qtable_sum *s = &q->sums[state];
    bool ends = action + 1 == q->actions;
    return (struct prospect){.level = q->price > 0 ? floor(e->hope / q->price + 1e-6) : e->hope,
                             .value = has_value(e)                ? e->value
                                      : ends                      ? INFINITY
                                      : !was_tried(e) && s->known ? s->value
                                                                  : -INFINITY,
                             .rank = q->rank[action]};
}

static bool is_better(const struct prospect *a, const struct prospect *b)
{
    if (a->level < b->level || a->level > b->level)
        return a->level > b->level;
    if (a->value < b->value || a->value > b->value)
        return a->value > b->value;
    return a->rank > b->rank;
}

size_t qtable_explore(const struct qtable *q, size_t state)
{
    size_t best = q->actions - 1;
    struct prospect top = prospect_of(q, state, best);
    for (size_t a = 0; a + 1 < q->actions; a++) {
        struct prospect p = prospect_of(q, state, a);
        if (is_better(&p, &top)) {
            best = a;
            top = p;
        }
    }
    return best;
}

static int remember(struct qtable *q, size_t state, size_t action)
{
    if (q->n_tried == q->room_tried) {
        size_t room = q->room_tried ? 2 * q->room_tried : 256;
        uint32_t *tried = reallocarray(q->tried, room, sizeof *tried);
        if (!tried)
            return -ENOMEM;
        q->tried = tried;
        q->room_tried = room;
    }
    q->tried[q->n_tried++] = (uint32_t)(state * q->actions + action);
    return 0;
}

static void sum_up(struct qtable *q, size_t state)
{
    struct qtable_sum s = {.hope = -INFINITY};
    for (size_t a = 0; a < q->actions; a++) {
        const struct qtable_entry *e = entry(q, state, a);
        s.hope = fmax(s.hope, e->hope);
        if (!has_value(e))
            continue;
        s.value = s.known ? fmax(s.value, e->value) : e->value;
        s.known = true;
    }
    q->sums[state] = s;
}

/* Its value is not a number before there is an estimate; and for good, with no hope, if it leads nowhere. */
int qtable_note(struct qtable *q, size_t state, size_t action, double reward, int32_t next)
{
    struct qtable_entry *e = entry(q, state, action);
    if (!was_tried(e)) {
        if (remember(q, state, action) < 0)
            return -ENOMEM;
        e->value = NAN;
    }
    e->reward = reward;
    e->next = next;
    if (next >= 0 && (size_t)next == state) {
        e->value = NAN;
        e->hope = -INFINITY;
        sum_up(q, state);
    }
    return 0;
}

void qtable_update(struct qtable *q, size_t state, size_t action)
{
    static const struct qtable_sum nothing = {.known = true};
    struct qtable_entry *e = entry(q, state, action), old = *e;
    const struct qtable_sum *after = e->next == QTABLE_END ? &nothing : &q->sums[e->next];
    if (!after->known || isinf(e->hope))
        return;
    double alpha = isnan(e->value) ? 1 : q->alpha;
    if (isnan(e->value))
        e->value = 0;
    e->value += alpha * (e->reward + q->gamma * after->value - e->value);
    e->hope += alpha * (e->reward + q->gamma * after->hope - e->hope);
    if (isnan(old.value) || e->value != old.value || e->hope != old.hope)
        sum_up(q, state);
}

void qtable_replay(struct qtable *q)
{
    for (size_t i = q->n_tried; i-- > 0;)
        qtable_update(q, q->tried[i] / q->actions, q->tried[i] % q->actions);
}

int qtable_restore(struct qtable *q, size_t state, size_t action, const struct qtable_entry *as)
{
    int r = remember(q, state, action);
    if (r == 0) {
        *entry(q, state, action) = *as;
        sum_up(q, state);
    }
    return r;
}
