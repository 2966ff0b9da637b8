/*
 * The difference of two texts line by line, printed as hunks of a unified diff; and the three-way
 * merge of texts.
 *
 * Only a window of both texts is compared in detail: their common head and tail are cut off, except
 * for the lines of context.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/* The lines of a text, numbered by their bytes: two lines of two texts have the same class exactly
 * when their bytes are the same. The hash has a random key, so that no text can make it slow. */
#define LINESET_LINES_MAX (2u << 20) /* of one text */

struct lineset {
    const uint8_t *data;
    /* count + 1 offsets: line i is data[at[i]] to data[at[i + 1]], with its newline */
    uint32_t *at;
    uint32_t *class;
    uint32_t count;
};

/*
 * The difference of two sequences of numbers, after Myers ("An O(ND) difference algorithm and its
 * variations", 1986), in space linear in the sequences.
 *
 * Time is bounded: a search that gets too costly is cut at the furthest point that it reached, and
 * once the allowed work is used up, the rest is marked as changed. The result is always correct,
 * but not always the shortest.
 */
struct linemyers_side {
    const uint32_t *items;
    /* set to 1 for each item that the other side lacks; the caller clears it first */
    uint8_t *changed;
    uint32_t count;
};

/* `work` is the number of steps allowed. 0 or -ENOMEM. */
int linemyers(struct linemyers_side *a, struct linemyers_side *b, int64_t work);

#define LINEDIFF_SIZE_MAX (64u << 20) /* bytes of one text */
#define LINEDIFF_CONTEXT  3u

/* Lines of a from a_line on, a_count of them, became b_count lines of b; counted from 0 within the
 * windows. */
struct linediff_change {
    uint32_t a_line, a_count;
    uint32_t b_line, b_count;
};

struct linediff {
    struct lineset a, b;  /* the windows */
    uint32_t skipped;     /* lines in front of them */
    uint32_t lead, trail; /* common lines at the head and tail of the windows, kept as context */
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

/*
 * Three-way merge of texts, line by line.
 *
 * Both sides are compared with their common ancestor. A change of one side is taken over where the
 * other side left the lines and their neighbours alone; where both changed the same or adjacent
 * lines, equal changes are taken once and different ones are a conflict. These are the rules of git
 * merge-file.
 */

#define MERGE_SIZE_MAX (8u << 20) /* bytes of one text */

struct merge_text {
    const void *data;
    size_t size;
};

/* Names the sides in conflict markers. */
struct merge_labels {
    const char *mine, *theirs;
};

/* Appends the merged text to *ret, with both versions between markers where they conflict. Returns
 * the number of conflicts; -EILSEQ: one of the texts is binary; -E2BIG, -ENOMEM. A base without
 * data is empty. */
int merge_texts(const struct merge_text *base, const struct merge_text *mine,
                const struct merge_text *theirs, const struct merge_labels *labels,
                struct buf *ret);
