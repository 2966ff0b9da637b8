/* What the commands of `hutch gym` share, and `hutch gym tasks`: which tasks there are, and whether
 * they are correct. */
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "task_check.h"
#include "gym.h"
#include "import.h"
#include "thread.h"
#include "options.h"
#include "banned.h"

#define JOBS_MAX  256
#define SHOWN_MAX 2048

#define AT(member) offsetof(struct gym_options, member)

static int gym_parse_seed(void *target, const struct option *self, const char *value,
                          struct error *err)
{
    struct gym_options *o = target;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end)
        return error_set(err, EINVAL, "'%s' is not a whole number", value);
    if (errno || n > INT64_MAX)
        return error_set(err, EINVAL, "'%s' is too large", value);
    o->seed = n;
    o->has_seed = true;
    return 0;
}

static int gym_parse_clock(void *target, const struct option *self, const char *value,
                           struct error *err)
{
    struct gym_options *o = target;
    if (strcmp(value, "wall") != 0 && strcmp(value, "virtual") != 0)
        return error_set(err, EINVAL, "'%s' is not wall or virtual", value);
    o->virtual_clock = *value == 'v';
    o->has_clock = true;
    return 0;
}

static int gym_parse_share(void *target, const struct option *self, const char *value,
                           struct error *err)
{
    double n;
    if (units_parse_decimal(value, &n) < 0 || n > 1)
        return error_set(err, EINVAL, "'%s' is not a number from 0 to 1", value);
    double *field = (void *)((char *)target + self->field);
    *field = n;
    return 0;
}

#define PLAY (FOR_EPISODE | FOR_TRAIN | FOR_EVAL | FOR_BENCH)
#define ALL  (FOR_TASKS | PLAY)

/* clang-format off */
#define STRING(name, arg, member, where, fallback, help)                                           \
    {name, 0, arg, help, fallback, where, AT(member), option_parse_string}
#define COUNT(name, arg, member, where, fallback, help)                                            \
    {name, 0, arg, help, fallback, where, AT(member), option_parse_count}
#define FLAG(name, member, where, help)                                                            \
    {name, 0, NULL, help, NULL, where, AT(member), option_parse_flag}
/* clang-format on */

