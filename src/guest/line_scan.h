/*
 * Lines of a text of any size: found by counting newlines block by block, in memory that does not
 * grow with the text.
 *
 * What is asked for comes whole, but for lines that are too long, which are cut with a mark that
 * says how much is missing, and but for the end of what is too much, which is left out line by
 * line.
 */
#pragma once

#include <stdbool.h>

#include "buf.h"
#include "error.h"
#include "line_source.h"

#define LINE_SCAN_MAX  ((uint64_t)4 << 30)  /* bytes that are searched for the first line */
#define LINE_COUNT_MAX ((uint64_t)64 << 20) /* bytes behind the last one that are counted */

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
    bool more;        /* there is text behind what was taken */
    uint64_t cut;     /* lines that were too long */
    unsigned endings; /* WIRE_ENDS_…, of what was taken */
};

/* Appends the lines to `out`, which has room for line_scan_room(). 0, -ERANGE with words if
 * there is no such line, or another negative errno. */
int line_scan(struct line_source *s, const struct line_want *want, struct buf *out,
              struct line_got *ret, struct error *err);

/* How large `out` has to be for what is wanted. */
size_t line_scan_room(const struct line_want *want);
