/* `hutch gym eval`: agents compared over tasks and seeds, as a table or as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "commands.h"
#include "eval.h"
#include "gym_setup.h"
#include "import.h"
#include "interrupt.h"
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

static int eval_add_task(struct task_set *set, struct task *t)
{
    struct task **items = reallocarray(set->items, set->count + 1, sizeof(struct task *));
    if (!items) {
        task_free(t);
        return -ENOMEM;
    }
    set->items = items;
    items[set->count++] = t;
    return 0;
}

static int eval_add_named(const struct gym_options *o, const char *name, int cancel,
                          struct task_set *set, struct error *err)
{
    struct task *t = NULL;
    int r = gym_task(o, name, cancel, &t, err);
    if (r == 0 && eval_add_task(set, t) < 0)
        r = error_set(err, ENOMEM, "no memory");
    return r;
}

static int eval_add_list(const struct gym_options *o, const char *names, int cancel,
                         struct task_set *set, struct error *err)
{
    _cleanup_free_ char *copy = strdup(names);
    char *rest = copy, *name;
    int r = copy ? 0 : error_set(err, ENOMEM, "no memory");
    while (r == 0 && (name = strsep(&rest, ",")))
        if (*name)
            r = eval_add_named(o, name, cancel, set, err);
    return r;
}

static int eval_add_all(const struct gym_options *o, int cancel, struct task_set *set,
                        struct error *err)
{
    struct task_list names = {0};
    if (o->from) {
        struct import_options io = {.from = o->from,
                                    .repos = o->repos,
                                    .image = o->image,
                                    .say = gym_say,
                                    .cancel = cancel};
        int r = task_import(&io, set, err);
        for (size_t i = 0; r == 0 && i < set->count; i++)
            r = gym_task_limit(o, set->items[i], err);
        return r;
    }
    int r = task_names(o->tasks, &names, err);
    for (size_t i = 0; r == 0 && i < names.count; i++)
        r = eval_add_named(o, names.items[i], cancel, set, err);
    task_list_free(&names);
    return r;
}

static int eval_find_tasks(const struct gym_options *o, int cancel, struct task_set *set,
                           struct error *err)
{
    bool all = !o->task || strcmp(o->task, "all") == 0;
    int r = all ? eval_add_all(o, cancel, set, err) : eval_add_list(o, o->task, cancel, set, err);
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

/* On a narrow terminal only the return has its interval. */
struct layout {
    int task, other; /* widths */
    bool narrow;
};

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

static void eval_print_row(const struct eval_row *row, const struct layout *l, bool first)
{
    printf("%-*s  %-7s", l->task, first ? row->task : "", row->agent);
    eval_put_stat(&row->ret, 3, STAT_WIDTH, true);
    eval_put_stat(&row->pass_rate, 3, l->other, !l->narrow);
    eval_put_stat(&row->solved, 2, l->other, !l->narrow);
    eval_put_stat(&row->calls, 1, 0, !l->narrow);
    if (row->failed)
        printf("  %zu failed", row->failed);
    if (row->why[0]) {
        char why[4 * sizeof row->why];
        printf("  (%s)", say_clean(row->why, why, sizeof why));
    }
    printf("\n");
}

static struct layout eval_lay_out(const struct eval_options *o)
{
    struct layout l = {.task = 4};
    for (size_t i = 0; i < o->n_tasks; i++) {
        int n = (int)strlen(o->tasks[i]->name);
        l.task = n > l.task ? n : l.task;
    }
    unsigned columns = columns_of(STDOUT_FILENO);
    l.narrow = columns && columns < (unsigned)l.task + 9 + 3 * (STAT_WIDTH + 2) + 16;
    l.other = l.narrow ? (int)strlen("PASS RATE") : STAT_WIDTH;
    return l;
}

