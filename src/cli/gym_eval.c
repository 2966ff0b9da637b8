/* `hutch gym eval`: agents compared over tasks and seeds, as a table or as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gym.h"
#include "eval.h"
#include "import.h"
#include "train.h"
#include "banned.h"

#define AGENTS_MAX 16
#define SEEDS      10
#define EPISODES   2000
#define STAT_WIDTH 20

struct subjects {
    struct task_set tasks;
    const struct policy_kind *agents[AGENTS_MAX];
    size_t n_agents;
    bool learns, model;
};

static int eval_add_task(const struct gym_options *o, const char *name, int cancel,
                         struct task_set *set, struct error *err)
{
    _cleanup_task_ struct task *t = NULL;
    int r = gym_task(o, name, cancel, &t, err);
    if (r < 0)
        return r;
    struct task **items = reallocarray(set->items, set->count + 1, sizeof(struct task *));
    if (!items)
        return error_set(err, ENOMEM, "no memory");
    set->items = items;
    items[set->count++] = TAKE_PTR(t);
    return 0;
}

/* The tasks that --task names; else all of --from, or of the folder of tasks. */
static int eval_find_tasks(const struct gym_options *o, int cancel, struct task_set *set,
                           struct error *err)
{
    struct task_list names = {0};
    int r = 0;
    if (o->task && strcmp(o->task, "all") != 0) {
        _cleanup_free_ char *copy = strdup(o->task);
        char *rest = copy, *name;
        if (!copy)
            return error_set(err, ENOMEM, "no memory");
        while (r == 0 && (name = strsep(&rest, ",")))
            if (*name)
                r = eval_add_task(o, name, cancel, set, err);
    } else if (o->from) {
        r = gym_import(o, NULL, cancel, set, err);
    } else {
        r = task_names(o->tasks, &names, err);
        for (size_t i = 0; r == 0 && i < names.count; i++)
            r = eval_add_task(o, names.items[i], cancel, set, err);
        task_list_free(&names);
    }
    if (r == 0 && set->count == 0)
        r = error_set(err, ENOENT, "there are no tasks to play");
    return r;
}

static int eval_find_agents(const char *names, struct subjects *s, struct error *err)
{
    _cleanup_free_ char *copy = strdup(names);
    char *rest = copy, *name;
    if (!copy)
        return error_set(err, ENOMEM, "no memory");
    while ((name = strsep(&rest, ","))) {
        const struct policy_kind *k = policy_find(name, err);
        if (!k)
            return -EINVAL;
        if (strcmp(k->name, "replay") == 0 || s->n_agents == AGENTS_MAX)
            return error_set(err, EINVAL, "eval does not support the agent %s", k->name);
        s->agents[s->n_agents++] = k;
        s->learns |= k->learns;
        s->model |= strcmp(k->name, "model") == 0;
    }
    return 0;
}

static void eval_put_stat(const struct eval_stat *s, int digits, int width, bool interval)
{
    char text[64];
    if (s->n == 0)
        snprintf(text, sizeof text, "-");
    else if (!interval || s->high - s->low < 0.5 * pow(10, -digits))
        snprintf(text, sizeof text, "%.*f", digits, s->mean);
    else
        snprintf(text, sizeof text, "%.*f [%.*f, %.*f]", digits, s->mean, digits, s->low, digits,
                 s->high);
    printf("  %-*s", width, text);
}

/* On a narrow terminal only the return has its interval. */
static void eval_print_table(const struct eval_options *o, const struct eval_row *rows,
                             const struct subjects *s)
{
    int task_width = 4;
    uint64_t played = 0;
    for (size_t i = 0; i < o->n_tasks; i++) {
        int n = (int)strlen(o->tasks[i]->name);
        task_width = n > task_width ? n : task_width;
    }
    unsigned columns = columns_of(STDOUT_FILENO);
    bool narrow = columns && columns < (unsigned)task_width + 9 + 3 * (STAT_WIDTH + 2) + 16;
    int width = narrow ? (int)strlen("PASS RATE") : STAT_WIDTH;
    printf("%-*s  %-7s  %-*s  %-*s  %-*s  %s\n", task_width, "TASK", "AGENT", STAT_WIDTH, "RETURN",
           width, "PASS RATE", width, "SOLVED", "CALLS");
    for (size_t i = 0; i < eval_rows(o); i++) {
        const struct eval_row *row = &rows[i];
        char why[4 * sizeof row->why];
        printf("%-*s  %-7s", task_width, i % o->n_agents == 0 ? row->task : "", row->agent);
        eval_put_stat(&row->ret, 3, STAT_WIDTH, true);
        eval_put_stat(&row->pass_rate, 3, width, !narrow);
        eval_put_stat(&row->solved, 2, width, !narrow);
        eval_put_stat(&row->calls, 1, 0, !narrow);
        if (row->failed)
            printf("  %zu failed", row->failed);
        if (row->why[0])
            printf("  (%s)", say_clean(row->why, why, sizeof why));
        printf("\n");
        played += row->played;
    }
    printf("\nmeans over %" PRIu64 " seed%s, with 95 %% confidence intervals where they differ\n",
           o->seeds, o->seeds == 1 ? "" : "s");
    if (narrow)
        printf("a wider terminal shows the intervals of all columns, and so does --json\n");
    if (played)
        printf("qlearn was trained for %" PRIu64 " episodes per task and seed\n", o->episodes);
    else if (s->learns)
        printf("qlearn was not trained: it uses %s\n", o->policy.checkpoint);
}

