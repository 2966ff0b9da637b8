/* Means and how sure they are: the bootstrap. The values are drawn from with replacement, again and
 * again, and the interval is that of the middle 95 % of the means. It assumes nothing about how
 * they are distributed. */
#include <math.h>
#include <stdlib.h>

#include "dice.h"
#include "eval.h"
#include "banned.h"

#define DRAWS 2000

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double mean_of(const double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

static double drawn_mean(const double *values, size_t n, struct dice *dice)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[dice_below(dice, n)];
    return sum / (double)n;
}

struct eval_stat eval_stat_of(const double *values, size_t n, uint64_t seed)
{
    struct dice dice;
    double means[DRAWS];
    if (n == 0)
        return (struct eval_stat){.mean = NAN, .low = NAN, .high = NAN};
    dice_seed(&dice, seed);
    for (size_t i = 0; i < DRAWS; i++)
        means[i] = drawn_mean(values, n, &dice);
    qsort(means, DRAWS, sizeof *means, by_size);
    return (struct eval_stat){.mean = mean_of(values, n),
                              .low = means[DRAWS * 25 / 1000],
                              .high = means[DRAWS - 1 - DRAWS * 25 / 1000],
                              .n = n};
}