const struct option GYM_OPTIONS[] = {
    STRING("task", "TASK", task, FOR_EPISODE | FOR_TRAIN, NULL,
           "task name, or path of a task folder"),
    STRING("task", "TASK", task, FOR_BENCH, "bugfix_1", "task name, or path of a task folder"),
    STRING("task", "TASK[,TASK...]", task, FOR_EVAL, "all", "tasks to play"),
    STRING("agent", "random|greedy|qlearn|search|model|replay", agent, FOR_EPISODE, "random",
           "agent that acts"),
    STRING("agent", "qlearn", agent, FOR_TRAIN, "qlearn", "agent that learns"),
    STRING("agent", "random|solution", agent, FOR_BENCH, "solution",
           "agent that acts; solution applies the task's own patches"),
    STRING("agents", "NAME[,NAME...]", agent, FOR_EVAL, "random,greedy,qlearn",
           "agents to compare: random, greedy, qlearn, search, model"),
    {"seed", 0, "N", "seed of the agent's random numbers", "the task's",
     FOR_EPISODE | FOR_TRAIN | FOR_BENCH, AT(seed), gym_parse_seed},
    COUNT("seeds", "N", seeds, FOR_EVAL, "10",
          "play one episode per agent and task with each of the seeds 1 to N"),
    COUNT("episodes", "N", episodes, FOR_TRAIN, "2000",
          "episodes to play, including those before --resume"),
    COUNT("episodes", "N", episodes, FOR_EVAL, "2000",
          "training episodes per seed, for agents that learn"),
    COUNT("episodes", "N", episodes, FOR_BENCH, "1000", "episodes to play"),
    COUNT("envs", "N", envs, FOR_BENCH, "8", "environments in parallel"),
    {"epsilon-start", 0, "F", "exploration rate at the start", "1", FOR_TRAIN, AT(epsilon_start),
     gym_parse_share},
    {"epsilon-end", 0, "F", "exploration rate at the end", "0.05", FOR_TRAIN, AT(epsilon_end),
     gym_parse_share},
    COUNT("epsilon-decay", "N", epsilon_decay, FOR_TRAIN, "1500",
          "episodes over which the exploration rate falls"),
    {"alpha", 0, "F", "learning rate", "1", FOR_TRAIN, AT(alpha), gym_parse_share},
    {"gamma", 0, "F", "discount factor", "1", FOR_TRAIN, AT(gamma), gym_parse_share},
    STRING("out", "DIR", out, FOR_TRAIN, "hutch-train/TASK-SEED",
           "write checkpoint.json, episodes.csv and curve.svg to this folder"),
    FLAG("resume", resume, FOR_TRAIN, "continue from the checkpoint in the output folder"),
    STRING("checkpoint", "FILE", checkpoint, FOR_EPISODE | FOR_EVAL, NULL,
           "qlearn: checkpoint of a training run"),
    STRING("model", "PROVIDER/NAME", model, FOR_EPISODE | FOR_EVAL, "as configured",
           "model: the model to use"),
    FLAG("trust", trust, FOR_EPISODE | FOR_EVAL,
         "trust the current folder's .env and .hutch/config.json for this run"),
    STRING("trajectory", "FILE", trajectory, FOR_EPISODE, NULL, "replay: recorded trajectory"),
    STRING("record", "FILE", record, FOR_EPISODE, NULL, "write the trajectory to this file"),
    {"clock", 0, "wall|virtual", "measure real time, or a fixed time per action", "wall", PLAY, 0,
     gym_parse_clock},
    COUNT("max-steps", "N", max_steps, PLAY, "the task's", "truncate an episode after N steps"),
    FLAG("no-cache", no_cache, PLAY, "run every action, even if its result is known"),
    FLAG("no-check", no_check, FOR_TASKS, "list the tasks without checking them"),
    COUNT("jobs", "N", jobs, FOR_TASKS | FOR_EVAL, "number of processors", "tasks in parallel"),
    STRING("tasks", "DIR", tasks, ALL, "hutch's own", "folder of tasks"),
    STRING("from", "KIND:WHERE", from, ALL, NULL,
           "import tasks: quixbugs:DIR, swebench:FILE, harbor:DIR"),
    STRING("repos", "DIR", repos, ALL, NULL, "swebench: folder of the repositories"),
    STRING("image", "NAME|DIR", image, ALL, NULL,
           "harbor: root filesystem, or a folder with one per task"),
    FLAG("json", json, ALL, "print JSON"),
    {0},
};

bool gym_replays(const struct gym_options *o)
{
    return o->trajectory && o->agent && strcmp(o->agent, "replay") == 0;
}

bool gym_words(const struct command *self, int argc, char **argv, struct gym_options *o,
               int *ret_status)
{
    int n;
    if (!command_words(self, argc, argv, o, 0, 0, &n, ret_status))
        return false;
    if (o->task || o->from || gym_replays(o))
        return true;
    say("no task: name one with --task TASK; 'hutch gym tasks' lists them");
    *ret_status = EXIT_USAGE;
    return false;
}

static void gym_on_import_note(void *data, const char *text)
{
    say("%s", text);
}

/* Another limit makes another task of it: its digest changes. */
static int gym_limit_steps(const struct gym_options *o, struct task *t, struct error *err)
{
    if (!o->max_steps)
        return 0;
    t->max_steps = (unsigned)o->max_steps;
    return task_finish(t, err);
}

int gym_import(const struct gym_options *o, const char *only, int cancel, struct task_set *ret,
               struct error *err)
{
    struct import_options io = {.from = o->from,
                                .repos = o->repos,
                                .image = o->image,
                                .only = only,
                                .say = gym_on_import_note,
                                .cancel = cancel};
    int r = task_import(&io, ret, err);
    for (size_t i = 0; r == 0 && i < ret->count; i++)
        r = gym_limit_steps(o, ret->items[i], err);
    return r;
}

int gym_task(const struct gym_options *o, const char *name, int cancel, struct task **ret,
             struct error *err)
{
    _cleanup_task_ struct task *t = NULL;
    struct task_set set = {0};
    int r;
    if (o->from) {
        r = gym_import(o, name, cancel, &set, err);
        if (r == 0 && set.count == 1)
            t = TAKE_PTR(set.items[0]);
        else if (r == 0 && name)
            r = error_set(err, ENOENT,
                          "there is no task %.100s in %s; 'hutch gym tasks --from %s' lists them",
                          name, o->from, o->from);
        else if (r == 0)
            r = error_set(err, EINVAL, "there are %zu tasks in %s: name one with --task TASK",
                          set.count, o->from);
        task_set_free(&set);
    } else {
        r = task_find(o->tasks, name, &t, err);
        if (r == 0)
            r = gym_limit_steps(o, t, err);
    }
    if (r == 0)
        *ret = TAKE_PTR(t);
    return r;
}

