/*
 * Untrusted bytes on the way to a terminal: what could move the cursor, change colours, set the
 * title, type or hide text is shown as \x1b instead of done. Printable UTF-8, tabs and line ends
 * pass as they are.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* Between two pieces of one stream: the beginning of a character that the first piece ended in. */
struct harmless {
    uint8_t cut[4];
    size_t n_cut;
};

#define HARMLESS_GROWTH 4 /* a byte becomes at most so many */

/* Appends the harmless form of the next n bytes. 0 or a negative errno of the buffer. */
int harmless_append(struct harmless *h, const void *data, size_t n, struct buf *out);
