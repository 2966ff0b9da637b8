#include <math.h>
#include <stdlib.h>

#include "curve.h"
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