struct arena_options gym_arena_options(const struct gym_options *o)
{
    return (struct arena_options){.no_cache = o->no_cache,
                                  .clock = o->virtual_clock ? CLOCK_VIRTUAL : CLOCK_WALL};
}

int gym_setup_open(const struct gym_options *o, int cancel, struct gym_setup *ret,
                   struct error *err)
{
    struct gym_setup p = {0};
    struct arena_options with = gym_arena_options(o);
    int r = gym_task(o, o->task, cancel, &p.task, err);
    if (r == 0)
        r = arena_open(p.task, &with, cancel, &p.arena, err);
    if (r == 0)
        r = env_open(p.arena, &p.env, err);
    if (r < 0) {
        gym_setup_close(&p);
        return r;
    }
    env_cancel_on(p.env, cancel);
    *ret = p;
    return 0;
}

void gym_setup_close(struct gym_setup *p)
{
    env_close(p->env);
    arena_close(p->arena);
    task_free(p->task);
    *p = (struct gym_setup){0};
}

int gym_policy_options(const struct gym_options *o, bool model, struct policy_options *ret,
                       struct settings **ret_settings, struct error *err)
{
    struct settings *settings = NULL;
    size_t i;
    json_t *note;
    int r = model ? settings_read(".", NULL, o->trust, &settings, err) : 0;
    if (r < 0)
        return r;
    if (settings)
        json_array_foreach((json_t *)settings_notes(settings), i, note)
            say("%s", json_string_value(note));
    *ret_settings = settings;
    *ret = (struct policy_options){.seed = o->seed,
                                   .model = o->model,
                                   .settings = settings,
                                   .trajectory = o->trajectory,
                                   .checkpoint = o->checkpoint,
                                   .epsilon_start = o->epsilon_start,
                                   .epsilon_end = o->epsilon_end,
                                   .epsilon_decay = o->epsilon_decay,
                                   .alpha = o->alpha,
                                   .gamma = o->gamma};
    return 0;
}

int gym_failed(const struct error *err)
{
    if (interrupt_signal())
        return 128 + interrupt_signal();
    say_lines(err->text);
    return EXIT_HUTCH;
}

/* hutch gym tasks */

struct tasks_entry {
    struct task *task; /* NULL: it could not be loaded, see result.findings */
    char name[TASK_NAME_MAX];
    struct check_result result;
    bool checked;
};

struct tasks_list {
    struct tasks_entry *items;
    size_t count;
};

struct tasks_check {
    struct tasks_list *list;
    struct check_options options;
    pthread_mutex_t lock;
    size_t next, done;
    bool show;
    struct error err; /* the first that is no finding */
};

static void *tasks_check_thread(void *data)
{
    struct tasks_check *w = data;
    pthread_mutex_lock(&w->lock);
    while (w->next < w->list->count && w->err.code == 0) {
        struct tasks_entry *e = &w->list->items[w->next++];
        struct error err = {0};
        if (e->task) {
            if (w->show)
                fprintf(stderr, "\r\033[Kchecking %zu of %zu  %s",
                        w->done < w->list->count ? w->done + 1 : w->done, w->list->count, e->name);
            pthread_mutex_unlock(&w->lock);
            int r = task_check(e->task, &w->options, &e->result, &err);
            pthread_mutex_lock(&w->lock);
            e->checked = r == 0;
            if (r < 0 && w->err.code == 0) {
                error_set(&w->err, -r, "%s", err.text);
                error_wrap(&w->err, "%s", e->name);
            }
        }
        w->done++;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Checks all tasks, `jobs` in parallel (0: as many as processors), with a line of progress on
 * stderr if that is a terminal. -ECANCELED: cancel became readable. */
static int tasks_check(struct tasks_list *l, size_t jobs, int cancel, bool quiet, struct error *err)
{
    struct tasks_check w = {.list = l,
                            .options = {.cancel = cancel},
                            .show = !quiet && *say_colour(STDERR_FILENO, " ")};
    pthread_t threads[JOBS_MAX];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = jobs ? jobs : processors > 0 ? (size_t)processors : 1, started = 0;
    n = n < JOBS_MAX ? n : JOBS_MAX;
    n = n < l->count ? n : l->count;
    pthread_mutex_init(&w.lock, NULL);
    while (started < n && thread_start(&threads[started], NULL, tasks_check_thread, &w) == 0)
        started++;
    if (started == 0)
        tasks_check_thread(&w);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&w.lock);
    if (w.show)
        fprintf(stderr, "\r\033[K");
    if (w.err.code == 0)
        return 0;
    *err = w.err;
    return -w.err.code;
}

static void tasks_free_list(struct tasks_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        task_free(l->items[i].task);
        check_result_free(&l->items[i].result);
    }
    free(l->items);
}

