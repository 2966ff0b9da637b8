/* `hutch gym tasks`: which tasks there are, and whether they are in order. */
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "commands.h"
#include "gym_setup.h"
#include "import.h"
#include "interrupt.h"
#include "output.h"
#include "thread.h"
#include "banned.h"

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

#define JOBS_MAX 256

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
    struct tasks_check w = {
        .list = l, .options = {.cancel = cancel}, .show = !quiet && say_colours(STDERR_FILENO)};
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

#define SHOWN_MAX 2048

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

/* Tasks of others; with names, only those. */
static int tasks_load_imported(struct tasks_list *l, const struct gym_options *o,
                               char *const *names, int n, int cancel, struct error *err)
{
    struct task_set set = {0};
    struct import_options io = {.from = o->from,
                                .repos = o->repos,
                                .image = o->image,
                                .only = n == 1 ? names[0] : NULL,
                                .say = gym_say,
                                .cancel = cancel};
    int r = task_import(&io, &set, err);
    for (size_t i = 0; i < set.count && r == 0; i++) {
        bool wanted = n == 0;
        for (int k = 0; k < n && !wanted; k++)
            wanted = strcmp(names[k], set.items[i]->name) == 0;
        if (!wanted)
            continue;
        if (tasks_add_entry(l, set.items[i]->name, set.items[i]))
            set.items[i] = NULL;
        else
            r = error_set(err, ENOMEM, "no memory");
    }
    if (r == 0 && l->count == 0)
        r = error_set(err, ENOENT, "%s: none of its tasks can be played here", o->from);
    task_set_free(&set);
    return r;
}

static int tasks_load(struct tasks_list *l, const struct gym_options *o, char *const *names, int n,
                      int cancel, struct error *err)
{
    struct task_list all = {0};
    int r = 0;
    if (o->from)
        return tasks_load_imported(l, o, names, n, cancel, err);
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

int command_gym_tasks(const struct command *self, int argc, char **argv)
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
