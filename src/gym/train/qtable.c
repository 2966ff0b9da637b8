#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "encoding.h"
#include "qtable.h"
#include "banned.h"

#define HOPE_MARGIN 1e-6 /* by which a hope must exceed a value to be worth exploring */

int qtable_init(struct qtable *q, const struct qtable_options *o)
{
    *q = (struct qtable){.actions = o->actions,
                         .alpha = o->alpha,
                         .gamma = o->gamma,
                         .price = o->price,
                         .states = {.width = o->features},
                         .prices = calloc(o->actions, sizeof *q->prices),
                         .rank = calloc(o->actions, sizeof *q->rank)};
    if (!q->rank || !q->prices) {
        qtable_free(q);
        return -ENOMEM;
    }
    for (size_t a = 0; a < o->actions; a++)
        q->prices[a] = -1;
    /* The seed orders equal actions, except for the last action, which comes first: ending the
     * episode right away says most about a new state. */
    for (size_t i = 0; i < o->actions; i++)
        q->rank[i] = (uint32_t)i;
    for (size_t i = o->actions - 1; i > 1; i--) {
        size_t j = dice_below(o->dice, i);
        uint32_t other = q->rank[j];
        q->rank[j] = q->rank[i - 1];
        q->rank[i - 1] = other;
    }
    return 0;
}

void qtable_free(struct qtable *q)
{
    feature_map_free(&q->states);
    free(q->rank);
    free(q->prices);
    free(q->entries);
    free(q->sums);
    free(q->tried);
    *q = (struct qtable){0};
}

static struct qtable_entry *entry_at(const struct qtable *q, size_t state, size_t action)
{
    return &q->entries[state * q->actions + action];
}

const struct qtable_entry *qtable_entry(const struct qtable *q, size_t state, size_t action)
{
    return entry_at(q, state, action);
}

static bool entry_was_tried(const struct qtable_entry *e)
{
    return e->next != QTABLE_UNTRIED;
}

/* Tried, and something is known of what comes after it. */
static bool entry_has_value(const struct qtable_entry *e)
{
    return entry_was_tried(e) && !isnan(e->value);
}

static double action_price(const struct qtable *q, size_t action)
{
    return q->prices[action] < 0 ? q->price : q->prices[action];
}

/* Of what was not tried: all tests may pass right after it. Any action but the last one is followed
 * by that. */
static double action_hope(const struct qtable *q, size_t state, size_t action)
{
    const struct qtable_entry *e = entry_at(q, state, action);
    size_t last = q->actions - 1;
    if (entry_was_tried(e))
        return e->hope;
    return 1 - action_price(q, action) - (action == last ? 0 : q->gamma * action_price(q, last));
}

static void state_sum_up(struct qtable *q, size_t state)
{
    struct qtable_sum s = {.hope = -INFINITY};
    for (size_t a = 0; a < q->actions; a++) {
        const struct qtable_entry *e = entry_at(q, state, a);
        s.hope = fmax(s.hope, action_hope(q, state, a));
        if (!entry_has_value(e))
            continue;
        s.value = s.known ? fmax(s.value, e->value) : e->value;
        s.known = true;
    }
    q->sums[state] = s;
}

static int qtable_grow(struct qtable *q)
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

ssize_t qtable_state(struct qtable *q, const int64_t *features)
{
    ssize_t known = feature_map_find(&q->states, features);
    if (known >= 0)
        return known;
    int r = q->states.count == q->room ? qtable_grow(q) : 0;
    ssize_t state = r < 0 ? r : feature_map_add(&q->states, features);
    if (state < 0)
        return state;
    for (size_t a = 0; a < q->actions; a++)
        *entry_at(q, (size_t)state, a) = (struct qtable_entry){.next = QTABLE_UNTRIED};
    state_sum_up(q, (size_t)state);
    return state;
}

