/* Appending messages: one of the caller's, or those of another history. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "history_private.h"
#include "banned.h"

#define PIECE (1u << 20) /* of a copy, written at once */

static void go_back(struct history *h, const struct index_mark *m)
{
    pthread_mutex_lock(&h->lock);
    index_go_back(&h->index, m);
    pthread_mutex_unlock(&h->lock);
}

/* Puts one message, as it will stand in the file, behind what is to be written, and into the index.
 */
static int put_message(struct history *h, struct buf *b, const void *text, size_t n)
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

/* Writes what was put together since the mark. On failure, index and file are as they were. */
static int commit(struct history *h, struct buf *b, const struct index_mark *m, struct error *err)
{
    size_t end = b->len;
    int r = history_put_tail(&h->index.totals, b);
    if (r < 0)
        error_set(err, ENOMEM, "no memory to write %s", h->path);
    else
        r = history_write(h, b->data, b->len, err);
    if (r < 0) {
        go_back(h, m);
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

static json_t *now(void)
{
    struct timespec t;
    struct tm utc;
    char date[32], text[48];
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, sizeof text, "%s.%03dZ", date, (int)(t.tv_nsec / 1000000));
    return json_string(text);
}

/* The same message with what identifies it in front: people read the beginnings of lines. */
static json_t *in_order(json_t *message)
{
    static const char *const first[] = {"time", "role", "kind", "turn"};
    json_t *o = json_object();
    if (o && !json_object_get(message, "time"))
        json_object_set_new(o, "time", now());
    for (size_t i = 0; o && i < ARRAY_SIZE(first); i++)
        if (json_object_get(message, first[i]))
            json_object_set(o, first[i], json_object_get(message, first[i]));
    if (o && json_object_update_missing(o, message) < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static int put_json(const char *text, size_t n, void *data)
{
    return buf_append(data, text, n) < 0 ? -1 : 0;
}

static int dump(json_t *message, struct buf *ret, struct error *err)
{
    json_t *ordered = in_order(message);
    if (!ordered)
        return error_set(err, ENOMEM, "no memory for a message");
    json_object_set(message, "time", json_object_get(ordered, "time"));
    int r = json_dump_callback(ordered, put_json, ret, 0);
    json_decref(ordered);
    if (ret->failed)
        return error_set(err, EMSGSIZE, "a message of more than %u bytes cannot be kept",
                         HISTORY_MESSAGE_MAX);
    return r < 0 ? error_set(err, EINVAL, "a message is no valid JSON") : 0;
}

int history_append(struct history *h, json_t *message, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX),
                             b = BUF_INIT(2u * HISTORY_MESSAGE_MAX);
    if (h->read_only)
        return error_set(err, EROFS, "the session %s was opened to be read only", h->id);
    int r = dump(message, &text, err);
    if (r < 0)
        return r;
    struct index_mark m = index_mark(&h->index);
    r = put_message(h, &b, text.data, text.len);
    if (r < 0) {
        go_back(h, &m);
        return error_set(err, -r,
                         r == -ENOMEM ? "no memory for a message" : "a message has no known role");
    }
    return commit(h, &b, &m, err);
}

/* A summary says how far it goes in numbers of messages, which are others in the copy. */
static int put_summary(struct history *from, size_t i, const size_t *numbers, struct history *to,
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
    r = dump(summary, &text, err);
    json_decref(summary);
    if (r == 0)
        r = put_message(to, b, text.data, text.len);
    return r;
}

static int put_copy(struct history *from, size_t i, struct history *to, struct buf *b,
                    struct error *err)
{
    const struct history_entry *e = &from->index.entries[i];
    _cleanup_free_ char *text = malloc(e->length);
    if (!text)
        return error_set(err, ENOMEM, "no memory for a message");
    ssize_t n = pread(from->fd, text, e->length, (off_t)e->offset);
    if (n != (ssize_t)e->length)
        return error_errno(err, n < 0 ? errno : ESTALE, "cannot read %s", from->path);
    int r = put_message(to, b, text, e->length);
    return r < 0 ? error_errno(err, -r, "cannot copy message %zu of %s", i, from->path) : 0;
}

static bool is_copied(const struct history_entry *e, unsigned turn)
{
    return e->counts && (turn == 0 || e->turn <= turn) && e->kind != HISTORY_BOX &&
           e->kind != HISTORY_UNDO && e->kind != HISTORY_CLEARED;
}

int history_copy_until(struct history *from, unsigned turn, struct history *to, struct error *err)
{
    _cleanup_free_ size_t *numbers = calloc(from->index.count + 1, sizeof *numbers);
    _cleanup_buf_ struct buf b = BUF_INIT(2u * HISTORY_MESSAGE_MAX);
    if (!numbers)
        return error_set(err, ENOMEM, "no memory for a copy");
    int r = 0;
    struct index_mark m = index_mark(&to->index);
    for (size_t i = 0; r == 0 && i < from->index.count; i++) {
        const struct history_entry *e = &from->index.entries[i];
        numbers[i] = to->index.count;
        if (is_copied(e, turn))
            r = e->kind == HISTORY_SUMMARY ? put_summary(from, i, numbers, to, &b, err)
                                           : put_copy(from, i, to, &b, err);
        if (r == 0 && b.len >= PIECE) {
            r = commit(to, &b, &m, err);
            m = index_mark(&to->index);
            b.len = 0;
        }
    }
    if (r < 0)
        go_back(to, &m);
    return r == 0 && b.len > 0 ? commit(to, &b, &m, err) : r;
}
