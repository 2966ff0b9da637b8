#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "thread.h"
#include "worker.h"
#include "banned.h"

struct worker {
    struct desk *desk;
    struct queue *queue;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct job job;
    bool has_job, ending;
    int decision; /* an eventfd: DECISION_NO or DECISION_YES, once the person answered */
};

enum { DECISION_NO = 1, DECISION_YES = 2 };

static void on_event(void *data, const struct agent_event *e, unsigned attempt)
{
    queue_event(((struct worker *)data)->queue, e, attempt);
}

static void on_anew(void *data)
{
    queue_anew(((struct worker *)data)->queue);
}

static void on_person(void *data, const char *words)
{
    queue_person(((struct worker *)data)->queue, words);
}

/* In the worker's thread: shows the question and waits for worker_decide(). */
static int on_confirm(void *data, const char *title, const char *text, int cancel)
{
    struct worker *w = data;
    eventfd_t answer = 0;
    _cleanup_free_ char *shown = NULL;
    if (asprintf(&shown, "%s\n%s Type y or n, and Enter.", text, title) < 0) {
        shown = NULL;
        return -ENOMEM;
    }
    eventfd_read(w->decision, &answer); /* one that came too late for the last question */
    queue_confirm(w->queue, shown);
    int r = cancel_wait(w->decision, POLLIN, -1, cancel);
    if (r < 0)
        return r;
    return eventfd_read(w->decision, &answer) == 0 && answer == DECISION_YES;
}

void worker_decide(struct worker *w, bool yes)
{
    eventfd_write(w->decision, yes ? DECISION_YES : DECISION_NO);
}

static void free_answer(void *data)
{
    answer_free(data);
    free(data);
}

static void do_job(struct worker *w, struct job *job)
{
    struct answer *a = malloc(sizeof *a);
    if (!a)
        abort(); /* whoever waits for the answer would wait for ever */
    desk_do(w->desk, job, a);
    queue_answer(w->queue, a, free_answer);
}

static void *work(void *data)
{
    struct worker *w = data;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        while (!w->has_job && !w->ending)
            pthread_cond_wait(&w->given, &w->lock);
        struct job job = w->job;
        bool ending = w->ending;
        w->job = (struct job){0};
        w->has_job = false;
        pthread_mutex_unlock(&w->lock);
        if (!ending)
            do_job(w, &job);
        job_free(&job);
        if (ending)
            return NULL;
    }
}

int worker_new(const struct tui_options *o, struct queue *q, struct worker **ret, struct error *err)
{
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return error_set(err, ENOMEM, "no memory");
    w->queue = q;
    struct desk_sink sink = {.redraws = true,
                             .event = on_event,
                             .anew = on_anew,
                             .person = on_person,
                             .confirm = on_confirm,
                             .data = w};
    w->decision = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->decision < 0) {
        free(w);
        return error_set(err, EMFILE, "cannot make a descriptor for events");
    }
    int r = desk_new(o, &sink, &w->desk, err);
    if (r < 0) {
        cleanup_close(&w->decision);
        free(w);
        return r;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->given, NULL);
    r = pthread_create(&w->thread, NULL, work, w);
    if (r != 0) {
        desk_free(w->desk);
        cleanup_close(&w->decision);
        free(w);
        return error_errno(err, r, "cannot start a thread");
    }
    *ret = w;
    return 0;
}

struct worker *worker_free(struct worker *w)
{
    if (!w)
        return NULL;
    queue_close(w->queue);
    desk_interrupt(w->desk);
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_signal(&w->given);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    desk_free(w->desk);
    pthread_cond_destroy(&w->given);
    pthread_mutex_destroy(&w->lock);
    cleanup_close(&w->decision);
    free(w);
    return NULL;
}

void worker_give(struct worker *w, struct job *job)
{
    pthread_mutex_lock(&w->lock);
    job_free(&w->job);
    w->job = *job;
    w->has_job = true;
    *job = (struct job){0};
    pthread_cond_signal(&w->given);
    pthread_mutex_unlock(&w->lock);
}

void worker_interrupt(struct worker *w)
{
    desk_interrupt(w->desk);
}
