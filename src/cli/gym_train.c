/* `hutch gym train`: an agent learns; how far it is, what it learnt, and how that compares with the
 * best. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gym.h"
#include "thread.h"
#include "curve.h"
#include "io.h"
#include "train.h"
#include "banned.h"

/* How far a training is: a bar on a terminal, else a line now and then. On stderr. */
#define PROGRESS_MEAN 100 /* episodes that the figures are means of */

struct gym_progress {
    uint64_t total;
    bool bar, silent;
    int64_t began, shown;
    double returns[PROGRESS_MEAN], rates[PROGRESS_MEAN];
    uint64_t n; /* of this run */
};

#define BAR_WIDTH 24
#define BAR_MIN   6
#define EVERY_NS  (100 * NS_PER_MS)
#define LINES     10 /* where there is no bar */

static double gym_progress_mean(const double *values, uint64_t n)
{
    size_t count = n < PROGRESS_MEAN ? (size_t)n : PROGRESS_MEAN;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / (double)count : 0;
}

/* The bar has what the text leaves of the line, if that is worth it. */
static void gym_progress_bar(const struct gym_progress *p, const struct train_point *at,
                             double per_second)
{
    static const char *const PARTS[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    _cleanup_buf_ struct buf line = BUF_INIT(1024);
    char text[256];
    unsigned left =
        per_second > 0 ? (unsigned)((double)(p->total - at->episode) / per_second + 0.5) : 0;
    int n = snprintf(text, sizeof text,
                     " %" PRIu64 "/%" PRIu64
                     "  return %.3f  pass %3.0f %%  %.0f episodes/s  %u:%02u left",
                     at->episode, p->total, gym_progress_mean(p->returns, p->n),
                     100 * gym_progress_mean(p->rates, p->n), per_second, left / 60, left % 60);
    int room = (int)columns_of(STDERR_FILENO) - n - 3;
    int width = room < BAR_WIDTH ? room : BAR_WIDTH;
    buf_append_str(&line, "\r");
    if (room >= BAR_MIN) {
        int eighths = (int)((double)at->episode / (double)p->total * width * 8);
        buf_append_str(&line, "\033[36m▕");
        for (int i = 0; i < width; i++)
            buf_append_str(&line, i < eighths / 8                   ? "█"
                                  : i == eighths / 8 && eighths % 8 ? PARTS[eighths % 8]
                                                                    : " ");
        buf_append_str(&line, "▏\033[0m");
    }
    buf_printf(&line, "%s\033[K", text);
    io_write_all(STDERR_FILENO, line.data, line.len);
}

static void gym_progress_episode(void *data, const struct train_point *at)
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
    uint64_t every = p->total / LINES ? p->total / LINES : 1;
    if (!p->bar && (at->episode % every == 0 || at->episode == p->total))
        say("%" PRIu64 " of %" PRIu64
            " episodes, return %.3f, pass rate %.2f, epsilon %.2f, %.0f episodes/s",
            at->episode, p->total, gym_progress_mean(p->returns, p->n),
            gym_progress_mean(p->rates, p->n), at->epsilon, per_second);
    if (p->bar && (now - p->shown >= EVERY_NS || at->episode == p->total)) {
        p->shown = now;
        gym_progress_bar(p, at, per_second);
    }
}

static void gym_progress_searching(void *data)
{
    static const char line[] = "\rsearching for the best sequence…\033[K";
    const struct gym_progress *p = data;
    if (p->bar)
        io_write_all(STDERR_FILENO, line, sizeof line - 1);
}

#define EPISODES    2000
#define DRAWING_MAX (1u << 20)

struct train_names {
    char out[PATH_MAX];
    char checkpoint[PATH_MAX + 32];
};

static double train_ratio_of(const struct train_result *r)
{
    double best = r->best.episode.total, got = r->greedy.episode.total;
    return !r->best_known || best <= 0 ? NAN : got / best;
}

