#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "thread.h"
#include "worker.h"
#include "banned.h"

struct worker {
    struct conversation *conversation;
    struct update_queue *queue;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct chat_entry entry;
    bool has_entry, ending;
    int decision; /* eventfd: DECISION_NO or DECISION_YES, once the user answered */
};

enum { DECISION_NO = 1, DECISION_YES = 2 };

static void on_event(void *data, const struct agent_event *e, unsigned attempt)
{
    update_queue_event(((struct worker *)data)->queue, e, attempt);
}

static void on_reset(void *data)
{
    update_queue_text(((struct worker *)data)->queue, UPDATE_RESET, NULL);
}

static void on_user(void *data, const char *message)
{
    update_queue_text(((struct worker *)data)->queue, UPDATE_USER, message);
}

/* Shows the question and waits for worker_decide(). */
static int on_confirm(void *data, const char *title, const char *text, int cancel)
{
    struct worker *w = data;
    eventfd_t answer = 0;
    _cleanup_free_ char *shown = NULL;
    if (asprintf(&shown, "%s\n%s Type y or n and press Enter.", text, title) < 0) {
        shown = NULL;
        return -ENOMEM;
    }
    eventfd_read(w->decision, &answer); /* drop one that came too late for the last question */
    update_queue_text(w->queue, UPDATE_CONFIRM, shown);
    int r = cancel_wait(w->decision, POLLIN, -1, cancel);
    if (r < 0)
        return r;
    return eventfd_read(w->decision, &answer) == 0 && answer == DECISION_YES;
}

void worker_decide(struct worker *w, bool yes)
{
    eventfd_write(w->decision, yes ? DECISION_YES : DECISION_NO);
}

static void result_free(void *data)
{
    chat_result_free(data);
    free(data);
}

static void *worker_thread(void *data)
{
    struct worker *w = data;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        while (!w->has_entry && !w->ending)
            pthread_cond_wait(&w->wake, &w->lock);
        struct chat_entry entry = w->entry;
        bool ending = w->ending;
        w->entry = (struct chat_entry){0};
        w->has_entry = false;
        pthread_mutex_unlock(&w->lock);
        if (!ending) {
            struct chat_result *result = malloc(sizeof *result);
            if (!result)
                abort(); /* the chat would wait for the result for ever */
            conversation_run(w->conversation, &entry, result);
            update_queue_result(w->queue, result, result_free);
        }
        chat_entry_free(&entry);
        if (ending)
            return NULL;
    }
}

int worker_new(const struct tui_options *o, struct update_queue *q, struct worker **ret,
               struct error *err)
{
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return error_set(err, ENOMEM, "no memory");
    w->queue = q;
    struct conversation_sink sink = {.redraws = true,
                                     .event = on_event,
                                     .reset = on_reset,
                                     .user = on_user,
                                     .confirm = on_confirm,
                                     .data = w};
    w->decision = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->decision < 0) {
        free(w);
        return error_set(err, EMFILE, "cannot create an eventfd");
    }
    int r = conversation_new(o, &sink, &w->conversation, err);
    if (r < 0) {
        cleanup_close(&w->decision);
        free(w);
        return r;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    r = pthread_create(&w->thread, NULL, worker_thread, w);
    if (r != 0) {
        conversation_free(w->conversation);
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
    update_queue_close(w->queue);
    conversation_interrupt(w->conversation);
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    conversation_free(w->conversation);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    cleanup_close(&w->decision);
    free(w);
    return NULL;
}

void worker_run(struct worker *w, struct chat_entry *entry)
{
    pthread_mutex_lock(&w->lock);
    chat_entry_free(&w->entry);
    w->entry = *entry;
    w->has_entry = true;
    *entry = (struct chat_entry){0};
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

void worker_interrupt(struct worker *w)
{
    conversation_interrupt(w->conversation);
}
