#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qtable.h"
#include "banned.h"

#define PROMISE 1e-6 /* a hope that is more than a value by less is none */

/* The order of equal actions is the seed's, but for the last action: ending the episode right away
 * tells most about a new state. */
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
                         .prices = calloc(o->actions, sizeof *q->prices),
                         .rank = calloc(o->actions, sizeof *q->rank)};
    if (!q->rank || !q->prices) {
        qtable_free(q);
        return -ENOMEM;
    }
    for (size_t a = 0; a < o->actions; a++)
        q->prices[a] = -1;
    shuffle(q->rank, o->actions, o->dice);
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

static bool was_tried(const struct qtable_entry *e)
{
    return e->next != QTABLE_UNTRIED;
}

/* Tried, and something is known of what comes after it. */
static bool has_value(const struct qtable_entry *e)
{
    return was_tried(e) && !isnan(e->value);
}

static double price_of(const struct qtable *q, size_t action)
{
    return q->prices[action] < 0 ? q->price : q->prices[action];
}

/* Of what was not tried: all tests may pass right after it. Any action but the last one is followed
 * by that. */
static double hope_of(const struct qtable *q, size_t state, size_t action)
{
    const struct qtable_entry *e = entry(q, state, action);
    size_t last = q->actions - 1;
    if (was_tried(e))
        return e->hope;
    return 1 - price_of(q, action) - (action == last ? 0 : q->gamma * price_of(q, last));
}

static void sum_up(struct qtable *q, size_t state)
{
    struct qtable_sum s = {.hope = -INFINITY};
    for (size_t a = 0; a < q->actions; a++) {
        const struct qtable_entry *e = entry(q, state, a);
        s.hope = fmax(s.hope, hope_of(q, state, a));
        if (!has_value(e))
            continue;
        s.value = s.known ? fmax(s.value, e->value) : e->value;
        s.known = true;
    }
    q->sums[state] = s;
}

static void clear(struct qtable *q, size_t state)
{
    for (size_t a = 0; a < q->actions; a++)
        *entry(q, state, a) = (struct qtable_entry){.next = QTABLE_UNTRIED};
}

ssize_t qtable_state(struct qtable *q, const int64_t *features)
{
    ssize_t known = feature_map_find(&q->states, features);
    if (known >= 0)
        return known;
    int r = q->states.count == q->room ? grow(q) : 0;
    ssize_t state = r < 0 ? r : feature_map_add(&q->states, features);
    if (state >= 0) {
        clear(q, (size_t)state);
        sum_up(q, (size_t)state);
    }
    return state;
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
    /* then, where more is known to be had; an untried one promises what its state does */
    double value;
    uint32_t rank;
};