ssize_t qtable_best(const struct qtable *q, size_t state)
{
    ssize_t best = -1;
    for (size_t a = 0; a < q->actions; a++) {
        const struct qtable_entry *e = entry_at(q, state, a),
                                  *b = best < 0 ? NULL : entry_at(q, state, (size_t)best);
        if (!entry_has_value(e))
            continue;
        if (!b || e->value > b->value || (e->value >= b->value && q->rank[a] > q->rank[best]))
            best = (ssize_t)a;
    }
    return best;
}

/* How an explorer sees an action. */
struct prospect {
    double level; /* hope in whole prices of a step: what seconds cost is no reason to prefer one */
    /* then the action whose estimate is higher; an untried one counts as its state does */
    double value;
    uint32_t rank;
};

static struct prospect action_prospect(const struct qtable *q, size_t state, size_t action)
{
    const struct qtable_entry *e = entry_at(q, state, action);
    const struct qtable_sum *s = &q->sums[state];
    double hope = action_hope(q, state, action), value = -INFINITY;
    if (entry_has_value(e))
        value = e->value;
    else if (action + 1 == q->actions)
        value = INFINITY;
    else if (!entry_was_tried(e) && s->known)
        value = s->value;
    return (struct prospect){.level = q->price > 0 ? floor(hope / q->price + 1e-6) : hope,
                             .value = value,
                             .rank = q->rank[action]};
}

static bool prospect_is_better(const struct prospect *a, const struct prospect *b)
{
    if (a->level < b->level || a->level > b->level)
        return a->level > b->level;
    if (a->value < b->value || a->value > b->value)
        return a->value > b->value;
    return a->rank > b->rank;
}

ssize_t qtable_explore(const struct qtable *q, size_t state)
{
    const struct qtable_sum *s = &q->sums[state];
    ssize_t best = -1;
    struct prospect top = {0};
    for (size_t a = 0; a < q->actions; a++) {
        struct prospect p = action_prospect(q, state, a);
        bool promising = !s->known || action_hope(q, state, a) > s->value + HOPE_MARGIN;
        if (promising && (best < 0 || prospect_is_better(&p, &top))) {
            best = (ssize_t)a;
            top = p;
        }
    }
    return best < 0 ? qtable_best(q, state) : best;
}

static int qtable_add_tried(struct qtable *q, size_t state, size_t action)
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

/* The value is NaN until there is an estimate; an action that leads back to its state never gets
 * one, and has no hope. */
int qtable_note(struct qtable *q, size_t state, size_t action, double reward, double price,
                int32_t next)
{
    struct qtable_entry *e = entry_at(q, state, action);
    bool nowhere = next >= 0 && (size_t)next == state;
    double hope = action_hope(q, state, action);
    if (!entry_was_tried(e)) {
        if (qtable_add_tried(q, state, action) < 0)
            return -ENOMEM;
        e->value = NAN;
        e->hope = hope;
    }
    e->reward = reward;
    e->next = next;
    if (nowhere) {
        e->value = NAN;
        e->hope = -INFINITY;
        state_sum_up(q, state);
    }
    if (q->prices[action] < 0 || price < q->prices[action]) {
        q->prices[action] = fmax(price, 0);
        for (size_t s = 0; s < q->states.count; s++) /* hopes follow from prices */
            state_sum_up(q, s);
    }
    return 0;
}

void qtable_update(struct qtable *q, size_t state, size_t action)
{
    static const struct qtable_sum nothing = {.known = true};
    struct qtable_entry *e = entry_at(q, state, action), old = *e;
    const struct qtable_sum *after = e->next == QTABLE_END ? &nothing : &q->sums[e->next];
    if (!after->known || isinf(e->hope))
        return;
    double alpha = isnan(e->value) ? 1 : q->alpha;
    if (isnan(e->value))
        e->value = 0;
    e->value += alpha * (e->reward + q->gamma * after->value - e->value);
    e->hope += alpha * (e->reward + q->gamma * after->hope - e->hope);
    if (isnan(old.value) || e->value != old.value || e->hope != old.hope)
        state_sum_up(q, state);
}

