/* A learning curve: as SVG, and for a terminal in characters. Pure. */
#pragma once

#include "buf.h"
#include "train.h"

struct curve {
    const char *title;
    const struct train_point *points;
    size_t n;
    double best; /* a line; NaN: none */
};

int curve_svg(const struct curve *c, struct buf *out);
int curve_text(const struct curve *c, unsigned width, unsigned height, bool colour, struct buf *out);
