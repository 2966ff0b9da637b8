/*
 * Appending messages: a caller's own, or those of another history.
 *
 * A write that fails leaves its beginning behind; what closed the file is then put back, over bytes
 * that the file has already, so that even a full disk has room for it.
 *
 * With history_defer() a thread syncs what was written while the caller continues.
 * What is written first reaches the disk first; history_settle() waits for all of it. A sync starts
 * a moment after the first message, so that those that follow closely share it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "blocks.h"
#include "history_file.h"
#include "banned.h"

int history_write_at(int fd, const void *data, size_t n, uint64_t offset)
{
    const char *at = data;
    while (n > 0) {
        ssize_t wrote = pwrite(fd, at, n, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return wrote < 0 ? -errno : -EIO;
        at += wrote;
        n -= (size_t)wrote;
        offset += (uint64_t)wrote;
    }
    return 0;
}

int history_put_head(const json_t *head, struct buf *b)
{
    size_t from = b->len;
    int r = json_append(b, head, 0);
    if (r < 0)
        return -ENOMEM;
    b->len--; /* the closing brace */
    buf_append_str(b, b->len - from > 1 ? ", \"messages\": [" : "\"messages\": [");
    return b->failed ? -ENOMEM : 0;
}

static int history_put_tail(const struct history_totals *t, struct buf *b)
{
    json_t *totals =
        json_pack("{s:I, s:I}", "turns", (json_int_t)t->turns, "messages", (json_int_t)t->messages);
    if (t->model[0])
        json_object_set_new(totals, "model", json_string(t->model));
    if (t->input || t->output) {
        json_object_set_new(totals, "input", json_integer((json_int_t)t->input));
        json_object_set_new(totals, "output", json_integer((json_int_t)t->output));
    }
    if (t->cost >= 0)
        json_object_set_new(totals, "cost", json_real(t->cost));
    buf_append_str(b, "\n], \"totals\": ");
    int r = totals ? json_append(b, totals, JSON_REAL_PRECISION(8)) : -1;
    json_decref(totals);
    buf_append_str(b, "}\n");
    return r < 0 || b->failed ? -ENOMEM : 0;
}

int history_close_file(struct history *h)
{
    _cleanup_buf_ struct buf tail = BUF_INIT(HISTORY_TAIL_MAX);
    int r = history_put_tail(&h->index.totals, &tail);
    if (r == 0)
        r = history_write_at(h->fd, tail.data, tail.len, h->end);
    if (r == 0 && ftruncate(h->fd, (off_t)(h->end + tail.len)) < 0)
        r = -errno;
    if (r == 0)
        h->size = h->end + tail.len;
    return r;
}

/* The first bytes of a file: it gets its name when they are safe. */
static int history_write_first(struct history *h, const void *data, size_t n, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(2u * HISTORY_MESSAGE_MAX);
    int r = history_put_head(h->head, &b);
    uint64_t head = b.len;
    if (r == 0)
        r = buf_append(&b, data, n);
    if (r == 0)
        r = history_write_at(h->fd, b.data, b.len, 0);
    if (r == 0 && !h->deferred && fsync(h->fd) < 0)
        r = -errno;
    if (r < 0) {
        if (ftruncate(h->fd, 0) < 0)
            return error_errno(err, errno, "cannot write %s", h->path);
        return error_errno(err, -r, "cannot write %s", h->path);
    }
    r = history_publish(h, err);
    if (r < 0)
        return r;
    h->exists = true;
    h->end = head;
    h->size = b.len;
    return 0;
}

/* Writes whole messages, with what separates and closes them, where the next message goes. */
static int history_write(struct history *h, const void *data, size_t n, struct error *err)
{
    struct stat st;
    if (!h->exists)
        return history_write_first(h, data, n, err);
    /* An editor may have put another file in its place, or written into it. */
    if (fstat(h->fd, &st) < 0)
        return error_errno(err, errno, "cannot stat %s", h->path);
    if (st.st_nlink == 0)
        return error_set(
            err, ESTALE,
            "another program removed or replaced %s: the session cannot be saved; start a new one",
            h->path);
    if ((uint64_t)st.st_size != h->size)
        return error_set(err, ESTALE,
                         "another program changed %s; resume the session to continue from there",
                         h->path);
    uint64_t size = h->end + n;
    int r = history_write_at(h->fd, data, n, h->end);
    if (r == 0 && size < h->size && ftruncate(h->fd, (off_t)size) < 0)
        r = -errno;
    if (r == 0)
        r = history_sync(h, false);
    if (r == 0)
        h->size = size;
    return r < 0 ? error_errno(err, -r, "cannot write %s", h->path) : 0;
}

#define SYNC_DELAY_NS (5 * NS_PER_MS)

struct history_syncer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news, hurry;
    int file, folder;
    uint64_t asked, done; /* how many writes there were, and how many are safe */
    bool named;           /* the file got its name: sync the folder, too */
    bool awaited;         /* somebody waits: do not delay */
    bool ending;
    int failed; /* negative errno of a sync that failed; stays */
};

