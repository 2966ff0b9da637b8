/*
 * Lines of a text of any size: found by counting newlines block by block, in memory that does not
 * grow with the text.
 *
 * Lines that are too long are cut, with a mark that says how much is missing; if there are too many
 * bytes, the last lines are left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "text.h"

/* A text that is read piece by piece: an open file of any size, or bytes in memory. */
#define LINE_SOURCE_BLOCK (256u << 10)

struct line_source {
    int fd; /* or -1, and: */
    const uint8_t *text;
    size_t size;
    uint8_t *block; /* LINE_SOURCE_BLOCK bytes for what was read of the file */
    uint64_t at;    /* where it lies in the file */
    size_t len;
};

/* The bytes from an offset on, as many as are read: how many, 0 at the end, or a negative errno.
 * They are valid until the next call. */
ssize_t line_source_at(struct line_source *s, uint64_t offset, const uint8_t **ret);

#define LINE_SCAN_MAX  ((uint64_t)4 << 30)  /* bytes that are searched for the first line */
#define LINE_COUNT_MAX ((uint64_t)64 << 20) /* bytes after the last one that are counted */

struct line_want {
    int64_t first;     /* from 1; or negative, from the end: -1 is the last line */
    uint64_t count;    /* lines */
    size_t bytes;      /* of all of them */
    size_t characters; /* of one */
};

struct line_got {
    uint64_t first, count;
    uint64_t lines;   /* how many the text has, or has at least */
    bool lines_known; /* it is exactly so many */
    bool more;        /* there is text after them */
    uint64_t cut;     /* lines that were too long */
    unsigned endings; /* WIRE_ENDS_…, of what was taken */
};

/* Appends the lines to `out`, which has room for line_scan_room(). 0, -ERANGE with a message if
 * there is no such line, or another negative errno. */
int line_scan(struct line_source *s, const struct line_want *want, struct buf *out,
              struct line_got *ret, struct error *err);

/* How large `out` has to be for what is wanted. */
size_t line_scan_room(const struct line_want *want);
