#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"
#include "text.h"
#include "banned.h"

size_t curve_window(size_t n)
{
    return n < 80 ? 1 + n / 8 : n < 4000 ? n / 40 + 8 : 108;
}

double *curve_average(const struct train_point *points, size_t n, size_t window)
{
    double *mean = calloc(n + 1, sizeof *mean), sum = 0;
    for (size_t i = 0; mean && i < n; i++) {
        sum += points[i].ret;
        if (i >= window)
            sum -= points[i - window].ret;
        mean[i] = sum / (double)(i < window ? i + 1 : window);
    }
    return mean;
}

double curve_tick(double range, unsigned count)
{
    if (!(range > 0) || !isfinite(range))
        return 1;
    double rough = range / count, power = pow(10, floor(log10(rough))), part = rough / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

void curve_range(const struct curve *c, double *ret_low, double *ret_high)
{
    double low = 0, high = 1;
    for (size_t i = 0; i < c->n; i++) {
        low = fmin(low, c->points[i].ret);
        high = fmax(high, c->points[i].ret);
    }
    if (isfinite(c->best)) {
        low = fmin(low, c->best);
        high = fmax(high, c->best);
    }
    double tick = curve_tick(high - low, 5);
    *ret_low = floor(low / tick + 1e-9) * tick;
    *ret_high = ceil(high / tick - 1e-9) * tick;
}

/*
 * The curve in characters. Braille patterns have two columns and four rows of dots each, so a line
 * of them has a resolution that is worth drawing in.
 */

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

/*
 * The curve as SVG: single episodes as faint dots, their moving average as a line, the best that
 * there is as a dashed one. Colours are those of the reader's theme where it says so; without,
 * light.
 */

#define WIDTH           860
#define HEIGHT          440
#define LEFT            64
#define RIGHT           24
#define TOP             64
#define BOTTOM          56
#define DOTS_MAX        1500 /* of single episodes */
#define LINE_MAX_POINTS 600

struct plot {
    const struct curve *curve;
    struct buf *out;
    double low, high;   /* of the returns */
    double first, last; /* episodes */
};

static const char HEAD[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                           "width=\"%d\" height=\"%d\" role=\"img\" "
                           "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica "
                           "Neue', Arial, sans-serif\">\n";

/* Colours stand in the rules themselves: not everything that shows SVG knows variables. */
static const char STYLE[] =
    "<style>\n"
    ".paper { fill: #ffffff } .grid { stroke: #e6e9ed } .axis { stroke: #656d76 }\n"
    "text { fill: #656d76; font-size: 12px } .title { fill: #1f2328; font-size: 17px; font-weight: "
    "600 }\n"
    ".dots { fill: #0969da; fill-opacity: .2 }\n"
    ".mean { fill: none; stroke: #0969da; stroke-width: 2.25; stroke-linejoin: round }\n"
    ".best { stroke: #1a7f37; stroke-width: 1.5; stroke-dasharray: 6 5 } .bestname { fill: #1a7f37 "
    "}\n"
    "@media (prefers-color-scheme: dark) {\n"
    ".paper { fill: #0d1117 } .grid { stroke: #21262d } .axis { stroke: #8d96a0 }\n"
    "text { fill: #8d96a0 } .title { fill: #e6edf3 }\n"
    ".dots { fill: #4493f8 } .mean { stroke: #4493f8 } .best { stroke: #3fb950 } .bestname { fill: "
    "#3fb950 "
    "}\n"
    "}\n"
    "</style>\n";

static double x_of(const struct plot *p, double episode)
{
    double span = p->last > p->first ? p->last - p->first : 1;
    return LEFT + (episode - p->first) / span * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct plot *p, double value)
{
    return HEIGHT - BOTTOM - (value - p->low) / (p->high - p->low) * (HEIGHT - TOP - BOTTOM);
}

/* Text for XML; what is not allowed in it at all is left out. */
static void put_escaped(struct buf *out, const char *text)
{
    size_t n = strlen(text);
    for (size_t k; n > 0; text += k, n -= k) {
        k = utf8_character((const uint8_t *)text, n);
        bool good = k > 0 && !utf8_is_control((const uint8_t *)text, k);
        k = k ? k : 1;
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            buf_printf(out, "&#%d;", *text);
        else if (good)
            buf_append(out, text, k);
    }
}

/* A number without digits that say nothing, and without a negative zero. */
static void put_number(struct buf *out, double v)
{
    buf_printf(out, "%g", fabs(v) < 1e-12 ? 0 : round(v * 1e9) / 1e9);
}

static void put_rows(struct plot *p)
{
    double tick = curve_tick(p->high - p->low, 5);
    unsigned n = (unsigned)lround((p->high - p->low) / tick);
    for (unsigned i = 0; i <= n; i++) {
        double v = p->low + i * tick;
        buf_printf(p->out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                   LEFT, WIDTH - RIGHT, y_of(p, v), y_of(p, v));
        buf_printf(p->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 10,
                   y_of(p, v) + 4);
        put_number(p->out, v);
        buf_append_str(p->out, "</text>\n");
    }
}

static void put_columns(struct plot *p)
{
    double tick = fmax(1, curve_tick(p->last - p->first, 8));
    double from = ceil(p->first / tick) * tick;
    unsigned n = from <= p->last ? 1 + (unsigned)((p->last - from) / tick) : 0;
    for (unsigned i = 0; i < n; i++) {
        double v = from + i * tick;
        buf_printf(p->out, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>",
                   x_of(p, v), x_of(p, v), HEIGHT - BOTTOM, HEIGHT - BOTTOM + 5);
        buf_printf(p->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
                   x_of(p, v), HEIGHT - BOTTOM + 20, v);
    }
    buf_printf(p->out, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n", LEFT,
               WIDTH - RIGHT, HEIGHT - BOTTOM, HEIGHT - BOTTOM);
}

static void put_dots(struct plot *p)
{
    const struct curve *c = p->curve;
    size_t every = (c->n + DOTS_MAX - 1) / DOTS_MAX;
    buf_append_str(p->out, "<g class=\"dots\">\n");
    for (size_t i = 0; i < c->n; i += every)
        buf_printf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.6\"/>\n",
                   x_of(p, (double)c->points[i].episode), y_of(p, c->points[i].ret));
    buf_append_str(p->out, "</g>\n");
}

static int put_mean(struct plot *p)
{
    const struct curve *c = p->curve;
    _cleanup_free_ double *mean = curve_average(c->points, c->n, curve_window(c->n));
    size_t every = (c->n + LINE_MAX_POINTS - 1) / LINE_MAX_POINTS;
    if (!mean)
        return -ENOMEM;
    buf_append_str(p->out, "<polyline class=\"mean\" points=\"");
    for (size_t i = 0; i < c->n; i += i + every < c->n || i + 1 == c->n ? every : c->n - 1 - i)
        buf_printf(p->out, "%.1f,%.1f ", x_of(p, (double)c->points[i].episode), y_of(p, mean[i]));
    buf_append_str(p->out, "\"/>\n");
    return 0;
}

static void put_best(struct plot *p)
{
    double y = y_of(p, p->curve->best);
    if (!isfinite(p->curve->best))
        return;
    buf_printf(p->out, "<line class=\"best\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT,
               WIDTH - RIGHT, y, y);
    buf_printf(
        p->out,
        "<text class=\"bestname\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">best: %.4f</text>\n",
        WIDTH - RIGHT, y - 7, p->curve->best);
}

static void put_words(struct plot *p)
{
    buf_printf(p->out, "<text class=\"title\" x=\"%d\" y=\"32\">", LEFT);
    put_escaped(p->out, p->curve->title);
    buf_append_str(p->out, "</text>\n");
    buf_printf(
        p->out,
        "<text x=\"%d\" y=\"50\">return of each episode, and the mean of the last %zu</text>\n",
        LEFT, curve_window(p->curve->n));
    buf_printf(p->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">episode</text>\n",
               (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14);
    buf_printf(
        p->out,
        "<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">return</text>\n",
        (TOP + HEIGHT - BOTTOM) / 2);
}

int curve_svg(const struct curve *c, struct buf *out)
{
    struct plot p = {.curve = c, .out = out};
    curve_range(c, &p.low, &p.high);
    p.first = c->n ? (double)c->points[0].episode : 0;
    p.last = c->n ? (double)c->points[c->n - 1].episode : 1;
    buf_printf(out, HEAD, WIDTH, HEIGHT, WIDTH, HEIGHT);
    buf_append_str(out, "<title>");
    put_escaped(out, c->title);
    buf_append_str(out, "</title>\n");
    buf_append_str(out, STYLE);
    buf_printf(out, "<rect class=\"paper\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", WIDTH, HEIGHT);
    put_rows(&p);
    put_columns(&p);
    put_dots(&p);
    int r = c->n ? put_mean(&p) : 0;
    put_best(&p);
    put_words(&p);
    buf_append_str(out, "</svg>\n");
    return r < 0 ? r : out->failed ? -ENOBUFS : 0;
}
