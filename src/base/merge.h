/*
 * Three-way merge of texts, line by line.
 *
 * Both sides are compared with their common ancestor. A change of one side is taken over where the
 * other side left the lines and their neighbours alone; where both changed the same or adjacent
 * lines, equal changes are taken once and different ones are a conflict. These are the rules of git
 * merge-file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

#define MERGE_SIZE_MAX (8u << 20) /* bytes of one text */

struct merge_text {
    const void *data;
    size_t size;
};

/* Names the sides in conflict markers. */
struct merge_labels {
    const char *mine, *theirs;
};

/* A text with a NUL is binary and cannot be merged by lines. */
bool merge_is_text(const struct merge_text *t);

/* Appends the merged text to *ret, with both versions between markers where they conflict. Returns
 * the number of conflicts; -EILSEQ: one of the texts is binary; -E2BIG, -ENOMEM. A base without
 * data is empty. */
int merge_texts(const struct merge_text *base, const struct merge_text *mine,
                const struct merge_text *theirs, const struct merge_labels *labels,
                struct buf *ret);