static struct tasks_entry *tasks_add_entry(struct tasks_list *l, const char *name, struct task *t)
{
    struct tasks_entry *items = reallocarray(l->items, l->count + 1, sizeof *items);
    if (!items)
        return NULL;
    l->items = items;
    struct tasks_entry *e = &items[l->count++];
    *e = (struct tasks_entry){.task = t};
    snprintf(e->name, sizeof e->name, "%s", name);
    return e;
}

/* A task of ours by name or path; one that cannot be loaded is in the list with the reason. */
static int tasks_add_named(struct tasks_list *l, const char *tasks, const char *name,
                           struct error *err)
{
    struct task *t = NULL;
    struct error why = {0};
    int r = task_find(tasks, name, &t, &why);
    if (r == -ENOENT && why.code) {
        *err = why;
        return r;
    }
    struct tasks_entry *e = tasks_add_entry(l, t ? t->name : name, t);
    if (!e || (r < 0 && task_list_add(&e->result.findings, why.text) < 0)) {
        if (!e)
            task_free(t);
        return error_set(err, ENOMEM, "no memory");
    }
    return 0;
}

static int tasks_load(struct tasks_list *l, const struct gym_options *o, char *const *names, int n,
                      int cancel, struct error *err)
{
    struct task_list all = {0};
    struct task_set set = {0};
    int r = 0;
    if (o->from) { /* tasks of others; with names, only those */
        r = gym_import(o, n == 1 ? names[0] : NULL, cancel, &set, err);
        for (size_t i = 0; i < set.count && r == 0; i++) {
            bool wanted = n == 0;
            for (int k = 0; k < n && !wanted; k++)
                wanted = strcmp(names[k], set.items[i]->name) == 0;
            if (wanted && tasks_add_entry(l, set.items[i]->name, set.items[i]))
                set.items[i] = NULL;
            else if (wanted)
                r = error_set(err, ENOMEM, "no memory");
        }
        if (r == 0 && l->count == 0)
            r = error_set(err, ENOENT, "%s: none of its tasks can be played here", o->from);
        task_set_free(&set);
        return r;
    }
    for (int i = 0; i < n && r == 0; i++)
        r = tasks_add_named(l, o->tasks, names[i], err);
    if (n > 0)
        return r;
    r = task_names(o->tasks, &all, err);
    for (size_t i = 0; i < all.count && r == 0; i++)
        r = tasks_add_named(l, o->tasks, all.items[i], err);
    if (r == 0 && all.count == 0)
        r = error_set(err, ENOENT, "%s: there are no tasks in this folder",
                      o->tasks ? o->tasks : "the folder of tasks");
    task_list_free(&all);
    return r;
}

static json_t *tasks_list_json(const struct task_list *l)
{
    json_t *a = json_array();
    for (size_t i = 0; i < l->count; i++) {
        json_t *text = json_string(l->items[i]);
        json_array_append_new(a, text ? text : json_string("(not UTF-8)"));
    }
    return a;
}

