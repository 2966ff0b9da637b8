/* Lines of a text, as an explanation shows them: bounded in number and in length. */
#pragma once

#include "buf.h"
#include "bytes.h"

/* "…line 4" or "…lines 4 to 9". */
void lines_put_range(struct buf *out, const char *before, uint64_t line, uint64_t count);

/* Lines with their numbers. */
void lines_put_numbered(struct buf *out, struct bytes text, uint64_t line, uint64_t count);

/* How many lines of `old` are the same in `file`, and the first ones that are not, both ways. */
void lines_put_difference(struct buf *out, struct bytes old, struct bytes file, uint64_t line);
