/* Text for a model: lines with their numbers before them; bytes as hexadecimal. */
#pragma once

#include <stdint.h>

#include "buf.h"

/* Appends lines with numbers from `first` on, as valid UTF-8. A CR before a newline is left out. */
void numbered_append(struct buf *out, const uint8_t *text, size_t n, uint64_t first);

/* Appends the lines that a unified diff leaves in the file, with their numbers; "..." between two
 * hunks. */
void numbered_append_diff(struct buf *out, const uint8_t *diff, size_t n);

/* Appends 16 bytes a line with their offsets, from `offset` on. */
void hexdump_append(struct buf *out, const uint8_t *data, size_t n, uint64_t offset);