void qtable_replay(struct qtable *q)
{
    for (size_t i = q->n_tried; i-- > 0;)
        qtable_update(q, q->tried[i] / q->actions, q->tried[i] % q->actions);
}

void qtable_take_back(struct qtable *q, size_t state, size_t action, const struct qtable_entry *was,
                      double price)
{
    q->n_tried -= !entry_was_tried(was);
    *entry_at(q, state, action) = *was;
    q->prices[action] = price;
}

void qtable_drop_states(struct qtable *q, size_t from)
{
    feature_map_cut(&q->states, from);
    for (size_t s = 0; s < q->states.count; s++)
        state_sum_up(q, s);
}

int qtable_restore(struct qtable *q, size_t state, size_t action, const struct qtable_entry *as)
{
    int r = qtable_add_tried(q, state, action);
    if (r == 0) {
        *entry_at(q, state, action) = *as;
        state_sum_up(q, state);
    }
    return r;
}

/* A hash table with open addressing over the vectors in one array. */

void feature_map_free(struct feature_map *m)
{
    free(m->keys);
    free(m->slots);
    *m = (struct feature_map){.width = m->width};
}

const int64_t *feature_map_key(const struct feature_map *m, size_t number)
{
    return m->keys + number * m->width;
}

/* The slot that holds the vector, or the free one where it would be. */
static size_t feature_map_slot(const struct feature_map *m, const int64_t *key)
{
    uint64_t hash = digest(DIGEST_BEGIN, key, m->width * sizeof *key);
    size_t at = (hash ^ hash >> 32) & (m->n_slots - 1);
    while (m->slots[at] &&
           memcmp(feature_map_key(m, m->slots[at] - 1), key, m->width * sizeof *key) != 0)
        at = (at + 1) & (m->n_slots - 1);
    return at;
}

ssize_t feature_map_find(const struct feature_map *m, const int64_t *key)
{
    return m->n_slots ? (ssize_t)m->slots[feature_map_slot(m, key)] - 1 : -1;
}

/* Fills the slots, which are all free. */
static void feature_map_fill(struct feature_map *m)
{
    for (size_t i = 0; i < m->count; i++)
        m->slots[feature_map_slot(m, feature_map_key(m, i))] = (uint32_t)i + 1;
}

static int feature_map_make_room(struct feature_map *m)
{
    if (2 * m->count + 2 > m->n_slots) {
        size_t n = m->n_slots ? 2 * m->n_slots : 64;
        uint32_t *slots = calloc(n, sizeof *slots);
        if (!slots)
            return -ENOMEM;
        free(m->slots);
        m->slots = slots;
        m->n_slots = n;
        feature_map_fill(m);
    }
    if (m->count == m->room) {
        size_t room = m->room ? 2 * m->room : 32;
        int64_t *keys = reallocarray(m->keys, room, m->width * sizeof *keys);
        if (!keys)
            return -ENOMEM;
        m->keys = keys;
        m->room = room;
    }
    return 0;
}

ssize_t feature_map_add(struct feature_map *m, const int64_t *key)
{
    ssize_t known = feature_map_find(m, key);
    if (known >= 0)
        return known;
    if (m->count == FEATURE_MAP_MAX)
        return -ENOSPC;
    if (feature_map_make_room(m) < 0)
        return -ENOMEM;
    memcpy(m->keys + m->count * m->width, key, m->width * sizeof *key);
    m->slots[feature_map_slot(m, key)] = (uint32_t)m->count + 1;
    return (ssize_t)m->count++;
}

void feature_map_cut(struct feature_map *m, size_t count)
{
    if (count >= m->count)
        return;
    m->count = count;
    memset(m->slots, 0, m->n_slots * sizeof *m->slots);
    feature_map_fill(m);
}
