/*
 * Server-sent events: from a function's thread, and as feeds that need no thread while nothing
 * happens.
 *
 * A feed is idle, or queued, or one of a few threads runs its `more`, or the loop sends what that
 * appended. It holds at most one piece of FEED_MAX bytes, and between events nothing. Queue and
 * topics are linked through the feeds, so they cannot outgrow them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "encoding.h"
#include "server.h"
#include "banned.h"

#define TOPIC_SLOTS     1024u
#define TOPIC_NAME_MAX  100u
#define FEED_THREADS    4u
#define COMMENT_SECONDS 15

struct topic {
    struct topic *next;
    struct feed_state *feeds;
    char name[TOPIC_NAME_MAX];
};

struct feed_state {
    struct request *q;
    struct feed feed;
    struct topic *topic;
    struct feed_state *next, **at; /* in the topic */
    struct feed_state *next_queued;
    enum { FEED_NEW, FEED_IDLE, FEED_QUEUED, FEED_RUNNING, FEED_SENDING, FEED_ENDED } state;
    bool again; /* `more` said so, or the topic was notified meanwhile */
    bool gone;
};

struct topics {
    pthread_mutex_t lock; /* taken before that of a request, never after */
    struct serve *serve;
    struct topic *slots[TOPIC_SLOTS];
    struct feed_state *queue, **queue_end;
    unsigned running;
};

struct topics *topics_new(struct serve *s)
{
    struct topics *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    t->serve = s;
    t->queue_end = &t->queue;
    return t;
}

void topics_free(struct topics *t)
{
    if (t)
        pthread_mutex_destroy(&t->lock);
    free(t);
}

