#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "queue.h"
#include "agent_changes.h"
#include "banned.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct told *first, *last;
    size_t size;
    bool closed;
    int fd;
};

void told_free(struct told *t)
{
    if (!t)
        return;
    if (t->free_data)
        t->free_data(t->data);
    buf_free(&t->more);
    tool_result_free(&t->result);
    if (t->changes)
        agent_changes_free(t->changes);
    free(t->changes);
    json_decref((json_t *)t->event.input);
    free((char *)t->event.id);
    free((char *)t->event.name);
    free((char *)t->event.why);
    free(t->text);
    free(t);
}

static void cleanup_told(struct told **t)
{
    told_free(*t);
}

int queue_new(struct queue **ret)
{
    struct queue *q = calloc(1, sizeof *q);
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

struct queue *queue_free(struct queue *q)
{
    if (!q)
        return NULL;
    for (struct told *t; (t = queue_take(q));)
        told_free(t);
    pthread_cond_destroy(&q->room);
    pthread_mutex_destroy(&q->lock);
    cleanup_close(&q->fd);
    free(q);
    return NULL;
}

int queue_fd(const struct queue *q)
{
    return q->fd;
}

/* Copying. A member that there was no memory for makes the whole copy fail. */

static bool copy_string(const char *from, const char **to)
{
    *to = from ? strdup(from) : NULL;
    return *to || !from;
}

static struct agent_changes *copy_changes(const struct agent_changes *from)
{
    struct agent_changes *c = calloc(1, sizeof *c);
    if (c && agent_changes_copy(from, c) == 0)
        return c;
    free(c);
    return NULL;
}

/* The bytes that a copy of the event weighs, roughly: what a model or a box can make large. */
static size_t weight(const struct agent_event *e)
{
    size_t n = sizeof(struct told) + e->n;
    if (e->result)
        n += e->result->text.len + e->result->image.len;
    if (e->changes)
        n += e->changes->count * 128;
    return n;
}

/* An input is copied deep: jansson's reference counts may be shared by threads, its objects may
 * not. */
static bool copy_parts(struct told *t, const struct agent_event *e)
{
    if (e->text) {
        size_t n = e->n ? e->n : strlen(e->text);
        if (buf_append(&t->more, e->text, n) < 0 || !buf_cstr(&t->more))
            return false;
        t->event.n = n;
        t->event.text = (const char *)t->more.data;
    }
    if (e->input && !(t->event.input = json_deep_copy(e->input)))
        return false;
    if (e->result) {
        if (tool_result_copy(e->result, &t->result) < 0)
            return false;
        t->event.result = &t->result;
    }
    if (e->changes && !(t->changes = copy_changes(e->changes)))
        return false;
    t->event.changes = t->changes;
    return true;
}

static struct told *copy_event(const struct agent_event *e, unsigned attempt)
{
    _cleanup_(cleanup_told) struct told *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->kind = TOLD_EVENT;
    t->attempt = attempt;
    t->size = weight(e);
    t->result = TOOL_RESULT_INIT;
    t->more = BUF_INIT((e->n ? e->n : e->text ? strlen(e->text) : 0) + QUEUE_TEXT + 1);
    t->event = *e;
    t->event.id = t->event.name = t->event.why = t->event.text = NULL;
    t->event.input = NULL;
    t->event.result = NULL;
    t->event.changes = NULL;
    bool whole = copy_string(e->id, &t->event.id);
    whole = copy_string(e->name, &t->event.name) && whole;
    whole = copy_string(e->why, &t->event.why) && whole;
    return whole && copy_parts(t, e) ? TAKE_PTR(t) : NULL;
}

/* With the lock held: waits for room. False: nobody listens any more. */
static bool wait_for_room(struct queue *q, size_t n)
{
    while (!q->closed && q->first && q->size + n > QUEUE_MAX)
        pthread_cond_wait(&q->room, &q->lock);
    return !q->closed;
}

static void put(struct queue *q, struct told *t)
{
    pthread_mutex_lock(&q->lock);
    if (!wait_for_room(q, t->size)) {
        pthread_mutex_unlock(&q->lock);
        told_free(t);
        return;
    }
    bool empty = !q->first;
    if (q->last)
        q->last->next = t;
    else
        q->first = t;
    q->last = t;
    q->size += t->size;
    pthread_mutex_unlock(&q->lock);
    if (empty)
        eventfd_write(q->fd, 1);
}

static bool is_text(const struct agent_event *e)
{
    return e->kind == AGENT_TEXT || e->kind == AGENT_THINKING;
}

/* Appends text to the newest that waits, if that is the same kind of text and not too long yet. */
static bool join(struct queue *q, const struct agent_event *e, unsigned attempt)
{
    bool joined = false;
    pthread_mutex_lock(&q->lock);
    struct told *t = q->last;
    if (t && t->kind == TOLD_EVENT && t->attempt == attempt && t->event.kind == e->kind &&
        t->more.len + e->n <= QUEUE_TEXT && q->size + e->n <= QUEUE_MAX &&
        buf_append(&t->more, e->text, e->n) == 0 && buf_cstr(&t->more)) {
        t->event.text = (const char *)t->more.data;
        t->event.n = t->more.len;
        t->size += e->n;
        q->size += e->n;
        joined = true;
    }
    pthread_mutex_unlock(&q->lock);
    return joined;
}

/* The progress of a call that is told right after its progress takes its place. */
static bool replace(struct queue *q, struct told *t)
{
    bool replaced = false;
    pthread_mutex_lock(&q->lock);
    struct told *old = q->last;
    if (old && old->kind == TOLD_EVENT && old->event.kind == AGENT_PROGRESS &&
        old->attempt == t->attempt && old->event.id && t->event.id &&
        strcmp(old->event.id, t->event.id) == 0) {
        struct buf more = old->more;
        old->more = t->more;
        t->more = more;
        old->event.text = old->more.len ? (const char *)old->more.data : NULL;
        old->event.n = old->more.len;
        old->event.seconds = t->event.seconds;
        replaced = true;
    }
    pthread_mutex_unlock(&q->lock);
    return replaced;
}

void queue_event(struct queue *q, const struct agent_event *e, unsigned attempt)
{
    if (is_text(e) && e->n == 0)
        return;
    if (is_text(e) && join(q, e, attempt))
        return;
    struct told *t = copy_event(e, attempt);
    if (!t)
        return;
    if (e->kind == AGENT_PROGRESS && replace(q, t)) {
        told_free(t);
        return;
    }
    put(q, t);
}

void queue_anew(struct queue *q)
{
    struct told *t = calloc(1, sizeof *t);
    if (!t)
        return;
    t->kind = TOLD_ANEW;
    t->size = sizeof *t;
    put(q, t);
}

static void put_text(struct queue *q, enum told_kind kind, const char *text)
{
    struct told *t = calloc(1, sizeof *t);
    if (!t)
        return;
    t->kind = kind;
    t->text = strdup(text);
    t->size = sizeof *t + strlen(text);
    put(q, t);
}

void queue_person(struct queue *q, const char *words)
{
    put_text(q, TOLD_PERSON, words);
}

void queue_confirm(struct queue *q, const char *text)
{
    put_text(q, TOLD_CONFIRM, text);
}

void queue_answer(struct queue *q, void *data, void (*free_data)(void *data))
{
    struct told *t = calloc(1, sizeof *t);
    if (!t) {
        free_data(data);
        return;
    }
    t->kind = TOLD_ANSWER;
    t->data = data;
    t->free_data = free_data;
    t->size = sizeof *t;
    put(q, t);
}

struct told *queue_take(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    struct told *t = q->first;
    if (t) {
        q->first = t->next;
        q->last = q->first ? q->last : NULL;
        q->size -= t->size;
        t->next = NULL;
        pthread_cond_signal(&q->room);
    } else {
        eventfd_t n;
        eventfd_read(q->fd, &n);
    }
    pthread_mutex_unlock(&q->lock);
    return t;
}

void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->room);
    pthread_mutex_unlock(&q->lock);
}
