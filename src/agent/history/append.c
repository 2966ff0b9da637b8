/*
 * Appending messages: a caller's own, or those of another history.
 *
 * A write that fails leaves its beginning behind; what closed the file is then put back, over bytes
 * that the file has already, so that even a full disk has room for it.
 *
 * With history_defer() a thread syncs what was written while the caller continues. What is written
 * first reaches the disk first; history_settle() waits for all of it. A sync starts a moment after
 * the first message, so that those that follow closely share it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "history_file.h"
#include "json.h"
#include "thread.h"
#include "banned.h"

#define SYNC_DELAY_NS (5 * NS_PER_MS)
#define COPY_PIECE    (1u << 20) /* of a copy, written at once */

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

/* Writes whole messages, with what separates and closes them, where the next message goes. The file
 * gets its name when its first bytes are safe. */
static int history_write(struct history *h, const void *data, size_t n, struct error *err)
{
    struct stat st;
    _cleanup_buf_ struct buf first = BUF_INIT(2u * HISTORY_MESSAGE_MAX);
    if (!h->exists) {
        int r = history_put_head(h->head, &first);
        uint64_t head = first.len;
        if (r == 0)
            r = buf_append(&first, data, n);
        if (r == 0)
            r = history_write_at(h->fd, first.data, first.len, 0);
        if (r == 0 && !h->deferred && fsync(h->fd) < 0)
            r = -errno;
        if (r < 0 && ftruncate(h->fd, 0) < 0)
            r = -errno;
        if (r < 0)
            return error_errno(err, -r, "cannot write %s", h->path);
        r = history_publish(h, err);
        if (r < 0)
            return r;
        h->exists = true;
        h->end = head;
        h->size = first.len;
        return 0;
    }
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

void history_defer(struct history *h)
{
    h->deferred = true;
}

int history_sync(struct history *h, bool named)
{
    if (h->deferred && !h->syncer && (h->syncer = calloc(1, sizeof *h->syncer))) {
        *h->syncer = (struct history_syncer){.lock = PTHREAD_MUTEX_INITIALIZER,
                                             .news = PTHREAD_COND_INITIALIZER,
                                             .hurry = PTHREAD_COND_INITIALIZER,
                                             .file = h->fd,
                                             .folder = h->folder};
        if (pthread_create(&h->syncer->thread, NULL, syncer_thread, h->syncer) != 0) {
            free(h->syncer);
            h->syncer = NULL;
        }
    }
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

/* Adds a message to the bytes to write and to the index, with what identifies it in front: people
 * read the beginnings of lines. Sets its time if it has none. */
static int history_put_message(struct history *h, json_t *message, struct buf *b, struct error *err)
{
    static const char *const first[] = {"time", "role", "kind", "turn"};
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
    _cleanup_json_ json_t *ordered = json_object();
    if (!json_object_get(message, "time")) {
        struct timespec now;
        struct tm utc;
        char date[32];
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &utc);
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
        json_object_set_new(message, "time",
                            json_sprintf("%s.%03dZ", date, (int)(now.tv_nsec / 1000000)));
    }
    for (size_t i = 0; i < ARRAY_SIZE(first); i++)
        if (json_object_get(message, first[i]))
            json_object_set(ordered, first[i], json_object_get(message, first[i]));
    if (!ordered || json_object_update_missing(ordered, message) < 0)
        return error_set(err, ENOMEM, "out of memory");
    int r = json_append(&text, ordered, 0);
    if (text.failed)
        return error_set(err, EMSGSIZE, "a message is larger than the maximum of %u bytes",
                         HISTORY_MESSAGE_MAX);
    if (r < 0)
        return error_set(err, EINVAL, "a message is not valid JSON");

    buf_append_str(b, h->index.count ? ",\n" : "\n");
    pthread_mutex_lock(&h->lock);
    r = index_add(&h->index, ordered, b->len, text.len);
    enum history_kind kind = r == 0 ? h->index.entries[h->index.count - 1].kind : HISTORY_OTHER;
    if (kind == HISTORY_UNDO || kind == HISTORY_CLEARED)
        index_settle(&h->index);
    pthread_mutex_unlock(&h->lock);
    if (r == 0)
        r = buf_append(b, text.data, text.len);
    if (r == -EBADMSG)
        return error_set(err, EBADMSG, "a message has no known role");
    return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

static void history_revert_index(struct history *h, const struct index_mark *m)
{
    pthread_mutex_lock(&h->lock);
    index_go_back(&h->index, m);
    pthread_mutex_unlock(&h->lock);
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
        struct stat st;
        history_revert_index(h, m);
        /* If even that fails, the next append writes over it; a crash until then tears it. */
        if (r != -ESTALE && h->exists && history_close_file(h) < 0 && fstat(h->fd, &st) == 0)
            h->size = (uint64_t)st.st_size;
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

int history_append(struct history *h, json_t *message, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(2u * HISTORY_MESSAGE_MAX);
    if (h->read_only)
        return error_set(err, EROFS, "session %s is open for reading only", h->id);
    struct index_mark m = index_mark(&h->index);
    int r = history_put_message(h, message, &b, err);
    if (r < 0) {
        history_revert_index(h, &m);
        return r;
    }
    return history_commit(h, &b, &m, err);
}

/* A summary refers to messages by number; the copy numbers them differently: numbers[i] is the
 * first message of the copy that stands at or behind message i. */
static void summary_renumber(json_t *summary, size_t i, const size_t *numbers)
{
    static const char *const members[] = {"until", "stubs", "thoughts"};
    for (size_t k = 0; k < ARRAY_SIZE(members); k++) {
        json_int_t number = json_get_integer(summary, members[k]);
        if (number < 0 || (size_t)number > i)
            number = (json_int_t)i;
        json_object_set_new(summary, members[k], json_integer((json_int_t)numbers[number]));
    }
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
        _cleanup_json_ json_t *message = NULL;
        numbers[i] = to->index.count;
        if (!e->counts || (turn > 0 && e->turn > turn) || e->kind == HISTORY_BOX ||
            e->kind == HISTORY_UNDO || e->kind == HISTORY_CLEARED)
            continue;
        r = history_read(from, i, &message, err);
        if (r == 0 && e->kind == HISTORY_SUMMARY)
            summary_renumber(message, i, numbers);
        if (r == 0)
            r = history_put_message(to, message, &b, err);
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