static struct prospect prospect_of(const struct qtable *q, size_t state, size_t action)
{
    const struct qtable_entry *e = entry(q, state, action);
    const struct qtable_sum *s = &q->sums[state];
    double hope = hope_of(q, state, action), value = -INFINITY;
    if (has_value(e))
        value = e->value;
    else if (action + 1 == q->actions)
        value = INFINITY;
    else if (!was_tried(e) && s->known)
        value = s->value;
    return (struct prospect){.level = q->price > 0 ? floor(hope / q->price + 1e-6) : hope,
                             .value = value,
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

/* May it lead to more than is known to be had from here? */
static bool is_promising(const struct qtable *q, size_t state, size_t action)
{
    const struct qtable_sum *s = &q->sums[state];
    return !s->known || hope_of(q, state, action) > s->value + PROMISE;
}

ssize_t qtable_explore(const struct qtable *q, size_t state)
{
    ssize_t best = -1;
    struct prospect top = {0};
    for (size_t a = 0; a < q->actions; a++) {
        struct prospect p = prospect_of(q, state, a);
        if (is_promising(q, state, a) && (best < 0 || is_better(&p, &top))) {
            best = (ssize_t)a;
            top = p;
        }
    }
    return best < 0 ? qtable_best(q, state) : best;
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

/* Hopes follow from prices. */
static void learn_price(struct qtable *q, size_t action, double price)
{
    if (q->prices[action] >= 0 && price >= q->prices[action])
        return;
    q->prices[action] = fmax(price, 0);
    for (size_t s = 0; s < q->states.count; s++)
        sum_up(q, s);
}

/* Its value is not a number before there is an estimate; and for good, with no hope, if it leads
 * nowhere. */
int qtable_note(struct qtable *q, size_t state, size_t action, double reward, double price,
                int32_t next)
{
    struct qtable_entry *e = entry(q, state, action);
    bool nowhere = next >= 0 && (size_t)next == state;
    double hope = hope_of(q, state, action);
    if (!was_tried(e)) {
        if (remember(q, state, action) < 0)
            return -ENOMEM;
        e->value = NAN;
        e->hope = hope;
    }
    e->reward = reward;
    e->next = next;
    if (nowhere) {
        e->value = NAN;
        e->hope = -INFINITY;
        sum_up(q, state);
    }
    learn_price(q, action, price);
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

void qtable_take_back(struct qtable *q, size_t state, size_t action, const struct qtable_entry *was,
                      double price)
{
    q->n_tried -= !was_tried(was);
    *entry(q, state, action) = *was;
    q->prices[action] = price;
}

void qtable_drop_states(struct qtable *q, size_t from)
{
    feature_map_cut(&q->states, from);
    for (size_t s = 0; s < q->states.count; s++)
        sum_up(q, s);
}

void qtable_restore_price(struct qtable *q, size_t action, double price)
{
    q->prices[action] = price;
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

/* FNV-1a over the numbers, mixed at the end since only low bits of it are used. */
static uint64_t hash_of(const struct feature_map *m, const int64_t *key)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < m->width; i++)
        h = (h ^ (uint64_t)key[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

/* The slot that holds the vector, or the free one where it would be. */
static size_t slot_of(const struct feature_map *m, const int64_t *key)
{
    size_t at = hash_of(m, key) & (m->n_slots - 1);
    while (m->slots[at] &&
           memcmp(feature_map_key(m, m->slots[at] - 1), key, m->width * sizeof *key) != 0)
        at = (at + 1) & (m->n_slots - 1);
    return at;
}

ssize_t feature_map_find(const struct feature_map *m, const int64_t *key)
{
    return m->n_slots ? (ssize_t)m->slots[slot_of(m, key)] - 1 : -1;
}

/* All slots are free. */
static void fill_slots(struct feature_map *m)
{
    for (size_t i = 0; i < m->count; i++)
        m->slots[slot_of(m, feature_map_key(m, i))] = (uint32_t)i + 1;
}

static int grow_slots(struct feature_map *m)
{
    size_t n = m->n_slots ? 2 * m->n_slots : 64;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return -ENOMEM;
    free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    fill_slots(m);
    return 0;
}

static int grow_keys(struct feature_map *m)
{
    size_t room = m->room ? 2 * m->room : 32;
    int64_t *keys = reallocarray(m->keys, room, m->width * sizeof *keys);
    if (!keys)
        return -ENOMEM;
    m->keys = keys;
    m->room = room;
    return 0;
}

ssize_t feature_map_add(struct feature_map *m, const int64_t *key)
{
    ssize_t known = feature_map_find(m, key);
    if (known >= 0)
        return known;
    if (m->count == FEATURE_MAP_MAX)
        return -ENOSPC;
    if ((2 * m->count + 2 > m->n_slots && grow_slots(m) < 0) ||
        (m->count == m->room && grow_keys(m) < 0))
        return -ENOMEM;
    memcpy(m->keys + m->count * m->width, key, m->width * sizeof *key);
    m->slots[slot_of(m, key)] = (uint32_t)m->count + 1;
    return (ssize_t)m->count++;
}

void feature_map_cut(struct feature_map *m, size_t count)
{
    if (count >= m->count)
        return;
    m->count = count;
    memset(m->slots, 0, m->n_slots * sizeof *m->slots);
    fill_slots(m);
}
