/* `hutch gym bench`: how fast episodes are played, many environments at once. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gym.h"
#include "cleanup.h"
#include "thread.h"
#include "policy.h"
#include "vector.h"
#include "banned.h"

/* Times of one kind of call; the last of them if there are many. */
#define BENCH_TIMES_MAX 100000u

struct bench_times {
    int64_t *ns; /* room for BENCH_TIMES_MAX */
    size_t n;    /* all of them */
};

struct bench_memory {
    /* KiB of this process that nobody else has a part in, or its part of it; -1: not known */
    int64_t own;
    int64_t boxes; /* the same of all processes in boxes; -1: an ordinary user may not look there */
};

static int bench_compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the times; a share of 0.5 is the median. In milliseconds; 0 if there is none. */
static double bench_percentile(struct bench_times *t, double share)
{
    size_t n = t->n < BENCH_TIMES_MAX ? t->n : BENCH_TIMES_MAX;
    if (n == 0)
        return 0;
    qsort(t->ns, n, sizeof *t->ns, bench_compare_times);
    size_t at = (size_t)((double)(n - 1) * share + 0.5);
    return (double)t->ns[at] / 1e6;
}

/* Of one process, in KiB: -1 if it may not be looked at, 0 if it has just ended. */
static int64_t bench_pss(const char *pid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%.20s/smaps_rollup", pid);
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    if (!f)
        return errno == EACCES || errno == EPERM ? -1 : 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "Pss:", 4) == 0)
            return strtoll(line + 4, NULL, 10);
    return 0;
}

/* Boxes are children of this process, and what runs in them are theirs. */
static int64_t bench_pss_children(const char *pid)
{
    char path[320], child[24];
    int64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%.20s/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *d; tasks && (d = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/children", pid, d->d_name);
        _cleanup_fclose_ FILE *f = d->d_name[0] == '.' ? NULL : fopen(path, "re");
        while (sum >= 0 && f && fscanf(f, "%20s", child) == 1) {
            int64_t own = bench_pss(child), rest = bench_pss_children(child);
            sum = own < 0 || rest < 0 ? -1 : sum + own + rest;
        }
    }
    if (tasks)
        closedir(tasks);
    return sum;
}

static struct bench_memory bench_memory(void)
{
    return (struct bench_memory){.own = bench_pss("self"), .boxes = bench_pss_children("self")};
}

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
    struct gym_setup setup;
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

