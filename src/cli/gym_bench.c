/* `hutch gym bench`: how fast episodes are played, many environments at once. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "thread.h"
#include "clock.h"
#include "commands.h"
#include "dice.h"
#include "gym_bench.h"
#include "gym_place.h"
#include "interrupt.h"
#include "say.h"
#include "vector.h"
#include "banned.h"

#define ENVS     8
#define EPISODES 1000

enum kind { RESETS, STEPS, LASTS, KINDS };
static const char *const KIND_NAMES[KINDS] = {
    [RESETS] = "reset", [STEPS] = "step", [LASTS] = "last step"};

/* One environment: what it was told last, and when. */
struct player {
    struct dice dice;
    size_t at; /* steps of the episode */
    int64_t sent;
    bool reset;
};

struct bench {
    const struct gym_options *options;
    struct gym_place place;
    struct gym_vector *vector;
    struct player *players;
    size_t *solution; /* numbers of actions; NULL: dice decide */
    size_t n_solution;
    size_t envs;
    uint64_t episodes, begun, ended, solved;
    struct bench_times times[KINDS];
    struct bench_memory before,
        with; /* before the environments, and with all of them in an episode */
    double seconds;
};

static int find_solution(struct bench *b, struct error *err)
{
    const struct task *t = b->place.task;
    if (t->solution.count == 0)
        return error_set(err, EINVAL,
                         "the solution of %s is not known as patches; --agent random plays it",
                         t->name);
    b->solution = calloc(t->solution.count + 1, sizeof *b->solution);
    if (!b->solution)
        return error_set(err, ENOMEM, "no memory");
    for (size_t i = 0; i < t->solution.count; i++)
        b->solution[i] = (size_t)(task_patch_find(t, t->solution.items[i]) - t->patches);
    b->solution[t->solution.count] = task_actions(t) - 1;
    b->n_solution = t->solution.count + 1;
    return 0;
}

static int send_reset(struct bench *b, size_t env, struct error *err)
{
    struct player *p = &b->players[env];
    uint64_t seed = b->options->seed + b->begun++;
    struct vector_action a = {.env = env, .reset = true, .seed = seed};
    dice_seed(&p->dice, seed);
    p->at = 0;
    p->reset = true;
    p->sent = clock_now();
    return vector_send(b->vector, &a, 1, err);
}

static int send_action(struct bench *b, size_t env, struct error *err)
{
    struct player *p = &b->players[env];
    size_t actions = task_actions(b->place.task);
    size_t number = !b->solution            ? dice_below(&p->dice, actions)
                    : p->at < b->n_solution ? b->solution[p->at]
                                            : actions - 1;
    struct vector_action a = {.env = env, .number = number};
    p->at++;
    p->reset = false;
    p->sent = clock_now();
    return vector_send(b->vector, &a, 1, err);
}

/* Takes one result and says what its environment does next. */
static int take(struct bench *b, const struct vector_result *r, struct error *err)
{
    const struct player *p = &b->players[r->env];
    bool over = r->step.terminated || r->step.truncated;
    if (r->code < 0)
        return error_set(err, -r->code, "%s", r->text);
    bench_time(&b->times[p->reset ? RESETS : over ? LASTS : STEPS], clock_now() - p->sent);
    if (!over)
        return send_action(b, r->env, err);
    b->ended++;
    b->solved += r->step.pass_rate >= 1;
    return b->begun < b->episodes ? send_reset(b, r->env, err) : 0;
}

static int take_some(struct bench *b, struct error *err)
{
    struct vector_result results[16];
    ssize_t n = vector_recv(b->vector, 1, ARRAY_SIZE(results), -1, results, err);
    int r = n < 0 ? (int)n : n == 0 ? error_set(err, EIO, "no environment is at work any more") : 0;
    for (ssize_t i = 0; i < n; i++) {
        if (r == 0)
            r = take(b, &results[i], err);
        vector_result_free(&results[i]);
    }
    return r;
}

