#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "thread.h"
#include "chat.h"
#include "banned.h"

struct update_queue {
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct update *first, *last;
    size_t size;
    bool closed;
    int fd;
};

void update_free(struct update *u)
{
    if (!u)
        return;
    if (u->command_result)
        chat_result_free(u->command_result);
    free(u->command_result);
    buf_free(&u->event_text);
    tool_result_free(&u->result);
    if (u->changes)
        agent_changes_free(u->changes);
    free(u->changes);
    json_decref((json_t *)u->event.input);
    free((char *)u->event.id);
    free((char *)u->event.name);
    free((char *)u->event.why);
    free(u->text);
    free(u);
}

static void cleanup_update(struct update **u)
{
    update_free(*u);
}

int update_queue_new(struct update_queue **ret)
{
    struct update_queue *q = calloc(1, sizeof *q);
    if (!q)
        return -ENOMEM;
    q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->fd < 0) {
        free(q);
        return -errno;
    }
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->room, NULL);
    *ret = q;
    return 0;
}

void update_queue_free(struct update_queue *q)
{
    if (!q)
        return;
    for (struct update *u; (u = update_queue_take(q));)
        update_free(u);
    pthread_cond_destroy(&q->room);
    pthread_mutex_destroy(&q->lock);
    cleanup_close(&q->fd);
    free(q);
}

int update_queue_fd(const struct update_queue *q)
{
    return q->fd;
}

static bool update_copy_string(const char *from, const char **to)
{
    *to = from ? strdup(from) : NULL;
    return *to || !from;
}

/* If memory runs out for a member, the whole copy fails. */
static struct update *update_from_event(const struct agent_event *e, unsigned attempt)
{
    _cleanup_(cleanup_update) struct update *u = calloc(1, sizeof *u);
    size_t n = e->n ? e->n : e->text ? strlen(e->text) : 0;
    if (!u)
        return NULL;
    u->kind = UPDATE_EVENT;
    u->attempt = attempt;
    /* Roughly; what a model or a box can make large. */
    u->size = sizeof *u + e->n + (e->result ? e->result->text.len + e->result->image.len : 0) +
              (e->changes ? e->changes->count * 128 : 0);
    u->result = TOOL_RESULT_INIT;
    u->event_text = BUF_INIT(n + UPDATE_QUEUE_TEXT + 1);
    u->event = *e;
    u->event.text = NULL;
    u->event.input = NULL;
    u->event.result = NULL;
    u->event.changes = NULL;
    bool whole = update_copy_string(e->id, &u->event.id);
    whole = update_copy_string(e->name, &u->event.name) && whole;
    whole = update_copy_string(e->why, &u->event.why) && whole;
    if (!whole)
        return NULL;
    if (e->text) {
        if (buf_append(&u->event_text, e->text, n) < 0 || !buf_cstr(&u->event_text))
            return NULL;
        u->event.n = n;
        u->event.text = (const char *)u->event_text.data;
    }
    /* Deeply: threads may share jansson's reference counts, but not its objects. */
    if (e->input && !(u->event.input = json_deep_copy(e->input)))
        return NULL;
    if (e->result) {
        if (tool_result_copy(e->result, &u->result) < 0)
            return NULL;
        u->event.result = &u->result;
    }
    if (e->changes) {
        u->event.changes = u->changes = calloc(1, sizeof *u->changes);
        if (!u->changes || agent_changes_copy(e->changes, u->changes) < 0)
            return NULL;
    }
    return TAKE_PTR(u);
}

static void update_queue_put(struct update_queue *q, struct update *u)
{
    pthread_mutex_lock(&q->lock);
    while (!q->closed && q->first && q->size + u->size > UPDATE_QUEUE_MAX)
        pthread_cond_wait(&q->room, &q->lock);
    if (q->closed) {
        pthread_mutex_unlock(&q->lock);
        update_free(u);
        return;
    }
    bool empty = !q->first;
    if (q->last)
        q->last->next = u;
    else
        q->first = u;
    q->last = u;
    q->size += u->size;
    pthread_mutex_unlock(&q->lock);
    if (empty)
        eventfd_write(q->fd, 1);
}