static int syncer_sync(const struct history_syncer *s, bool named)
{
    if (named ? fsync(s->file) < 0 : fdatasync(s->file) < 0)
        return -errno;
    return named && fsync(s->folder) < 0 ? -errno : 0;
}

static void *syncer_thread(void *data)
{
    struct history_syncer *s = data;
    pthread_mutex_lock(&s->lock);
    while (s->done < s->asked || !s->ending) {
        if (s->done == s->asked) {
            pthread_cond_wait(&s->news, &s->lock);
            continue;
        }
        struct timespec until; /* others may write meanwhile */
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += SYNC_DELAY_NS;
        until.tv_sec += until.tv_nsec / NS_PER_S;
        until.tv_nsec %= NS_PER_S;
        while (!s->awaited && !s->ending &&
               pthread_cond_timedwait(&s->hurry, &s->lock, &until) == 0)
            ;
        uint64_t asked = s->asked;
        bool named = s->named;
        s->named = false;
        pthread_mutex_unlock(&s->lock);
        int r = syncer_sync(s, named);
        pthread_mutex_lock(&s->lock);
        s->done = asked;
        s->failed = r < 0 ? r : s->failed;
        pthread_cond_broadcast(&s->news);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* If it cannot be started, the caller waits for the disk. */
static struct history_syncer *syncer_start(const struct history *h)
{
    struct history_syncer *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct history_syncer){.file = h->fd, .folder = h->folder};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->news, NULL);
    pthread_cond_init(&s->hurry, NULL);
    if (pthread_create(&s->thread, NULL, syncer_thread, s) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

void history_defer(struct history *h)
{
    h->deferred = true;
}

int history_sync(struct history *h, bool named)
{
    if (h->deferred && !h->syncer)
        h->syncer = syncer_start(h);
    struct history_syncer *s = h->syncer;
    if (!s)
        return syncer_sync(&(struct history_syncer){.file = h->fd, .folder = h->folder}, named);
    pthread_mutex_lock(&s->lock);
    bool idle = s->done == s->asked++;
    s->named |= named;
    int r = s->failed;
    if (idle)
        pthread_cond_broadcast(&s->news);
    pthread_mutex_unlock(&s->lock);
    return r;
}

int history_settle(struct history *h, struct error *err)
{
    struct history_syncer *s = h->syncer;
    if (!s)
        return 0;
    pthread_mutex_lock(&s->lock);
    s->awaited = true;
    pthread_cond_signal(&s->hurry);
    while (s->done < s->asked)
        pthread_cond_wait(&s->news, &s->lock);
    s->awaited = false;
    int r = s->failed;
    pthread_mutex_unlock(&s->lock);
    return r < 0 ? error_errno(err, -r, "cannot sync %s to disk", h->path) : 0;
}

void history_end_sync(struct history *h)
{
    struct history_syncer *s = h->syncer;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_broadcast(&s->news);
    pthread_cond_signal(&s->hurry);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->news);
    pthread_cond_destroy(&s->hurry);
    free(s);
    h->syncer = NULL;
}

#define COPY_PIECE (1u << 20) /* of a copy, written at once */

static void history_revert_index(struct history *h, const struct index_mark *m)
{
    pthread_mutex_lock(&h->lock);
    index_go_back(&h->index, m);
    pthread_mutex_unlock(&h->lock);
}

/* Adds one message, as it will stand in the file, to the bytes to write, and to the index. */
static int history_put_message(struct history *h, struct buf *b, const void *text, size_t n)
{
    size_t length;
    buf_append_str(b, h->index.count ? ",\n" : "\n");
    pthread_mutex_lock(&h->lock);
    int r = index_take(&h->index, text, n, b->len, &length);
    if (r == 0 && length != n)
        r = -EBADMSG;
    enum history_kind kind = r == 0 ? h->index.entries[h->index.count - 1].kind : HISTORY_OTHER;
    if (kind == HISTORY_UNDO || kind == HISTORY_CLEARED)
        index_settle(&h->index);
    pthread_mutex_unlock(&h->lock);
    if (r == 0)
        r = buf_append(b, text, n);
    return r == -EAGAIN ? -EBADMSG : r;
}

/* Writes what was added since the mark. On failure, index and file are as they were. */
static int history_commit(struct history *h, struct buf *b, const struct index_mark *m,
                          struct error *err)
{
    size_t end = b->len;
    int r = history_put_tail(&h->index.totals, b);
    if (r < 0)
        error_set(err, ENOMEM, "out of memory while writing %s", h->path);
    else
        r = history_write(h, b->data, b->len, err);
    if (r < 0) {
        history_revert_index(h, m);
        struct stat st;
        if (r != -ESTALE && h->exists && history_close_file(h) < 0 && fstat(h->fd, &st) == 0)
            h->size =
                (uint64_t)
                    st.st_size; /* the next append writes over it; a crash until then tears it */
        return r;
    }
    pthread_mutex_lock(&h->lock);
    for (size_t i = m->count; i < h->index.count; i++)
        h->index.entries[i].offset += h->end;
    h->count = h->index.count;
    pthread_mutex_unlock(&h->lock);
    h->end += end;
    return 0;
}

/* The same message with what identifies it in front: people read the beginnings of lines. */
static json_t *message_in_order(json_t *message)
{
    static const char *const first[] = {"time", "role", "kind", "turn"};
    json_t *o = json_object();
    if (o && !json_object_get(message, "time")) {
        struct timespec now;
        struct tm utc;
        char date[32], text[48];
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &utc);
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
        snprintf(text, sizeof text, "%s.%03dZ", date, (int)(now.tv_nsec / 1000000));
        json_object_set_new(o, "time", json_string(text));
    }
    for (size_t i = 0; o && i < ARRAY_SIZE(first); i++)
        if (json_object_get(message, first[i]))
            json_object_set(o, first[i], json_object_get(message, first[i]));
    if (o && json_object_update_missing(o, message) < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static int message_dump(json_t *message, struct buf *ret, struct error *err)
{
    json_t *ordered = message_in_order(message);
    if (!ordered)
        return error_set(err, ENOMEM, "out of memory");
    json_object_set(message, "time", json_object_get(ordered, "time"));
    int r = json_append(ret, ordered, 0);
    json_decref(ordered);
    if (ret->failed)
        return error_set(err, EMSGSIZE, "a message is larger than the maximum of %u bytes",
                         HISTORY_MESSAGE_MAX);
    return r < 0 ? error_set(err, EINVAL, "a message is not valid JSON") : 0;
}

int history_append(struct history *h, json_t *message, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX),
                             b = BUF_INIT(2u * HISTORY_MESSAGE_MAX);
    if (h->read_only)
        return error_set(err, EROFS, "session %s is open for reading only", h->id);
    int r = message_dump(message, &text, err);
    if (r < 0)
        return r;
    struct index_mark m = index_mark(&h->index);
    r = history_put_message(h, &b, text.data, text.len);
    if (r < 0) {
        history_revert_index(h, &m);
        return error_set(err, -r, r == -ENOMEM ? "out of memory" : "a message has no known role");
    }
    return history_commit(h, &b, &m, err);
}

/* A summary refers to messages by number; the copy numbers them differently. */
static int copy_summary(struct history *from, size_t i, const size_t *numbers, struct history *to,
                        struct buf *b, struct error *err)
{
    static const char *const counts[] = {"until", "stubs", "thoughts"};
    json_t *summary = NULL;
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
    int r = history_read(from, i, &summary, err);
    if (r < 0)
        return r;
    for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
        json_int_t number = json_integer_value(json_object_get(summary, counts[k]));
        if (number < 0 || (size_t)number > i)
            number = (json_int_t)i;
        json_object_set_new(summary, counts[k], json_integer((json_int_t)numbers[number]));
    }
    r = message_dump(summary, &text, err);
    json_decref(summary);
    if (r == 0)
        r = history_put_message(to, b, text.data, text.len);
    return r;
}

