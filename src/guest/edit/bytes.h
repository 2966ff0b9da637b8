/* A run of bytes that somebody else holds, and what is often asked of one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t n;
};

static inline bool bytes_same(struct bytes a, struct bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, a.n) == 0);
}

static inline struct bytes bytes_part(struct bytes b, size_t begin, size_t end)
{
    return b.data ? (struct bytes){b.data + begin, end - begin} : b;
}

/* Where `part` first lies at or behind `from`; SIZE_MAX if nowhere. */
static inline size_t bytes_find(struct bytes b, struct bytes part, size_t from)
{
    if (part.n == 0 || from >= b.n || part.n > b.n - from)
        return SIZE_MAX;
    const uint8_t *at = memmem(b.data + from, b.n - from, part.data, part.n);
    return at ? (size_t)(at - b.data) : SIZE_MAX;
}

/* How many times a byte occurs before `end`. */
static inline uint64_t bytes_count(struct bytes b, uint8_t byte, size_t end)
{
    uint64_t count = 0;
    for (size_t at = 0; at < end; at++) {
        const uint8_t *found = memchr(b.data + at, byte, end - at);
        if (!found)
            break;
        count++;
        at = (size_t)(found - b.data);
    }
    return count;
}

/* The number of the line that an offset lies in, from 1. */
static inline uint64_t bytes_line_at(struct bytes b, size_t offset)
{
    return bytes_count(b, '\n', offset) + 1;
}

/* Where the line at `begin` ends: behind its newline, or at the end. */
static inline size_t bytes_line_end(struct bytes b, size_t begin)
{
    const uint8_t *newline = begin < b.n ? memchr(b.data + begin, '\n', b.n - begin) : NULL;
    return newline ? (size_t)(newline + 1 - b.data) : b.n;
}
