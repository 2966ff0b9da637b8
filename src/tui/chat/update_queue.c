#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "update_queue.h"
#include "agent_changes.h"
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
    if (u->free_data)
        u->free_data(u->data);
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

struct update_queue *update_queue_free(struct update_queue *q)
{
    if (!q)
        return NULL;
    for (struct update *u; (u = update_queue_take(q));)
        update_free(u);
    pthread_cond_destroy(&q->room);
    pthread_mutex_destroy(&q->lock);
    cleanup_close(&q->fd);
    free(q);
    return NULL;
}

int update_queue_fd(const struct update_queue *q)
{
    return q->fd;
}

/* Copying. If memory runs out for a member, the whole copy fails. */

static bool update_copy_string(const char *from, const char **to)
{
    *to = from ? strdup(from) : NULL;
    return *to || !from;
}

/* The input is copied deeply: threads may share jansson's reference counts, but not its objects. */
static bool update_copy_parts(struct update *u, const struct agent_event *e)
{
    if (e->text) {
        size_t n = e->n ? e->n : strlen(e->text);
        if (buf_append(&u->event_text, e->text, n) < 0 || !buf_cstr(&u->event_text))
            return false;
        u->event.n = n;
        u->event.text = (const char *)u->event_text.data;
    }
    if (e->input && !(u->event.input = json_deep_copy(e->input)))
        return false;
    if (e->result) {
        if (tool_result_copy(e->result, &u->result) < 0)
            return false;
        u->event.result = &u->result;
    }
    if (e->changes) {
        u->event.changes = u->changes = calloc(1, sizeof *u->changes);
        return u->changes && agent_changes_copy(e->changes, u->changes) == 0;
    }
    return true;
}

static struct update *update_from_event(const struct agent_event *e, unsigned attempt)
{
    _cleanup_(cleanup_update) struct update *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->kind = UPDATE_EVENT;
    u->attempt = attempt;
    /* Roughly; what a model or a box can make large. */
    u->size = sizeof *u + e->n + (e->result ? e->result->text.len + e->result->image.len : 0) +
              (e->changes ? e->changes->count * 128 : 0);
    u->result = TOOL_RESULT_INIT;
    u->event_text = BUF_INIT((e->n ? e->n : e->text ? strlen(e->text) : 0) + UPDATE_QUEUE_TEXT + 1);
    u->event = *e;
    u->event.id = u->event.name = u->event.why = u->event.text = NULL;
    u->event.input = NULL;
    u->event.result = NULL;
    u->event.changes = NULL;
    bool whole = update_copy_string(e->id, &u->event.id);
    whole = update_copy_string(e->name, &u->event.name) && whole;
    whole = update_copy_string(e->why, &u->event.why) && whole;
    return whole && update_copy_parts(u, e) ? TAKE_PTR(u) : NULL;
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

static bool event_is_text(const struct agent_event *e)
{
    return e->kind == AGENT_TEXT || e->kind == AGENT_THINKING;
}

/* Appends text to the newest update if that is the same kind of text and not too long yet. */
static bool update_queue_join_text(struct update_queue *q, const struct agent_event *e,
                                   unsigned attempt)
{
    bool joined = false;
    pthread_mutex_lock(&q->lock);
    struct update *u = q->last;
    if (u && u->kind == UPDATE_EVENT && u->attempt == attempt && u->event.kind == e->kind &&
        u->event_text.len + e->n <= UPDATE_QUEUE_TEXT && q->size + e->n <= UPDATE_QUEUE_MAX &&
        buf_append(&u->event_text, e->text, e->n) == 0 && buf_cstr(&u->event_text)) {
        u->event.text = (const char *)u->event_text.data;
        u->event.n = u->event_text.len;
        u->size += e->n;
        q->size += e->n;
        joined = true;
    }
    pthread_mutex_unlock(&q->lock);
    return joined;
}

void update_queue_event(struct update_queue *q, const struct agent_event *e, unsigned attempt)
{
    if (event_is_text(e) && e->n == 0)
        return;
    if (event_is_text(e) && update_queue_join_text(q, e, attempt))
        return;
    struct update *u = update_from_event(e, attempt);
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

void update_queue_result(struct update_queue *q, void *data, void (*free_data)(void *data))
{
    struct update *u = calloc(1, sizeof *u);
    if (!u) {
        free_data(data);
        return;
    }
    u->kind = UPDATE_RESULT;
    u->data = data;
    u->free_data = free_data;
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
