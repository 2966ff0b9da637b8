/* Vectors of features, each once, numbered in the order in which they came. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct feature_map {
    size_t width; /* numbers in a vector, at least 1 */
    int64_t *keys;
    size_t count, room;
    uint32_t *slots; /* 1 + the number of a vector; 0: free */
    size_t n_slots;  /* a power of two, more than twice `count` */
};
#define FEATURE_MAP_MAX (1u << 28)

void feature_map_free(struct feature_map *m);

/* The number of a vector, or -1. */
ssize_t feature_map_find(const struct feature_map *m, const int64_t *key);

/* The same; one that is not there is added. -ENOMEM, -ENOSPC: there are FEATURE_MAP_MAX. */
ssize_t feature_map_add(struct feature_map *m, const int64_t *key);

/* Drops all but the first `count`. */
void feature_map_cut(struct feature_map *m, size_t count);

const int64_t *feature_map_key(const struct feature_map *m, size_t number);
