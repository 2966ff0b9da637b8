/* A learning curve: as SVG, and for a terminal in characters. */
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

/* The curve in characters. A braille pattern has two columns and four rows of dots. */

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

static void grid_set_dot(const struct grid *g, uint8_t *layer, unsigned x, unsigned y)
{
    static const uint8_t BITS[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    layer[y / 4 * g->columns + x / 2] |= BITS[y % 4][x % 2];
}

static unsigned grid_row(const struct grid *g, double value)
{
    double part = (g->high - value) / (g->high - g->low), last = 4.0 * g->rows - 1;
    return (unsigned)fmin(last, fmax(0, round(part * last)));
}

/* The averages as a line, with one dot per column and those between it and the one before; the best
 * as a dashed line. */
static void grid_draw(const struct grid *g, const double *mean, size_t n, double best)
{
    unsigned wide = 2 * g->columns, before = 0;
    for (unsigned x = 0; n && x < wide; x++) {
        size_t from = (size_t)x * n / wide, to = (size_t)(x + 1) * n / wide;
        double sum = 0;
        to = to > from ? to : from + 1;
        for (size_t i = from; i < to; i++)
            sum += mean[i];
        unsigned y = grid_row(g, sum / (double)(to - from)), last = x ? before : y;
        for (unsigned at = last < y ? last : y; at <= (last < y ? y : last); at++)
            grid_set_dot(g, g->line, x, at);
        before = y;
    }
    for (unsigned x = 0; isfinite(best) && x < wide; x++)
        if (x % 4 < 2)
            grid_set_dot(g, g->best, x, grid_row(g, best));
}

static void grid_put_row(const struct grid *g, unsigned row, bool colour, struct buf *out)
{
    char label[32] = "";
    if (row == 0 || row + 1 == g->rows || row == g->rows / 2) {
        double part = row == 0 ? 0 : row + 1 == g->rows ? 1 : (double)row / (g->rows - 1);
        snprintf(label, sizeof label, "%.2f", g->high - part * (g->high - g->low));
    }
    buf_printf(out, "%s%*s %s%s", colour ? DIM : "", LABEL - 2, label, "│", colour ? PLAIN : "");
    for (unsigned at = row * g->columns; at < (row + 1) * g->columns; at++) {
        uint8_t dots = g->line[at] | g->best[at];
        char text[4] = {(char)0xe2, (char)(0xa0 | dots >> 6), (char)(0x80 | (dots & 0x3f)), 0};
        const char *hue = g->line[at] ? CYAN : GREEN;
        if (!dots)
            buf_append_str(out, " ");
        else
            buf_printf(out, "%s%s%s", colour ? hue : "", text, colour ? PLAIN : "");
    }
    while (out->len && out->data[out->len - 1] == ' ')
        out->len--;
    buf_append_str(out, "\n");
}

static void grid_put_axis(const struct grid *g, const struct curve *c, bool colour, struct buf *out)
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

int curve_text(const struct curve *c, unsigned width, unsigned height, bool colour, struct buf *out)
{
    width = width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
    height = height < HEIGHT_MIN ? HEIGHT_MIN : height > HEIGHT_MAX ? HEIGHT_MAX : height;
    struct grid g = {.columns = width - LABEL, .rows = height - 2};
    _cleanup_free_ uint8_t *dots = calloc(g.columns * g.rows, 2);
    _cleanup_free_ double *mean = curve_average(c->points, c->n, curve_window(c->n));
    if (!dots || !mean)
        return -ENOMEM;
    g.line = dots;
    g.best = dots + g.columns * g.rows;
    curve_range(c, &g.low, &g.high);
    grid_draw(&g, mean, c->n, c->best);
    for (unsigned row = 0; row < g.rows; row++)
        grid_put_row(&g, row, colour, out);
    grid_put_axis(&g, c, colour, out);
    return out->failed ? -ENOBUFS : 0;
}

/* The curve as SVG: single episodes as faint dots, their moving average as a line, the best as a
 * dashed one. Colours follow the reader's theme, light or dark. */

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

/* Without CSS variables: not every viewer of SVG knows them. */
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

static double plot_x(const struct plot *p, double episode)
{
    double span = p->last > p->first ? p->last - p->first : 1;
    return LEFT + (episode - p->first) / span * (WIDTH - LEFT - RIGHT);
}

static double plot_y(const struct plot *p, double value)
{
    return HEIGHT - BOTTOM - (value - p->low) / (p->high - p->low) * (HEIGHT - TOP - BOTTOM);
}

/* Appends text for XML, without characters that XML does not allow. */
static void xml_append(struct buf *out, const char *text)
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

/* The grid with the axes and their labels. */
static void plot_put_axes(struct plot *p)
{
    double tick = curve_tick(p->high - p->low, 5);
    unsigned n = (unsigned)lround((p->high - p->low) / tick);
    for (unsigned i = 0; i <= n; i++) {
        double v = p->low + i * tick, y = plot_y(p, v);
        buf_printf(p->out,
                   "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                   "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                   LEFT, WIDTH - RIGHT, y, y, LEFT - 10, y + 4,
                   fabs(v) < 1e-12 ? 0 : round(v * 1e9) / 1e9);
    }
    tick = fmax(1, curve_tick(p->last - p->first, 8));
    double from = ceil(p->first / tick) * tick;
    n = from <= p->last ? 1 + (unsigned)((p->last - from) / tick) : 0;
    for (unsigned i = 0; i < n; i++) {
        double v = from + i * tick, x = plot_x(p, v);
        buf_printf(p->out,
                   "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                   "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
                   x, x, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 5, x, HEIGHT - BOTTOM + 20, v);
    }
    buf_printf(p->out, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n", LEFT,
               WIDTH - RIGHT, HEIGHT - BOTTOM, HEIGHT - BOTTOM);
}

static int plot_put_points(struct plot *p)
{
    const struct curve *c = p->curve;
    size_t every = (c->n + DOTS_MAX - 1) / DOTS_MAX;
    buf_append_str(p->out, "<g class=\"dots\">\n");
    for (size_t i = 0; i < c->n; i += every)
        buf_printf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.6\"/>\n",
                   plot_x(p, (double)c->points[i].episode), plot_y(p, c->points[i].ret));
    buf_append_str(p->out, "</g>\n");
    if (c->n == 0)
        return 0;
    _cleanup_free_ double *mean = curve_average(c->points, c->n, curve_window(c->n));
    if (!mean)
        return -ENOMEM;
    every = (c->n + LINE_MAX_POINTS - 1) / LINE_MAX_POINTS;
    buf_append_str(p->out, "<polyline class=\"mean\" points=\"");
    for (size_t i = 0; i < c->n; i += i + every < c->n || i + 1 == c->n ? every : c->n - 1 - i)
        buf_printf(p->out, "%.1f,%.1f ", plot_x(p, (double)c->points[i].episode),
                   plot_y(p, mean[i]));
    buf_append_str(p->out, "\"/>\n");
    return 0;
}

