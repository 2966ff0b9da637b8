#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

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
};

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
    struct desk_sink sink = {
        .redraws = true, .event = on_event, .anew = on_anew, .person = on_person, .data = w};
    int r = desk_new(o, &sink, &w->desk, err);
    if (r < 0) {
        free(w);
        return r;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->given, NULL);
    r = pthread_create(&w->thread, NULL, work, w);
    if (r != 0) {
        desk_free(w->desk);
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
