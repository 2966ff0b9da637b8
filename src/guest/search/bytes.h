/*
 * Looking through bytes, sixteen at a time where the processor can (SSE2), else one by one with the
 * same answers. The guest's C library does these byte by byte or eight at a time, and a search
 * spends its time here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where c is first in the n bytes, or n. */
size_t bytes_find(const uint8_t *s, size_t n, uint8_t c);

/* Where the last c of the n bytes is, or n. */
size_t bytes_find_last(const uint8_t *s, size_t n, uint8_t c);

size_t bytes_count(const uint8_t *s, size_t n, uint8_t c);

/* What kinds of bytes there are. */
enum { BYTES_NUL = 1, BYTES_HIGH = 2 /* not ASCII */, BYTES_CR = 4 };
unsigned bytes_kinds(const uint8_t *s, size_t n);

/*
 * A finder looks for one string: for the two of its bytes that are rarest in source text, at their
 * distance, and compares the whole where both are. With `fold`, ASCII letters of either case are
 * the same.
 */
struct finder {
    const uint8_t *needle; /* borrowed; with fold, in lower case */
    size_t n;              /* at least 1 */
    bool fold;
    size_t at[2];
    uint8_t byte[2];
    uint8_t mask[2]; /* set in a byte before it is compared: turns a letter into lower case */
};

void finder_init(struct finder *f, const uint8_t *needle, size_t n, bool fold);

/* Where the needle is first, from `from` on, or n. */
size_t finder_find(const struct finder *f, const uint8_t *s, size_t n, size_t from);