static struct topic **topic_find(struct topics *t, const char *name)
{
    struct topic **at = &t->slots[digest(DIGEST_BEGIN, name, strlen(name)) % TOPIC_SLOTS];
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

static bool topic_join(struct topics *t, const char *name, struct feed_state *f)
{
    struct topic **at = topic_find(t, name);
    if (!*at && !(*at = calloc(1, sizeof **at)))
        return false;
    struct topic *topic = *at;
    if (!topic->name[0])
        memcpy(topic->name, name, strlen(name));
    f->topic = topic;
    f->next = topic->feeds;
    f->at = &topic->feeds;
    if (f->next)
        f->next->at = &f->next;
    topic->feeds = f;
    return true;
}

static void topic_leave(struct topics *t, struct feed_state *f)
{
    if (!f->topic)
        return;
    *f->at = f->next;
    if (f->next)
        f->next->at = f->at;
    if (!f->topic->feeds) {
        struct topic **at = topic_find(t, f->topic->name);
        *at = f->topic->next;
        free(f->topic);
    }
    f->topic = NULL;
}

static void feed_free(struct feed_state *f)
{
    if (f->feed.free)
        f->feed.free(f->feed.data);
    request_unref(f->q);
    free(f);
}

static void feeds_run(void *data);

/* Under the lock. */
static void feeds_start_thread(struct topics *t)
{
    if (t->queue && t->running < FEED_THREADS &&
        pool_submit(t->serve->pool, true, feeds_run, t) == 0)
        t->running++;
}

static void feed_queue(struct topics *t, struct feed_state *f)
{
    f->state = FEED_QUEUED;
    f->next_queued = NULL;
    *t->queue_end = f;
    t->queue_end = &f->next_queued;
    feeds_start_thread(t);
}

/* Hands on what `more` appended. */
static void feed_hand_on(struct request *q, struct buf *out, bool end)
{
    LOCKED(&q->lock);
    if (out->len > 0)
        buf_append(&q->out, out->data, out->len);
    q->finished = q->finished || end;
    if (!q->gone && (out->len > 0 || end))
        loop_wake(q);
}

/* A thread of the pool: runs feeds until none is queued. */
static void feeds_run(void *data)
{
    struct topics *t = data;
    struct feed_state *f;
    pthread_mutex_lock(&t->lock);
    while ((f = t->queue)) {
        t->queue = f->next_queued;
        if (!t->queue)
            t->queue_end = &t->queue;
        f->state = FEED_RUNNING;
        f->again = false;
        pthread_mutex_unlock(&t->lock);

        _cleanup_buf_ struct buf out = BUF_INIT(2 * FEED_MAX);
        int r = f->feed.more(f->feed.data, &out);
        /* Before the loop can have sent it all: feed_drained() must find the state SENDING. */
        pthread_mutex_lock(&t->lock);
        f->again = f->again || r > 0;
        f->state = r < 0 ? FEED_ENDED : out.len > 0 ? FEED_SENDING : FEED_IDLE;
        feed_hand_on(f->q, &out, r < 0);
        if (f->gone) {
            topic_leave(t, f);
            feed_free(f);
        } else if (f->state == FEED_IDLE && f->again) {
            feed_queue(t, f);
        }
    }
    t->running--;
    pthread_mutex_unlock(&t->lock);
}

void topic_notify(struct serve *s, const char *name)
{
    struct topics *t = s->topics;
    LOCKED(&t->lock);
    struct topic *topic = *topic_find(t, name);
    for (struct feed_state *f = topic ? topic->feeds : NULL; f; f = f->next) {
        f->again = true;
        if (f->state == FEED_IDLE)
            feed_queue(t, f);
    }
}

void feed_drained(struct request *q)
{
    struct topics *t = q->serve->topics;
    struct feed_state *f = q->feed;
    if (!f)
        return;
    LOCKED(&t->lock);
    if (f->state != FEED_SENDING)
        return;
    f->state = FEED_IDLE;
    if (f->again)
        feed_queue(t, f);
}

static void queue_remove(struct topics *t, struct feed_state *f)
{
    struct feed_state **at = &t->queue;
    while (*at != f)
        at = &(*at)->next_queued;
    *at = f->next_queued;
    if (!*at)
        t->queue_end = at;
}

void feed_gone(struct request *q)
{
    struct topics *t = q->serve->topics;
    struct feed_state *f = q->feed;
    if (!f)
        return;
    pthread_mutex_lock(&q->lock);
    q->feed = NULL;
    pthread_mutex_unlock(&q->lock);
    pthread_mutex_lock(&t->lock);
    f->gone = true;
    bool mine = f->state != FEED_NEW && f->state != FEED_RUNNING;
    if (f->state == FEED_QUEUED)
        queue_remove(t, f);
    if (mine)
        topic_leave(t, f);
    pthread_mutex_unlock(&t->lock);
    if (mine)
        feed_free(f);
}

/* --- answers --- */

int sse_begin(struct request *q)
{
    respond_header(q, "x-accel-buffering", "no");
    int r = respond_stream(q, "text/event-stream", NULL, UINT64_MAX);
    LOCKED(&q->lock);
    q->sse = q->complete = r == 0; /* clients of SSE know how to go on after the end */
    return r;
}

void respond_feed(struct request *q, const char *topic, const struct feed *feed)
{
    struct topics *t = q->serve->topics;
    struct feed_state *f = strlen(topic) < TOPIC_NAME_MAX ? calloc(1, sizeof *f) : NULL;
    if (!f || sse_begin(q) < 0) {
        if (!f)
            respond_problem(q, 503, "no-memory", "out of memory");
        if (feed->free)
            feed->free(feed->data);
        free(f);
        return;
    }
    *f = (struct feed_state){.q = q, .feed = *feed};
    request_ref(q);
    bool gone;
    {
        LOCKED(&q->lock);
        gone = q->gone;
        if (!gone)
            q->feed = f;
    }
    pthread_mutex_lock(&t->lock);
    gone = gone || f->gone;
    if (!gone && topic_join(t, topic, f)) {
        feed_queue(t, f);
    } else if (!gone) {
        f->state = FEED_ENDED;
        feed_hand_on(q, &(struct buf){0}, true);
    }
    pthread_mutex_unlock(&t->lock);
    if (gone)
        feed_free(f);
}

int sse_append(struct buf *out, uint64_t id, const char *event, const char *data, size_t n)
{
    if (id)
        buf_printf(out, "id: %llu\n", (unsigned long long)id);
    if (event)
        buf_printf(out, "event: %s\n", event);
    const char *end = data + n;
    do {
        const char *line = data;
        while (data < end && *data != '\n' && *data != '\r')
            data++;
        buf_append_str(out, "data: ");
        buf_append(out, line, (size_t)(data - line));
        buf_append_str(out, "\n");
        if (data < end && *data == '\r' && data + 1 < end && data[1] == '\n')
            data++;
    } while (data++ < end);
    return buf_append_str(out, "\n");
}

int sse_send(struct request *q, uint64_t id, const char *event, const char *data, size_t n)
{
    _cleanup_buf_ struct buf text = BUF_INIT(2 * n + 1024);
    int r = sse_append(&text, id, event, data, n);
    return r < 0 ? r : respond_write(q, text.data, text.len);
}

/* --- the loop's clock --- */

static void sse_comment(struct request *q, const char *comment, bool end)
{
    LOCKED(&q->lock);
    if (!q->sse || q->gone || (!end && (q->out.len > 0 || !q->headers_sent)))
        return;
    buf_append_str(&q->out, comment);
    q->finished = q->finished || end;
    loop_wake(q);
}

void feeds_tick(struct serve *s)
{
    int64_t now = clock_now();
    for (struct request *q = s->open; q; q = q->next_open)
        if (q->sse && now - q->sent_at > COMMENT_SECONDS * NS_PER_S) {
            q->sent_at = now;
            sse_comment(q, ": still here\n\n", false);
        }
    LOCKED(&s->topics->lock);
    feeds_start_thread(s->topics); /* if there was no thread for it before */
}

void feeds_end(struct serve *s)
{
    for (struct request *q = s->open; q; q = q->next_open)
        if (q->feed)
            sse_comment(q, ": the server is shutting down\n\n", true);
}
