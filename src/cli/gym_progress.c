#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"
#include "gym_progress.h"
#include "io.h"
#include "say.h"
#include "banned.h"

#define BAR_WIDTH 24
#define EVERY_NS  (100 * NS_PER_MS)
#define LINES     10 /* where there is no bar */

void gym_progress_begin(struct gym_progress *p, uint64_t total, bool json)
{
    *p = (struct gym_progress){
        .total = total, .bar = !json && say_colours(STDERR_FILENO), .silent = json, .began = clock_now()};
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
static void draw_blocks(double part, char *out, size_t size)
{
    static const char *const PARTS[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    unsigned eighths = (unsigned)(part * BAR_WIDTH * 8), full = eighths / 8;
    size_t used = 0;
    for (unsigned i = 0; i < full; i++)
        used += (size_t)snprintf(out + used, size - used, "█");
    used += (size_t)snprintf(out + used, size - used, "%s", PARTS[eighths % 8]);
    for (unsigned i = full + (eighths % 8 > 0); i < BAR_WIDTH; i++)
        used += (size_t)snprintf(out + used, size - used, " ");
}

static unsigned terminal_width(void)
{
    struct winsize size = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

static void draw_bar(const struct gym_progress *p, const struct train_point *at, double per_second)
{
    char blocks[BAR_WIDTH * 4 + 1], line[512];
    draw_blocks((double)at->episode / (double)p->total, blocks, sizeof blocks);
    bool wide = terminal_width() >= 100;
    int n = snprintf(
        line, sizeof line, "\r%s%s%s %" PRIu64 "/%" PRIu64 "  return %.3f  pass %3.0f %%  %.0f episodes/s%s",
        wide ? "\033[36m▕" : "", wide ? blocks : "", wide ? "▏\033[0m" : "", at->episode, p->total,
        mean_of(p->returns, p->n), 100 * mean_of(p->rates, p->n), per_second, "\033[K");
    if (n > 0)
        io_write_all(STDERR_FILENO, line, (size_t)n);
}

static void say_line(const struct gym_progress *p, const struct train_point *at, double per_second)
{
    say("%" PRIu64 " of %" PRIu64 " episodes, return %.3f, pass rate %.2f, epsilon %.2f, %.0f episodes/s",
        at->episode, p->total, mean_of(p->returns, p->n), mean_of(p->rates, p->n), at->epsilon, per_second);
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
