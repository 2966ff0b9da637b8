/* A learning curve: as SVG, and for a terminal in characters. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/* One episode of a training. */
struct train_point {
    uint64_t episode; /* from 1 */
    double ret, pass_rate, epsilon;
    unsigned calls;
    double seconds;
};

struct curve {
    const char *title; /* UTF-8 */
    const struct train_point *points;
    size_t n;
    double best; /* a line; NaN: none */
};

/* One picture that needs nothing else, readable on light and on dark. -ENOMEM, -ENOBUFS. */
int curve_svg(const struct curve *c, struct buf *out);

/* width and height in characters, of the whole drawing. */
int curve_text(const struct curve *c, unsigned width, unsigned height, bool colour,
               struct buf *out);

/* What both are made of. The mean of the last `window` returns up to and with each point: n
 * numbers, to be freed; NULL without memory. */
double *curve_average(const struct train_point *points, size_t n, size_t window);
size_t curve_window(size_t n);

/* A step of 1, 2 or 5 times a power of ten, so that a range has about `count` of them. */
double curve_tick(double range, unsigned count);

/* From the smallest to the largest value that is shown, 0 and 1 among them. */
void curve_range(const struct curve *c, double *ret_low, double *ret_high);
