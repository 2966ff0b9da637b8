/*
 * The lines of a file while hunks are put into it.
 *
 * Lines point into texts that others own. The array has a gap where the last replacement was made,
 * so that replacing from the top down costs what is replaced and not what the file has.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_LINES_MAX (2u << 20)

struct buf;

struct image_line {
    const uint8_t *text;
    uint32_t size; /* with its newline */
    bool patched;  /* came with a hunk: no other hunk may match it */
};

struct image {
    struct image_line *lines;
    size_t count;
    size_t gap_at, gap; /* `gap` unused items stand before line gap_at */
};

/* -E2BIG: too many lines. */
int image_split(const uint8_t *data, size_t size, struct image *ret);
void image_free(struct image *img);

static inline const struct image_line *image_line(const struct image *img, size_t i)
{
    return &img->lines[i < img->gap_at ? i : i + img->gap];
}

/* Puts m lines in the place of the n lines from `at` on. -E2BIG, -ENOMEM. */
int image_replace(struct image *img, size_t at, size_t n, const struct image_line *with, size_t m);

/* Appends the text; a line that lost its newline gets one unless it is the last. Failure sticks to
 * b. */
void image_join(const struct image *img, struct buf *b);