static json_t *eval_stat_json(const struct eval_stat *s)
{
    return s->n ? json_pack("{s:f, s:f, s:f}", "mean", s->mean, "low", s->low, "high", s->high)
                : json_null();
}

static void eval_print_json(const struct eval_options *o, const struct eval_row *rows)
{
    json_t *list = json_array();
    for (size_t i = 0; i < eval_rows(o); i++) {
        const struct eval_row *r = &rows[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:s?}", "task", r->task,
                            "agent", r->agent, "episodes", (json_int_t)r->ret.n, "return",
                            eval_stat_json(&r->ret), "pass_rate", eval_stat_json(&r->pass_rate),
                            "solved", eval_stat_json(&r->solved), "calls",
                            eval_stat_json(&r->calls), "failed", (json_int_t)r->failed, "trained",
                            (json_int_t)r->played, "why", r->why[0] ? r->why : NULL));
    }
    output_json(list, JSON_INDENT(2));
}

static void eval_on_row(void *data, const struct eval_row *row)
{
    size_t *left = data;
    if (row->ret.n)
        say("%s, %s: return %.3f (%zu left)", row->task, row->agent, row->ret.mean, --*left);
    else
        say("%s, %s: not played (%zu left)", row->task, row->agent, --*left);
}

static int eval_run(const struct gym_options *o, struct subjects *s, struct error *err)
{
    struct settings *settings = NULL;
    struct eval_options e = {.agents = s->agents,
                             .n_agents = s->n_agents,
                             .seeds = o->seeds ? o->seeds : SEEDS,
                             .episodes = o->episodes ? o->episodes : EPISODES,
                             .arena = gym_arena_options(o),
                             .jobs = (size_t)o->jobs};
    size_t left, failed = 0;
    int cancel = interrupt_watch(err);
    int r = cancel < 0 ? cancel : eval_find_tasks(o, cancel, &s->tasks, err);
    if (r == 0)
        r = gym_policy_options(o, s->model, &e.policy, &settings, err);
    if (r < 0)
        return gym_failed(err);
    e.cancel = cancel;
    e.tasks = s->tasks.items;
    e.n_tasks = s->tasks.count;
    left = e.n_tasks * e.n_agents;
    if (!o->json && left > 1)
        e.done = eval_on_row;
    e.data = &left;
    _cleanup_free_ struct eval_row *rows = calloc(eval_rows(&e), sizeof *rows);
    r = rows ? eval(&e, rows, err) : error_set(err, ENOMEM, "no memory");
    if (r == 0 && o->json)
        eval_print_json(&e, rows);
    else if (r == 0)
        eval_print_table(&e, rows, s);
    for (size_t i = 0; r == 0 && i < e.n_tasks * e.n_agents; i++)
        failed += rows[i].failed;
    settings_free(settings);
    return r < 0 ? gym_failed(err) : failed ? 1 : 0;
}

static int gym_eval_run(const struct command *self, int argc, char **argv)
{
    struct gym_options o = GYM_OPTIONS_INIT;
    struct subjects s = {0};
    struct error err = {0};
    int n, status;
    if (!command_words(self, argc, argv, &o, 0, 0, &n, &status))
        return status;
    if (eval_find_agents(o.agent ? o.agent : "random,greedy,qlearn", &s, &err) < 0)
        return say_usage(&err);
    if (o.seeds > EVAL_SEEDS_MAX)
        error_set(&err, EINVAL, "--seeds: at most %u", EVAL_SEEDS_MAX);
    else if (o.episodes > TRAIN_EPISODES_MAX)
        error_set(&err, EINVAL, "--episodes: at most %u", TRAIN_EPISODES_MAX);
    else if (o.checkpoint && (!o.task || strchr(o.task, ',') || strcmp(o.task, "all") == 0))
        error_set(&err, EINVAL, "--checkpoint is for one task: name it with --task TASK");
    if (err.code)
        return say_usage(&err);
    status = eval_run(&o, &s, &err);
    task_set_free(&s.tasks);
    return status;
}

const struct command_body COMMAND_GYM_EVAL = {
    .usage = "[--task TASK,...] [--agents NAME,...] [OPTIONS]",
    .options = {{GYM_OPTIONS, FOR_EVAL}},
    .notes =
        "qlearn is trained first, once per seed, unless --checkpoint is given (for one task). The "
        "intervals are 95 % confidence intervals of the mean (bootstrap). The exit status is 0, 1 "
        "if an episode could not be played, 130 after Ctrl-C, 125 if something else failed.",
    .run = gym_eval_run};
