/*
 * The curve as SVG: single episodes as faint dots, their moving average as a line, the best that
 * there is as a dashed one. Colours are those of the reader's theme where it says so; without,
 * light.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"
#include "utf8.h"
#include "banned.h"

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