static json_t *tasks_entry_json(const struct tasks_entry *e)
{
    const struct task *t = e->task;
    json_t *o = json_pack("{s:s}", "name", e->name);
    if (t) {
        size_t tests = e->checked ? e->result.expected : t->tests.expected.count;
        json_t *more = json_pack(
            "{s:s, s:s, s:I, s:o, s:o, s:I, s:I, s:I, s:s, s:s}", "title", t->title, "language",
            t->language, "patches", (json_int_t)t->n_patches, "solution",
            tasks_list_json(&t->solution), "tests",
            tests ? json_integer((json_int_t)tests) : json_null(), "hidden",
            (json_int_t)t->hidden.count, "actions", (json_int_t)task_actions(t), "steps",
            (json_int_t)t->max_steps, "digest", t->digest, "origin", t->origin ? t->origin : "");
        json_object_update(o, more);
        json_decref(more);
    }
    if (e->checked || !t) {
        json_object_set_new(o, "valid", json_boolean(e->result.findings.count == 0));
        json_object_set_new(o, "findings", tasks_list_json(&e->result.findings));
        json_object_set_new(o, "notes", tasks_list_json(&e->result.notes));
    }
    if (e->checked) {
        json_object_set_new(o, "runs", json_integer((json_int_t)e->result.runs));
        json_object_set_new(o, "seconds", json_real((double)e->result.duration_ns / 1e9));
    }
    return o;
}

static void tasks_print_lines(const struct task_list *l, const char *before)
{
    char text[SHOWN_MAX];
    for (size_t i = 0; i < l->count; i++)
        printf("    %s%s\n", before, say_clean(l->items[i], text, sizeof text));
}

static void tasks_print_table(const struct tasks_list *l, bool checked)
{
    int width = 4;
    for (size_t i = 0; i < l->count; i++) {
        int n = (int)strlen(l->items[i].name);
        width = n > width ? n : width;
    }
    printf("%s%-*s  %-11s %7s  %5s  %s\n", checked ? "       " : "", width, "NAME", "LANGUAGE",
           "PATCHES", "TESTS", "TITLE");
    for (size_t i = 0; i < l->count; i++) {
        const struct tasks_entry *e = &l->items[i];
        const struct task *t = e->task;
        char title[SHOWN_MAX], name[4 * TASK_NAME_MAX], tests[32] = "?";
        size_t expected = !t ? 0 : e->checked ? e->result.expected : t->tests.expected.count;
        const char *state = !e->checked && t           ? ""
                            : e->result.findings.count ? "wrong  "
                                                       : "ok     ";
        if (expected)
            snprintf(tests, sizeof tests, "%zu", expected);
        say_clean(e->name, name, sizeof name);
        if (!t)
            printf("%s%s\n", state, name);
        else
            printf("%s%-*s  %-11s %7zu  %5s  %s\n", state, width, name, t->language, t->n_patches,
                   tests, say_clean(t->title, title, sizeof title));
        tasks_print_lines(&e->result.findings, "");
        tasks_print_lines(&e->result.notes, "note: ");
    }
}

static int gym_tasks_run(const struct command *self, int argc, char **argv)
{
    struct gym_options o = GYM_OPTIONS_INIT;
    struct error err = {0};
    int n_words, status;
    if (!command_words(self, argc, argv, &o, 0, -1, &n_words, &status))
        return status;
    _cleanup_(tasks_free_list) struct tasks_list l = {0};
    int cancel = interrupt_watch(&err);
    if (cancel < 0 || tasks_load(&l, &o, argv, n_words, cancel, &err) < 0)
        return gym_failed(&err);
    if (!o.no_check && tasks_check(&l, (size_t)o.jobs, cancel, o.json, &err) < 0)
        return gym_failed(&err);
    json_t *all = o.json ? json_array() : NULL;
    size_t wrong = 0;
    for (size_t i = 0; i < l.count; i++) {
        wrong += l.items[i].result.findings.count > 0;
        if (o.json)
            json_array_append_new(all, tasks_entry_json(&l.items[i]));
    }
    if (o.json)
        output_json(all, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    else
        tasks_print_table(&l, !o.no_check);
    output_flush(); /* before messages on stderr */
    if (wrong)
        say("%zu of %zu task%s not correct", wrong, l.count,
            wrong == 1 && l.count == 1 ? " is" : "s are");
    return wrong ? 1 : 0;
}

const struct command_body COMMAND_GYM_TASKS = {
    .usage = "[OPTIONS] [TASK...]",
    .options = {{GYM_OPTIONS, FOR_TASKS}},
    .notes =
        "A task is correct if its tests pass with the whole solution, and fail with the original, "
        "with parts of the solution and with the other patches. The exit status is 1 if a task is "
        "not.",
    .run = gym_tasks_run};