static void eval_print_table(const struct eval_options *o, const struct eval_row *rows,
                             const struct subjects *s)
{
    struct layout l = eval_lay_out(o);
    uint64_t played = 0;
    printf("%-*s  %-7s  %-*s  %-*s  %-*s  %s\n", l.task, "TASK", "AGENT", STAT_WIDTH, "RETURN",
           l.other, "PASS RATE", l.other, "SOLVED", "CALLS");
    for (size_t i = 0; i < eval_rows(o); i++) {
        eval_print_row(&rows[i], &l, i % o->n_agents == 0);
        played += rows[i].played;
    }
    printf("\nmeans over %" PRIu64 " seed%s, with 95 %% confidence intervals where they differ\n",
           o->seeds, o->seeds == 1 ? "" : "s");
    if (l.narrow)
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

static json_t *eval_row_json(const struct eval_row *r)
{
    return json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:s?}", "task", r->task,
                     "agent", r->agent, "episodes", (json_int_t)r->ret.n, "return",
                     eval_stat_json(&r->ret), "pass_rate", eval_stat_json(&r->pass_rate), "solved",
                     eval_stat_json(&r->solved), "calls", eval_stat_json(&r->calls), "failed",
                     (json_int_t)r->failed, "trained", (json_int_t)r->played, "why",
                     r->why[0] ? r->why : NULL);
}

static void eval_print_json(const struct eval_options *o, const struct eval_row *rows)
{
    json_t *list = json_array();
    for (size_t i = 0; i < eval_rows(o); i++)
        json_array_append_new(list, eval_row_json(&rows[i]));
    output_json(list, JSON_INDENT(2));
}

static void eval_tell_row(void *data, const struct eval_row *row)
{
    size_t *left = data;
    if (row->ret.n)
        say("%s, %s: return %.3f (%zu left)", row->task, row->agent, row->ret.mean, --*left);
    else
        say("%s, %s: not played (%zu left)", row->task, row->agent, --*left);
}

static int eval_compare(const struct eval_options *o, const struct gym_options *given,
                        const struct subjects *s, struct error *err)
{
    _cleanup_free_ struct eval_row *rows = calloc(eval_rows(o), sizeof *rows);
    size_t failed = 0;
    if (!rows) {
        say("no memory");
        return EXIT_HUTCH;
    }
    int r = eval(o, rows, err);
    if (r < 0)
        return gym_failed(err);
    if (given->json)
        eval_print_json(o, rows);
    else
        eval_print_table(o, rows, s);
    for (size_t i = 0; i < o->n_tasks * o->n_agents; i++)
        failed += rows[i].failed;
    return failed ? 1 : 0;
}

static int eval_check_options(const struct gym_options *o, const struct subjects *s,
                              struct error *err)
{
    if (o->seeds > EVAL_SEEDS_MAX)
        return error_set(err, EINVAL, "--seeds: at most %u", EVAL_SEEDS_MAX);
    if (o->episodes > TRAIN_EPISODES_MAX)
        return error_set(err, EINVAL, "--episodes: at most %u", TRAIN_EPISODES_MAX);
    if (o->checkpoint && (!o->task || strchr(o->task, ',') || strcmp(o->task, "all") == 0))
        return error_set(err, EINVAL, "--checkpoint is for one task: name it with --task TASK");
    return 0;
}

static int eval_command(const struct gym_options *o, struct subjects *s, struct error *err)
{
    struct settings *settings = NULL;
    struct eval_options e = {.agents = s->agents,
                             .n_agents = s->n_agents,
                             .seeds = o->seeds ? o->seeds : SEEDS,
                             .episodes = o->episodes ? o->episodes : EPISODES,
                             .arena = gym_arena_options(o),
                             .jobs = (size_t)o->jobs};
    int cancel = interrupt_watch(err);
    int r = cancel < 0 ? cancel : eval_find_tasks(o, cancel, &s->tasks, err);
    if (r == 0)
        r = gym_policy_options(o, s->model, &e.policy, &settings, err);
    if (r < 0)
        return gym_failed(err);
    e.cancel = cancel;
    e.tasks = s->tasks.items;
    e.n_tasks = s->tasks.count;
    size_t left = e.n_tasks * e.n_agents;
    if (!o->json && left > 1)
        e.done = eval_tell_row;
    e.data = &left;
    int status = eval_compare(&e, o, s, err);
    settings_free(settings);
    return status;
}

int command_gym_eval(const struct command *self, int argc, char **argv)
{
    struct gym_options o = GYM_OPTIONS_INIT;
    struct subjects s = {0};
    struct error err = {0};
    int n, status;
    if (!command_words(self, argc, argv, &o, 0, 0, &n, &status))
        return status;
    if (eval_find_agents(o.agent ? o.agent : "random,greedy,qlearn", &s, &err) < 0 ||
        eval_check_options(&o, &s, &err) < 0)
        return say_usage(&err);
    status = eval_command(&o, &s, &err);
    task_set_free(&s.tasks);
    return status;
}