int curve_svg(const struct curve *c, struct buf *out)
{
    struct plot p = {.curve = c, .out = out};
    curve_range(c, &p.low, &p.high);
    p.first = c->n ? (double)c->points[0].episode : 0;
    p.last = c->n ? (double)c->points[c->n - 1].episode : 1;
    buf_printf(out, HEAD, WIDTH, HEIGHT, WIDTH, HEIGHT);
    buf_append_str(out, "<title>");
    xml_append(out, c->title);
    buf_append_str(out, "</title>\n");
    buf_append_str(out, STYLE);
    buf_printf(out, "<rect class=\"paper\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", WIDTH, HEIGHT);
    plot_put_axes(&p);
    int r = plot_put_points(&p);
    if (isfinite(c->best)) {
        double y = plot_y(&p, c->best);
        buf_printf(out,
                   "<line class=\"best\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                   "<text class=\"bestname\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">"
                   "best: %.4f</text>\n",
                   LEFT, WIDTH - RIGHT, y, y, WIDTH - RIGHT, y - 7, c->best);
    }
    buf_printf(out, "<text class=\"title\" x=\"%d\" y=\"32\">", LEFT);
    xml_append(out, c->title);
    buf_printf(out,
               "</text>\n<text x=\"%d\" y=\"50\">return of each episode, and the mean of the last "
               "%zu</text>\n"
               "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">episode</text>\n"
               "<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">return"
               "</text>\n</svg>\n",
               LEFT, curve_window(c->n), (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14,
               (TOP + HEIGHT - BOTTOM) / 2);
    return r < 0 ? r : out->failed ? -ENOBUFS : 0;
}