static int play(struct bench *b, struct error *err)
{
    int r = 0;
    int64_t began = clock_now();
    for (size_t i = 0; r == 0 && i < b->envs && b->begun < b->episodes; i++)
        r = send_reset(b, i, err);
    while (r == 0 && b->ended < b->episodes)
        r = take_some(b, err);
    b->seconds = (double)(clock_now() - began) / (double)NS_PER_S;
    return r;
}

/* All environments after the first action of an episode, with whatever they hold then. */
static int weigh(struct bench *b, struct error *err)
{
    struct vector_result result;
    int r = 0;
    for (size_t turn = 0; turn < 2; turn++) {
        for (size_t i = 0; r == 0 && i < b->envs; i++)
            r = turn == 0 ? send_reset(b, i, err) : send_action(b, i, err);
        for (size_t i = 0; r == 0 && i < b->envs; i++) {
            ssize_t n = vector_recv(b->vector, 1, 1, -1, &result, err);
            r = n < 1 ? error_set(err, EIO, "no environment is at work any more") : 0;
            if (r == 0 && result.code < 0)
                r = error_set(err, -result.code, "%s", result.text);
            if (n == 1)
                vector_result_free(&result);
        }
    }
    bench_memory(&b->with);
    return r;
}

static double per_second(const struct bench *b, size_t n)
{
    return b->seconds > 0 ? (double)n / b->seconds : 0;
}

/* KiB for one environment; negative: not known. */
static double each_of(const struct bench *b, int64_t before, int64_t with)
{
    return before < 0 || with < 0 ? -1
                                  : (double)(with > before ? with - before : 0) / (double)b->envs;
}

static void print_text(struct bench *b)
{
    struct arena_counts counts;
    double own = each_of(b, b->before.own, b->with.own),
           boxes = each_of(b, b->before.boxes, b->with.boxes);
    size_t steps = b->times[STEPS].n + b->times[LASTS].n;
    arena_counts(b->place.arena, &counts);
    printf("%s, %zu environment%s, %s, cache %s, %s runner\n", b->place.task->name, b->envs,
           b->envs == 1 ? "" : "s", b->solution ? "solution" : "random",
           b->options->no_cache ? "off" : "on", counts.warm ? "warm" : "cold");
    printf("%10.1f episodes/s   (%" PRIu64 " in %.2f s, %" PRIu64 " solved)\n",
           per_second(b, b->ended), b->ended, b->seconds, b->solved);
    printf("%10.1f steps/s\n%10.1f resets/s\n\n", per_second(b, steps),
           per_second(b, b->times[RESETS].n));
    for (size_t i = 0; i < KINDS; i++)
        printf("%-10s p50 %8.3f ms   p99 %8.3f ms\n", KIND_NAMES[i],
               bench_percentile(&b->times[i], 0.5), bench_percentile(&b->times[i], 0.99));
    if (own >= 0)
        printf("\nmemory per environment: %.0f KiB in this process", own);
    if (own >= 0 && boxes >= 0)
        printf(", %.0f KiB in its box", boxes);
    printf("%s%" PRIu64 " runs of the tests, %" PRIu64 " answers from the cache\n",
           own >= 0 ? "\n" : "", counts.test_runs, counts.cache_hits);
}

static json_t *times_json(struct bench_times *t)
{
    return json_pack("{s:I, s:f, s:f}", "count", (json_int_t)t->n, "p50_ms",
                     bench_percentile(t, 0.5), "p99_ms", bench_percentile(t, 0.99));
}

static json_t *known(double v)
{
    return v < 0 ? json_null() : json_real(v);
}