static void train_print_sequence(const char *what, const struct train_sequence *s)
{
    _cleanup_free_ char *actions = train_actions_text(s);
    _cleanup_buf_ struct buf text = BUF_INIT(1u << 20);
    buf_printf(&text, "return %.6f: %s", s->episode.total, actions ? actions : "");
    printf("%-8s ", what);
    columns_put(buf_cstr(&text) ? (char *)text.data : "", 9, 0);
}

static void train_print_text(const struct train_result *r, const struct gym_setup *setup,
                             const struct gym_options *o)
{
    _cleanup_buf_ struct buf drawing = BUF_INIT(DRAWING_MAX);
    char out[4 * PATH_MAX];
    unsigned width = columns_of(STDOUT_FILENO);
    struct curve c = {.title = "",
                      .points = r->points,
                      .n = r->n_points,
                      .best = r->best_known ? r->best.episode.total : NAN};
    width = width == 0 ? 80 : width > 100 ? 100 : width;
    printf("%s: %" PRIu64 " episodes", setup->task->name, r->episodes);
    if (r->played && r->seconds > 0)
        printf(", %" PRIu64 " in %.1f s (%.0f per second)", r->played, r->seconds,
               (double)r->played / r->seconds);
    printf("\n");
    if (r->n_points > 1 &&
        curve_text(&c, width, 13, *say_colour(STDOUT_FILENO, " "), &drawing) == 0) {
        printf("\nreturn, mean of the last %zu episodes%s\n", curve_window(c.n),
               r->best_known ? "; dashed: the best possible" : "");
        printf("%.*s\n", (int)drawing.len, (char *)drawing.data);
    }
    train_print_sequence("learnt", &r->greedy);
    if (r->best_known) {
        train_print_sequence("best", &r->best);
        if (!isnan(train_ratio_of(r)))
            printf("%-8s %.1f %% of the best return\n", "", 100 * train_ratio_of(r));
    }
    printf("written  %s: checkpoint.json, episodes.csv, curve.svg\n",
           say_clean(o->out, out, sizeof out));
}

static json_t *train_sequence_json(const struct train_sequence *s)
{
    json_t *actions = json_array();
    for (size_t i = 0; i < s->actions.count; i++)
        json_array_append_new(actions, json_string(s->actions.items[i]));
    return json_pack("{s:o, s:f, s:f, s:i, s:f}", "actions", actions, "return", s->episode.total,
                     "pass_rate", isnan(s->episode.pass_rate) ? 0 : s->episode.pass_rate, "calls",
                     (int)s->episode.calls, "seconds", s->episode.seconds);
}

static void train_print_json(const struct train_result *r, const struct gym_setup *setup,
                             const char *agent, const struct gym_options *o)
{
    json_t *line =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:o, s:s, s:b}", "task",
                  setup->task->name, "agent", agent, "seed", (json_int_t)o->seed, "episodes",
                  (json_int_t)r->episodes, "played", (json_int_t)r->played, "seconds", r->seconds,
                  "episodes_per_second", r->seconds > 0 ? (double)r->played / r->seconds : 0,
                  "greedy", r->greedy_known ? train_sequence_json(&r->greedy) : json_null(), "best",
                  r->best_known ? train_sequence_json(&r->best) : json_null(), "ratio",
                  isnan(train_ratio_of(r)) ? json_null() : json_real(train_ratio_of(r)), "out",
                  o->out, "cancelled", r->cancelled);
    output_json(line, JSON_COMPACT | JSON_SORT_KEYS);
}

/* Where it is written to, and whether something is there to go on from. */
static int train_settle_names(struct gym_options *o, const struct task *t,
                              struct train_names *names, struct error *err)
{
    if (o->out)
        snprintf(names->out, sizeof names->out, "%s", o->out);
    else
        snprintf(names->out, sizeof names->out, "hutch-train/%s-%" PRIu64, t->name, o->seed);
    o->out = names->out;
    snprintf(names->checkpoint, sizeof names->checkpoint, "%s/checkpoint.json", names->out);
    if (!o->resume)
        return 0;
    if (access(names->checkpoint, F_OK) < 0)
        return error_set(err, ENOENT,
                         "there is no %s: nothing to resume; run it without --resume to start over",
                         names->checkpoint);
    o->checkpoint = names->checkpoint;
    return 0;
}

