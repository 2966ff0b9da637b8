/* Lines as plain text, for comparisons. */
#pragma once

#include "lines.h"

static inline void lines_plain(const struct lines *l, size_t line, struct buf *out)
{
    const struct line *at = &l->all[line];
    for (size_t i = at->first; i < at->first + at->count; i++)
        buf_append(out, l->text.data + l->runs[i].at, l->runs[i].n);
}
