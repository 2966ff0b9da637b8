/* A hash table with open addressing over the vectors in one array. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "feature_map.h"
#include "banned.h"

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