static int bench_find_solution(struct bench *b, struct error *err)
{
    const struct task *t = b->setup.task;
    if (t->solution.count == 0)
        return error_set(err, EINVAL,
                         "the solution of %s is not a list of patches; use --agent random",
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

static int bench_send_reset(struct bench *b, size_t env, struct error *err)
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

static int bench_send_action(struct bench *b, size_t env, struct error *err)
{
    struct player *p = &b->players[env];
    size_t actions = task_actions(b->setup.task);
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
static int bench_take(struct bench *b, const struct vector_result *r, struct error *err)
{
    const struct player *p = &b->players[r->env];
    bool over = r->step.terminated || r->step.truncated;
    if (r->code < 0)
        return error_set(err, -r->code, "%s", r->text);
    struct bench_times *t = &b->times[p->reset ? RESETS : over ? LASTS : STEPS];
    t->ns[t->n++ % BENCH_TIMES_MAX] = clock_now() - p->sent;
    if (!over)
        return bench_send_action(b, r->env, err);
    b->ended++;
    b->solved += r->step.pass_rate >= 1;
    return b->begun < b->episodes ? bench_send_reset(b, r->env, err) : 0;
}

static int bench_play(struct bench *b, struct error *err)
{
    struct vector_result results[16];
    int r = 0;
    int64_t began = clock_now();
    for (size_t i = 0; r == 0 && i < b->envs && b->begun < b->episodes; i++)
        r = bench_send_reset(b, i, err);
    while (r == 0 && b->ended < b->episodes) {
        ssize_t n = vector_recv(b->vector, 1, ARRAY_SIZE(results), -1, results, err);
        r = n < 0 ? (int)n : n == 0 ? error_set(err, EIO, "all environments have failed") : 0;
        for (ssize_t i = 0; i < n; i++) {
            if (r == 0)
                r = bench_take(b, &results[i], err);
            vector_result_free(&results[i]);
        }
    }
    b->seconds = (double)(clock_now() - began) / (double)NS_PER_S;
    return r;
}

/* All environments after the first action of an episode, with whatever they hold then. */
static int bench_weigh(struct bench *b, struct error *err)
{
    struct vector_result result;
    int r = 0;
    for (size_t turn = 0; turn < 2; turn++) {
        for (size_t i = 0; r == 0 && i < b->envs; i++)
            r = turn == 0 ? bench_send_reset(b, i, err) : bench_send_action(b, i, err);
        for (size_t i = 0; r == 0 && i < b->envs; i++) {
            ssize_t n = vector_recv(b->vector, 1, 1, -1, &result, err);
            r = n < 1 ? error_set(err, EIO, "all environments have failed") : 0;
            if (r == 0 && result.code < 0)
                r = error_set(err, -result.code, "%s", result.text);
            if (n == 1)
                vector_result_free(&result);
        }
    }
    b->with = bench_memory();
    return r;
}

static double bench_per_second(const struct bench *b, size_t n)
{
    return b->seconds > 0 ? (double)n / b->seconds : 0;
}

/* KiB for one environment; negative: not known. */
static double bench_each_of(const struct bench *b, int64_t before, int64_t with)
{
    return before < 0 || with < 0 ? -1
                                  : (double)(with > before ? with - before : 0) / (double)b->envs;
}

static void bench_print_text(struct bench *b)
{
    struct arena_counts counts;
    double own = bench_each_of(b, b->before.own, b->with.own),
           boxes = bench_each_of(b, b->before.boxes, b->with.boxes);
    size_t steps = b->times[STEPS].n + b->times[LASTS].n;
    arena_counts(b->setup.arena, &counts);
    printf("%s, %zu environment%s, %s, cache %s, %s runner\n", b->setup.task->name, b->envs,
           b->envs == 1 ? "" : "s", b->solution ? "solution" : "random",
           b->options->no_cache ? "off" : "on", counts.warm ? "warm" : "cold");
    printf("%10.1f episodes/s   (%" PRIu64 " in %.2f s, %" PRIu64 " solved)\n",
           bench_per_second(b, b->ended), b->ended, b->seconds, b->solved);
    printf("%10.1f steps/s\n%10.1f resets/s\n\n", bench_per_second(b, steps),
           bench_per_second(b, b->times[RESETS].n));
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

static json_t *bench_times_json(struct bench_times *t)
{
    return json_pack("{s:I, s:f, s:f}", "count", (json_int_t)t->n, "p50_ms",
                     bench_percentile(t, 0.5), "p99_ms", bench_percentile(t, 0.99));
}

static void bench_print_json(struct bench *b)
{
    struct arena_counts c;
    double own = bench_each_of(b, b->before.own, b->with.own),
           boxes = bench_each_of(b, b->before.boxes, b->with.boxes);
    arena_counts(b->setup.arena, &c);
    json_t *o = json_pack(
        "{s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o, "
        "s:o, s:I, s:I}",
        "task", b->setup.task->name, "agent", b->solution ? "solution" : "random", "cache",
        !b->options->no_cache, "warm", c.warm, "envs", (json_int_t)b->envs, "episodes",
        (json_int_t)b->ended, "solved", (json_int_t)b->solved, "seconds", b->seconds,
        "episodes_per_second", bench_per_second(b, b->ended), "steps_per_second",
        bench_per_second(b, b->times[STEPS].n + b->times[LASTS].n), "resets_per_second",
        bench_per_second(b, b->times[RESETS].n), "reset", bench_times_json(&b->times[RESETS]),
        "step", bench_times_json(&b->times[STEPS]), "last_step", bench_times_json(&b->times[LASTS]),
        "process_kib_per_env", own < 0 ? json_null() : json_real(own), "box_kib_per_env",
        boxes < 0 ? json_null() : json_real(boxes), "test_runs", (json_int_t)c.test_runs,
        "cache_hits", (json_int_t)c.cache_hits);
    output_json(o, JSON_COMPACT | JSON_SORT_KEYS);
}

static void bench_stop(void *data)
{
    vector_cancel(data);
}

static int bench_prepare(struct bench *b, int cancel, struct error *err)
{
    const char *agent = b->options->agent ? b->options->agent : "solution";
    int r = gym_setup_open(b->options, cancel, &b->setup, err);
    if (r == 0 && task_actions(b->setup.task) == 0)
        r = error_set(err, EINVAL, "the task %s has no patches, so there is nothing to measure",
                      b->setup.task->name);
    if (r == 0 && strcmp(agent, "solution") == 0)
        r = bench_find_solution(b, err);
    if (r < 0)
        return r;
    b->players = calloc(b->envs, sizeof *b->players);
    bool memory = b->players;
    for (size_t i = 0; i < KINDS; i++)
        memory = (b->times[i].ns = calloc(BENCH_TIMES_MAX, sizeof(int64_t))) && memory;
    if (!memory)
        return error_set(err, ENOMEM, "no memory");
    b->before = bench_memory();
    r = vector_open(b->setup.arena, &(struct vector_options){.n = b->envs}, &b->vector, err);
    if (r < 0)
        return r;
    /* From here on a signal ends the steps that are under way. It may have come before. */
    interrupt_call(bench_stop, b->vector);
    return cancel_check(cancel, err);
}

static int gym_bench_run(const struct command *self, int argc, char **argv)
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
    struct bench b = {.options = &o,
                      .envs = (size_t)(o.envs ? o.envs : ENVS),
                      .episodes = o.episodes ? o.episodes : EPISODES};
    int cancel = interrupt_watch(&err);
    int r = cancel < 0 ? cancel : bench_prepare(&b, cancel, &err);
    if (r == 0)
        r = bench_play(&b, &err);
    if (r == 0)
        r = bench_weigh(&b, &err);
    if (r == 0 && o.json)
        bench_print_json(&b);
    else if (r == 0)
        bench_print_text(&b);
    interrupt_call(NULL, NULL);
    vector_close(b.vector);
    gym_setup_close(&b.setup);
    free(b.players);
    free(b.solution);
    for (size_t i = 0; i < KINDS; i++)
        free(b.times[i].ns);
    return r < 0 ? gym_failed(&err) : 0;
}

const struct command_body COMMAND_GYM_BENCH = {.usage = "[--task TASK] [--envs N] [OPTIONS]",
                                               .options = {{GYM_OPTIONS, FOR_BENCH}},
                                               .notes = "With --no-cache every test runs.",
                                               .run = gym_bench_run};