static void print_json(struct bench *b)
{
    struct arena_counts c;
    arena_counts(b->place.arena, &c);
    json_t *o =
        json_pack("{s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o, "
                  "s:o, s:I, s:I}",
                  "task", b->place.task->name, "agent", b->solution ? "solution" : "random",
                  "cache", !b->options->no_cache, "warm", c.warm, "envs", (json_int_t)b->envs,
                  "episodes", (json_int_t)b->ended, "solved", (json_int_t)b->solved, "seconds",
                  b->seconds, "episodes_per_second", per_second(b, b->ended), "steps_per_second",
                  per_second(b, b->times[STEPS].n + b->times[LASTS].n), "resets_per_second",
                  per_second(b, b->times[RESETS].n), "reset", times_json(&b->times[RESETS]), "step",
                  times_json(&b->times[STEPS]), "last_step", times_json(&b->times[LASTS]),
                  "process_kib_per_env", known(each_of(b, b->before.own, b->with.own)),
                  "box_kib_per_env", known(each_of(b, b->before.boxes, b->with.boxes)), "test_runs",
                  (json_int_t)c.test_runs, "cache_hits", (json_int_t)c.cache_hits);
    json_dumpf(o, stdout, JSON_COMPACT | JSON_SORT_KEYS);
    printf("\n");
    json_decref(o);
}

static void stop(void *data)
{
    vector_cancel(data);
}

/* From here on a signal ends the steps that are under way. It may have come before. */
static int open_vector(struct bench *b, int cancel, struct error *err)
{
    struct vector_options with = {.n = b->envs};
    int r = vector_open(b->place.arena, &with, &b->vector, err);
    if (r < 0)
        return r;
    interrupt_call(stop, b->vector);
    return cancel_check(cancel, err);
}

static int prepare(struct bench *b, int cancel, struct error *err)
{
    const char *agent = b->options->agent ? b->options->agent : "solution";
    int r = gym_place_open(b->options, cancel, &b->place, err);
    if (r == 0 && task_actions(b->place.task) == 0)
        r = error_set(err, EINVAL, "the task %s has no patches, so there is nothing to measure",
                      b->place.task->name);
    if (r == 0 && strcmp(agent, "solution") == 0)
        r = find_solution(b, err);
    for (size_t i = 0; r == 0 && i < KINDS; i++)
        if (!(b->times[i].ns = calloc(BENCH_TIMES_MAX, sizeof(int64_t))))
            r = error_set(err, ENOMEM, "no memory");
    b->players = calloc(b->envs, sizeof *b->players);
    if (r == 0 && !b->players)
        r = error_set(err, ENOMEM, "no memory");
    if (r == 0)
        bench_memory(&b->before);
    return r == 0 ? open_vector(b, cancel, err) : r;
}

static void release(struct bench *b)
{
    interrupt_call(NULL, NULL);
    vector_close(b->vector);
    gym_place_close(&b->place);
    free(b->players);
    free(b->solution);
    for (size_t i = 0; i < KINDS; i++)
        free(b->times[i].ns);
}

static int run(struct gym_options *o, struct error *err)
{
    struct bench b = {.options = o,
                      .envs = (size_t)(o->envs ? o->envs : ENVS),
                      .episodes = o->episodes ? o->episodes : EPISODES};
    int cancel = interrupt_watch(err);
    int r = cancel < 0 ? cancel : prepare(&b, cancel, err);
    if (r == 0)
        r = play(&b, err);
    if (r == 0)
        r = weigh(&b, err);
    if (r == 0 && o->json)
        print_json(&b);
    else if (r == 0)
        print_text(&b);
    release(&b);
    return r < 0 ? gym_failed(err) : 0;
}

int command_gym_bench(const struct command *self, int argc, char **argv)
{
    struct gym_options o = GYM_OPTIONS_INIT;
    struct error err = {0};
    int n, status;
    if (!command_words(self, argc, argv, &o, 0, 0, &n, &status))
        return status;
    if (o.agent && strcmp(o.agent, "random") != 0 && strcmp(o.agent, "solution") != 0)
        error_set(&err, EINVAL, "--agent: '%.100s' is not random or solution", o.agent);
    else if (o.envs > VECTOR_MAX)
        error_set(&err, EINVAL, "--envs: at most %d", VECTOR_MAX);
    if (err.code)
        return say_usage(&err);
    if (!o.task && !o.from)
        o.task = "bugfix_1";
    return run(&o, &err);
}