static int copy_message(struct history *from, size_t i, struct history *to, struct buf *b,
                        struct error *err)
{
    const struct history_entry *e = &from->index.entries[i];
    _cleanup_free_ char *text = malloc(e->length);
    if (!text)
        return error_set(err, ENOMEM, "out of memory");
    ssize_t n = pread(from->fd, text, e->length, (off_t)e->offset);
    if (n != (ssize_t)e->length)
        return error_errno(err, n < 0 ? errno : ESTALE, "cannot read %s", from->path);
    int r = history_put_message(to, b, text, e->length);
    return r < 0 ? error_errno(err, -r, "cannot copy message %zu of %s", i, from->path) : 0;
}

int history_copy_until(struct history *from, unsigned turn, struct history *to, struct error *err)
{
    _cleanup_free_ size_t *numbers = calloc(from->index.count + 1, sizeof *numbers);
    _cleanup_buf_ struct buf b = BUF_INIT(2u * HISTORY_MESSAGE_MAX);
    if (!numbers)
        return error_set(err, ENOMEM, "out of memory");
    int r = 0;
    struct index_mark m = index_mark(&to->index);
    for (size_t i = 0; r == 0 && i < from->index.count; i++) {
        const struct history_entry *e = &from->index.entries[i];
        numbers[i] = to->index.count;
        if (e->counts && (turn == 0 || e->turn <= turn) && e->kind != HISTORY_BOX &&
            e->kind != HISTORY_UNDO && e->kind != HISTORY_CLEARED)
            r = e->kind == HISTORY_SUMMARY ? copy_summary(from, i, numbers, to, &b, err)
                                           : copy_message(from, i, to, &b, err);
        if (r == 0 && b.len >= COPY_PIECE) {
            r = history_commit(to, &b, &m, err);
            m = index_mark(&to->index);
            b.len = 0;
        }
    }
    if (r < 0)
        history_revert_index(to, &m);
    return r == 0 && b.len > 0 ? history_commit(to, &b, &m, err) : r;
}