static int train_play(struct gym_options *o, const struct policy_kind *k, struct gym_setup *setup,
                      struct train_result *ret, struct error *err)
{
    struct policy_options with;
    struct settings *none = NULL;
    struct policy *p = NULL;
    struct gym_progress progress;
    struct train_sink sink = {
        .episode = gym_progress_episode, .searching = gym_progress_searching, .data = &progress};
    struct train_options t = {.episodes = o->episodes ? o->episodes : EPISODES,
                              .seed = o->seed,
                              .out = o->out,
                              .resume = o->resume};
    int r = gym_policy_options(o, false, &with, &none, err);
    if (r == 0)
        r = policy_open(k, setup->task, &with, &p, err);
    if (r < 0)
        return r;
    progress = (struct gym_progress){.total = t.episodes,
                                     .bar = !o->json && *say_colour(STDERR_FILENO, " "),
                                     .silent = o->json,
                                     .began = clock_now()};
    r = train(setup->env, p, &t, &sink, ret, err);
    if (progress.bar)
        io_write_all(STDERR_FILENO, "\r\033[K", 4); /* clears the line of the bar */
    policy_free(p);
    return r;
}

static int gym_train_run(const struct command *self, int argc, char **argv)
{
    _cleanup_gym_setup_ struct gym_setup setup = {0};
    struct gym_options o = GYM_OPTIONS_INIT;
    struct error err = {0};
    struct train_names names;
    struct train_result result = {0};
    int status;
    if (!gym_words(self, argc, argv, &o, &status))
        return status;
    const struct policy_kind *k = policy_find(o.agent ? o.agent : "qlearn", &err);
    if (k && !k->learns)
        error_set(&err, EINVAL, "the agent %s does not learn; use qlearn", k->name);
    else if (k && o.episodes > TRAIN_EPISODES_MAX)
        error_set(&err, EINVAL, "--episodes: at most %u", TRAIN_EPISODES_MAX);
    if (err.code)
        return say_usage(&err);

    int cancel = interrupt_watch(&err);
    int r = cancel < 0 ? cancel : gym_setup_open(&o, cancel, &setup, &err);
    if (r == 0 && !o.has_seed)
        o.seed = setup.task->seed;
    if (r == 0)
        r = train_settle_names(&o, setup.task, &names, &err);
    if (r == 0)
        r = train_play(&o, k, &setup, &result, &err);
    if (r < 0)
        return gym_failed(&err);
    if (o.resume && result.played == 0 && !result.cancelled)
        say("%s has %" PRIu64
            " episodes already; give a larger --episodes, which counts all of them",
            names.checkpoint, result.episodes);
    if (result.cancelled)
        say("interrupted; %s has all %" PRIu64 " finished episodes; continue with --resume", o.out,
            result.episodes);
    if (result.best_known && result.best.episode.pass_rate < 1)
        say("no sequence of actions passes all tests: check the task with 'hutch gym tasks'");
    if (o.json)
        train_print_json(&result, &setup, k->name, &o);
    else if (!result.cancelled)
        train_print_text(&result, &setup, &o);
    status = result.cancelled && interrupt_signal() ? 128 + interrupt_signal() : 0;
    train_result_free(&result);
    return status;
}

const struct command_body COMMAND_GYM_TRAIN = {
    .usage = "--task TASK [--episodes N] [OPTIONS]",
    .options = {{GYM_OPTIONS, FOR_TRAIN}},
    .notes =
        "Ctrl-C stops at once and saves all finished episodes; --resume continues from there. The "
        "exit status is 0, 130 after Ctrl-C, 125 if something failed.",
    .run = gym_train_run};
