/* The checks of `hutch gym tasks`: several at once, each on a thread of its own. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gym_tasks.h"
#include "say.h"
#include "thread.h"
#include "banned.h"

#define JOBS_MAX 256

struct work {
    struct tasks_list *list;
    struct check_options options;
    pthread_mutex_t lock;
    size_t next, done;
    bool show;
    struct error err; /* the first that is no finding */
};

/* With the lock held. */
static void show(const struct work *w, const char *name)
{
    if (w->show)
        fprintf(stderr, "\r\033[Kchecking %zu of %zu  %s",
                w->done < w->list->count ? w->done + 1 : w->done, w->list->count, name);
}

static struct tasks_entry *take(struct work *w)
{
    struct tasks_entry *e = NULL;
    pthread_mutex_lock(&w->lock);
    while (w->next < w->list->count && !e && w->err.code == 0) {
        e = &w->list->items[w->next++];
        if (!e->task) {
            w->done++;
            e = NULL;
        }
    }
    if (e)
        show(w, e->name);
    pthread_mutex_unlock(&w->lock);
    return e;
}

static void *run(void *data)
{
    struct work *w = data;
    for (struct tasks_entry *e; (e = take(w));) {
        struct error err = {0};
        int r = task_check(e->task, &w->options, &e->result, &err);
        pthread_mutex_lock(&w->lock);
        e->checked = r == 0;
        if (r < 0 && w->err.code == 0) {
            error_set(&w->err, -r, "%s", err.text);
            error_wrap(&w->err, "%s", e->name);
        }
        w->done++;
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

static size_t choose_jobs(size_t wanted, size_t tasks)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = wanted ? wanted : processors > 0 ? (size_t)processors : 1;
    n = n < JOBS_MAX ? n : JOBS_MAX;
    return n < tasks ? n : tasks;
}

int tasks_check(struct tasks_list *l, size_t jobs, int cancel, bool quiet, struct error *err)
{
    struct work w = {
        .list = l, .options = {.cancel = cancel}, .show = !quiet && say_colours(STDERR_FILENO)};
    pthread_t threads[JOBS_MAX];
    size_t n = choose_jobs(jobs, l->count), started = 0;
    pthread_mutex_init(&w.lock, NULL);
    while (started < n && thread_start(&threads[started], NULL, run, &w) == 0)
        started++;
    if (started == 0)
        run(&w);
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
