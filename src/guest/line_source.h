/* A text that is looked at piece by piece: an open file of any size, or bytes in memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LINE_SOURCE_BLOCK (256u << 10)

struct line_source {
    int fd; /* or -1, and: */
    const uint8_t *text;
    size_t size;
    uint8_t *block; /* LINE_SOURCE_BLOCK bytes for what was read of the file */
    uint64_t at;    /* where it lies in the file */
    size_t len;
};

/* The bytes from an offset on, as many as are at hand: how many, 0 at the end, or a negative errno.
 * They are valid until the next call. */
ssize_t line_source_at(struct line_source *s, uint64_t offset, const uint8_t **ret);
