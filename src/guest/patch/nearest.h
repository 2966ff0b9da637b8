/*
 * Where in a file a hunk was perhaps meant to go: the place that has most of its lines in their
 * order, and what differs there.
 */
#pragma once

#include "image.h"

struct nearest {
    size_t line; /* of the first line that differs, from 1; 0 if nothing in the file is like it */
    size_t expected, n_expected; /* the differing lines of the hunk, among those it looks for */
    size_t found, n_found;       /* the lines of the file that stand there, from 0 */
};

/* `guess` is where the hunk says it belongs, from 0. 0 or -ENOMEM. */
int nearest_find(const struct image *img, const struct image_line *want, size_t n, size_t guess,
                 struct nearest *ret);
