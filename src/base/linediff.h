/*
 * The difference of two texts line by line, and its form as hunks of a unified diff.
 *
 * Only a window of both texts is looked at in detail: what they have in common at the head and at
 * the tail is cut off, but for the lines that a hunk shows around a change.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lineset.h"

#define LINEDIFF_SIZE_MAX (64u << 20) /* bytes of one text */
#define LINEDIFF_CONTEXT  3u

/* Lines of a from a_line on, a_count of them, became b_count lines of b; counted from 0 within the
 * windows.
 */
struct linediff_change {
    uint32_t a_line, a_count;
    uint32_t b_line, b_count;
};

struct linediff {
    struct lineset a, b; /* the windows */
    uint32_t skipped;    /* lines in front of them */
    uint32_t lead,
        trail; /* lines at the head and tail of the windows that are context of what was cut off */
    struct linediff_change *changes;
    size_t count;
};

/* 0, -E2BIG when a text is too large or has too many lines, -ENOMEM. The texts must outlive the
 * result. */
int linediff_make(const void *a, size_t a_size, const void *b, size_t b_size, struct linediff *ret);
void linediff_free(struct linediff *d);

/* Lines that were added and deleted. */
void linediff_totals(const struct linediff *d, uint64_t *ret_added, uint64_t *ret_deleted);

/* Writes the hunks piece by piece; stops at the first negative answer of `write` and returns it. */
int linediff_print(const struct linediff *d, int (*write)(void *data, const void *bytes, size_t n),
                   void *data);
