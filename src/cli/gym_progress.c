#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "columns.h"
#include "gym_progress.h"
#include "io.h"
#include "say.h"
#include "banned.h"

#define BAR_WIDTH 24
#define BAR_MIN   6
#define EVERY_NS  (100 * NS_PER_MS)
#define LINES     10 /* where there is no bar */

void gym_progress_begin(struct gym_progress *p, uint64_t total, bool json)
{
    *p = (struct gym_progress){.total = total,
                               .bar = !json && say_colours(STDERR_FILENO),
                               .silent = json,
                               .began = clock_now()};
}

static double mean_of(const double *values, uint64_t n)
{
    size_t count = n < PROGRESS_MEAN ? (size_t)n : PROGRESS_MEAN;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / (double)count : 0;
}

/* Full blocks and one of eight parts. */
static void draw_blocks(double part, unsigned width, char *out, size_t size)
{
    static const char *const PARTS[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    unsigned eighths = (unsigned)(part * width * 8), full = eighths / 8;
    size_t used = 0;
    for (unsigned i = 0; i < full; i++)
        used += (size_t)snprintf(out + used, size - used, "█");
    used += (size_t)snprintf(out + used, size - used, "%s", PARTS[eighths % 8]);
    for (unsigned i = full + (eighths % 8 > 0); i < width; i++)
        used += (size_t)snprintf(out + used, size - used, " ");
}

/* The bar has what the text leaves of the line, if that is worth it. */
static void draw_bar(const struct gym_progress *p, const struct train_point *at, double per_second)
{
    char blocks[BAR_WIDTH * 4 + 1] = "", text[256], line[512];
    unsigned left =
        per_second > 0 ? (unsigned)((double)(p->total - at->episode) / per_second + 0.5) : 0;
    int n = snprintf(text, sizeof text,
                     " %" PRIu64 "/%" PRIu64
                     "  return %.3f  pass %3.0f %%  %.0f episodes/s  %u:%02u left",
                     at->episode, p->total, mean_of(p->returns, p->n),
                     100 * mean_of(p->rates, p->n), per_second, left / 60, left % 60);
    int room = (int)columns_of(STDERR_FILENO) - n - 3;
    bool bar = room >= BAR_MIN;
    if (bar)
        draw_blocks((double)at->episode / (double)p->total,
                    (unsigned)(room < BAR_WIDTH ? room : BAR_WIDTH), blocks, sizeof blocks);
    n = snprintf(line, sizeof line, "\r%s%s%s%s\033[K", bar ? "\033[36m▕" : "", blocks,
                 bar ? "▏\033[0m" : "", text);
    if (n > 0)
        io_write_all(STDERR_FILENO, line, (size_t)n);
}

static void say_line(const struct gym_progress *p, const struct train_point *at, double per_second)
{
    say("%" PRIu64 " of %" PRIu64
        " episodes, return %.3f, pass rate %.2f, epsilon %.2f, %.0f episodes/s",
        at->episode, p->total, mean_of(p->returns, p->n), mean_of(p->rates, p->n), at->epsilon,
        per_second);
}

static bool is_time_for_line(const struct gym_progress *p, uint64_t episode)
{
    uint64_t every = p->total / LINES ? p->total / LINES : 1;
    return episode % every == 0 || episode == p->total;
}

void gym_progress_episode(void *data, const struct train_point *at)
{
    struct gym_progress *p = data;
    int64_t now = clock_now();
    p->returns[p->n % PROGRESS_MEAN] = at->ret;
    p->rates[p->n % PROGRESS_MEAN] = at->pass_rate;
    p->n++;
    double seconds = (double)(now - p->began) / (double)NS_PER_S;
    double per_second = seconds > 0 ? (double)p->n / seconds : 0;
    if (p->silent)
        return;
    if (!p->bar && is_time_for_line(p, at->episode))
        say_line(p, at, per_second);
    if (p->bar && (now - p->shown >= EVERY_NS || at->episode == p->total)) {
        p->shown = now;
        draw_bar(p, at, per_second);
    }
}

void gym_progress_searching(void *data)
{
    static const char line[] = "\rlooking for the best sequence…\033[K";
    const struct gym_progress *p = data;
    if (p->bar)
        io_write_all(STDERR_FILENO, line, sizeof line - 1);
}

void gym_progress_end(struct gym_progress *p)
{
    if (p->bar)
        io_write_all(STDERR_FILENO, "\r\033[K", 4);
}
