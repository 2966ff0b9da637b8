/*
 * The lines of a text that are most like other lines.
 *
 * Lines are compared folded (fold.h), by a hash. Each line of the text that is the same as one of
 * `old` says where `old` would begin; the beginning that most lines agree on wins, rare lines
 * counting more than common ones. If no line is the same, the line wins that has most pairs of
 * characters in common with one of the longest of `old`. The text is walked a fixed number of
 * times, and what is remembered of it is bounded.
 */
#pragma once

#include "bytes.h"

struct window {
    size_t begin, end;    /* whole lines of the text */
    uint64_t line, count; /* the first of them, from 1; how many */
};

/* 1 with the lines, 0 if nothing is like `old`, or -ENOMEM. */
int window_find(struct bytes text, struct bytes old, struct window *ret);
