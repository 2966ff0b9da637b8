/*
 * The curve in characters. Braille patterns have two columns and four rows of dots each, so a line
 * of them has a resolution that is worth drawing in.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"
#include "banned.h"

#define LABEL      7 /* characters in front of a row: a number and the axis */
#define WIDTH_MIN  24
#define WIDTH_MAX  400
#define HEIGHT_MIN 5
#define HEIGHT_MAX 100

#define DIM   "\033[2m"
#define CYAN  "\033[36m"
#define GREEN "\033[32m"
#define PLAIN "\033[0m"

struct grid {
    unsigned columns, rows; /* characters */
    uint8_t *line, *best;   /* dots of each character */
    double low, high;
};

/* Which bit of a braille character is the dot in this column and row. */
static uint8_t dot_bit(unsigned x, unsigned y)
{
    static const uint8_t BITS[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    return BITS[y % 4][x % 2];
}

static void set_dot(const struct grid *g, uint8_t *layer, unsigned x, unsigned y)
{
    layer[y / 4 * g->columns + x / 2] |= dot_bit(x, y);
}

static unsigned row_of(const struct grid *g, double value)
{
    double part = (g->high - value) / (g->high - g->low), last = 4.0 * g->rows - 1;
    return (unsigned)fmin(last, fmax(0, round(part * last)));
}

static double mean_of(const double *values, size_t from, size_t to)
{
    double sum = 0;
    for (size_t i = from; i < to; i++)
        sum += values[i];
    return sum / (double)(to - from);
}

/* One dot per column, and whatever lies between it and the one before. */
static void draw_line(const struct grid *g, const double *mean, size_t n)
{
    unsigned wide = 2 * g->columns, before = 0;
    for (unsigned x = 0; x < wide; x++) {
        size_t from = (size_t)x * n / wide, to = (size_t)(x + 1) * n / wide;
        unsigned y = row_of(g, mean_of(mean, from, to > from ? to : from + 1));
        unsigned a = x ? before : y;
        for (unsigned at = a < y ? a : y; at <= (a < y ? y : a); at++)
            set_dot(g, g->line, x, at);
        before = y;
    }
}

static void draw_best(const struct grid *g, double best)
{
    if (!isfinite(best))
        return;
    for (unsigned x = 0; x < 2 * g->columns; x++)
        if (x % 4 < 2)
            set_dot(g, g->best, x, row_of(g, best));
}

static void put_cell(const struct grid *g, unsigned at, bool colour, struct buf *out)
{
    uint8_t dots = g->line[at] | g->best[at];
    char text[4] = {(char)0xe2, (char)(0xa0 | dots >> 6), (char)(0x80 | (dots & 0x3f)), 0};
    if (!dots)
        buf_append_str(out, " ");
    else
        buf_printf(out, "%s%s%s",
                   !colour       ? ""
                   : g->line[at] ? CYAN
                                 : GREEN,
                   text, colour ? PLAIN : "");
}

static void put_row(const struct grid *g, unsigned row, const char *label, bool colour,
                    struct buf *out)
{
    buf_printf(out, "%s%*s %s%s", colour ? DIM : "", LABEL - 2, label, "│", colour ? PLAIN : "");
    for (unsigned x = 0; x < g->columns; x++)
        put_cell(g, row * g->columns + x, colour, out);
    /* Blanks at the end of a line are of no use to anybody. */
    while (out->len && out->data[out->len - 1] == ' ')
        out->len--;
    buf_append_str(out, "\n");
}

static void put_axis(const struct grid *g, const struct curve *c, bool colour, struct buf *out)
{
    char first[32] = "", last[32] = "";
    if (c->n) {
        snprintf(first, sizeof first, "%llu", (unsigned long long)c->points[0].episode);
        snprintf(last, sizeof last, "%llu", (unsigned long long)c->points[c->n - 1].episode);
    }
    buf_printf(out, "%s%*s└", colour ? DIM : "", LABEL - 1, "");
    for (unsigned x = 0; x < g->columns; x++)
        buf_append_str(out, "─");
    int gap = (int)g->columns - (int)strlen(first) - (int)strlen(last);
    buf_printf(out, "\n%*s%s%*s%s%s\n", LABEL, "", first, gap > 1 ? gap : 1, "", last,
               colour ? PLAIN : "");
}

static void put_grid(const struct grid *g, const struct curve *c, bool colour, struct buf *out)
{
    char label[32];
    for (unsigned row = 0; row < g->rows; row++) {
        label[0] = 0;
        if (row == 0 || row + 1 == g->rows || row == g->rows / 2) {
            double part = row == 0 ? 0 : row + 1 == g->rows ? 1 : (double)row / (g->rows - 1);
            snprintf(label, sizeof label, "%.2f", g->high - part * (g->high - g->low));
        }
        put_row(g, row, label, colour, out);
    }
    put_axis(g, c, colour, out);
}

static unsigned clamp(unsigned v, unsigned low, unsigned high)
{
    return v < low ? low : v > high ? high : v;
}

int curve_text(const struct curve *c, unsigned width, unsigned height, bool colour, struct buf *out)
{
    struct grid g = {.columns = clamp(width, WIDTH_MIN, WIDTH_MAX) - LABEL,
                     .rows = clamp(height, HEIGHT_MIN, HEIGHT_MAX) - 2};
    _cleanup_free_ uint8_t *dots = calloc(g.columns * g.rows, 2);
    _cleanup_free_ double *mean = curve_average(c->points, c->n, curve_window(c->n));
    if (!dots || !mean)
        return -ENOMEM;
    g.line = dots;
    g.best = dots + g.columns * g.rows;
    curve_range(c, &g.low, &g.high);
    if (c->n)
        draw_line(&g, mean, c->n);
    draw_best(&g, c->best);
    put_grid(&g, c, colour, out);
    return out->failed ? -ENOBUFS : 0;
}