void update_queue_event(struct update_queue *q, const struct agent_event *e, unsigned attempt)
{
    bool is_text = e->kind == AGENT_TEXT || e->kind == AGENT_THINKING, joined = is_text && !e->n;
    if (is_text && e->n) {
        /* Append it to the newest update, if that is the same kind and not too long yet. */
        pthread_mutex_lock(&q->lock);
        struct update *last = q->last;
        if (last && last->kind == UPDATE_EVENT && last->attempt == attempt &&
            last->event.kind == e->kind && last->event_text.len + e->n <= UPDATE_QUEUE_TEXT &&
            q->size + e->n <= UPDATE_QUEUE_MAX &&
            buf_append(&last->event_text, e->text, e->n) == 0 && buf_cstr(&last->event_text)) {
            last->event.text = (const char *)last->event_text.data;
            last->event.n = last->event_text.len;
            last->size += e->n;
            q->size += e->n;
            joined = true;
        }
        pthread_mutex_unlock(&q->lock);
    }
    struct update *u = joined ? NULL : update_from_event(e, attempt);
    if (u)
        update_queue_put(q, u);
}

void update_queue_text(struct update_queue *q, enum update_kind kind, const char *text)
{
    struct update *u = calloc(1, sizeof *u);
    if (!u)
        return;
    u->kind = kind;
    u->text = text ? strdup(text) : NULL;
    u->size = sizeof *u + (text ? strlen(text) : 0);
    update_queue_put(q, u);
}

void update_queue_result(struct update_queue *q, struct chat_result *result)
{
    struct update *u = calloc(1, sizeof *u);
    if (!u)
        abort(); /* the chat would wait for the result for ever */
    u->kind = UPDATE_RESULT;
    u->command_result = result;
    u->size = sizeof *u;
    update_queue_put(q, u);
}

struct update *update_queue_take(struct update_queue *q)
{
    pthread_mutex_lock(&q->lock);
    struct update *u = q->first;
    if (u) {
        q->first = u->next;
        q->last = q->first ? q->last : NULL;
        q->size -= u->size;
        u->next = NULL;
        pthread_cond_signal(&q->room);
    } else {
        eventfd_t n;
        eventfd_read(q->fd, &n);
    }
    pthread_mutex_unlock(&q->lock);
    return u;
}

void update_queue_close(struct update_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->room);
    pthread_mutex_unlock(&q->lock);
}

/* The worker. */

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

static void worker_on_event(void *data, const struct agent_event *e, unsigned attempt)
{
    update_queue_event(((struct worker *)data)->queue, e, attempt);
}

static void worker_on_user(void *data, const char *message)
{
    update_queue_text(((struct worker *)data)->queue, message ? UPDATE_USER : UPDATE_RESET,
                      message);
}

/* Shows the question and waits for worker_decide(). */
static int worker_on_confirm(void *data, const char *title, const char *text, int cancel)
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
            update_queue_result(w->queue, result);
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
    struct conversation_sink sink = {.redraws = true,
                                     .event = worker_on_event,
                                     .user = worker_on_user,
                                     .confirm = worker_on_confirm,
                                     .data = w};
    w->queue = q;
    w->decision = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    int r = w->decision < 0 ? error_errno(err, errno, "cannot create an eventfd")
                            : conversation_new(o, &sink, &w->conversation, err);
    if (r == 0) {
        r = -pthread_create(&w->thread, NULL, worker_thread, w);
        if (r < 0)
            error_errno(err, -r, "cannot start a thread");
    }
    if (r < 0) {
        conversation_free(w->conversation);
        cleanup_close(&w->decision);
        free(w);
        return r;
    }
    *ret = w;
    return 0;
}

void worker_free(struct worker *w)
{
    if (!w)
        return;
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
