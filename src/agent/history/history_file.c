/*
 * A history in use: its index, opening, reading and appending.
 *
 * The index is built from one message at a time; it says what each message is and whether it still
 * counts. Appending is one write over what closes the file. A write that fails leaves its beginning
 * behind; what closed the file is then put back, over bytes that the file has already, so that even
 * a full disk has room for it.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "history_file.h"
#include "io.h"
#include "json.h"
#include "thread.h"
#include "text.h"
#include "banned.h"

#define COPY_PIECE (1u << 20) /* of a copy, written at once */

static const char *const KINDS[] = {
    [HISTORY_BOX] = "box",         [HISTORY_SNAPSHOT] = "snapshot", [HISTORY_UNDO] = "undo",
    [HISTORY_SUMMARY] = "summary", [HISTORY_PLAN] = "plan",         [HISTORY_APPLIED] = "applied",
    [HISTORY_CLEARED] = "cleared", [HISTORY_NOTE] = "note",
};

static enum history_kind kind_by_name(const char *name)
{
    for (size_t i = HISTORY_BOX; i < ARRAY_SIZE(KINDS); i++)
        if (strcmp(name, KINDS[i]) == 0)
            return (enum history_kind)i;
    return HISTORY_OTHER;
}

/* A turn's number, or 0. */
static unsigned message_turn(const json_t *message, const char *member)
{
    json_int_t n = json_get_integer(message, member);
    return n > 0 && n <= HISTORY_TURN_MAX ? (unsigned)n : 0;
}

/* The totals stand where the next message is written over them: nothing in them may look like the
 * end of a message (load.c), so a model's name with strange characters is left out. */
static void totals_add_answer(struct history_totals *t, const json_t *message)
{
    static const char *const counts[] = {"input", "output", "cache_read", "cache_write"};
    uint64_t *const sums[] = {&t->input, &t->output, &t->cache_read, &t->cache_write};
    double cost = -1;
    const char *model = json_get_string_or(message, "model", "");
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        json_int_t n = json_get_integer(json_object_get(message, "usage"), counts[i]);
        *sums[i] += n > 0 && n <= UINT32_MAX ? (uint64_t)n : 0;
    }
    json_unpack((json_t *)message, "{s:F}", "cost", &cost);
    if (cost >= 0 && cost < 1e9)
        t->cost = (t->cost < 0 ? 0 : t->cost) + cost;
    for (const char *at = model; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("-._:/@+ ", *at))
            return;
    if (*model && strlen(model) < sizeof t->model)
        snprintf(t->model, sizeof t->model, "%s", model);
}

int index_add(struct history_index *x, const json_t *message, uint64_t offset, size_t length)
{
    static const char *const roles[] = {
        [HISTORY_USER] = "user", [HISTORY_ASSISTANT] = "assistant", [HISTORY_HUTCH] = "hutch"};
    struct history_entry e = {.offset = offset, .length = (uint32_t)length, .counts = true};
    const char *role = json_get_string_or(message, "role", "");
    size_t i = 0;
    while (i < ARRAY_SIZE(roles) && strcmp(roles[i], role) != 0)
        i++;
    if (i == ARRAY_SIZE(roles) || length > HISTORY_MESSAGE_MAX)
        return -EBADMSG;
    e.role = (enum history_role)i;
    if (!ARRAY_GROW(x->entries, x->count, x->cap))
        return -ENOMEM;
    if (e.role == HISTORY_HUTCH)
        e.kind = kind_by_name(json_get_string_or(message, "kind", ""));
    /* Where a turn begins, and how far an undo goes back. */
    if (e.role == HISTORY_USER && message_turn(message, "turn") > 0) {
        e.begins_turn = true;
        x->turn = message_turn(message, "turn");
    } else if (e.kind == HISTORY_UNDO && json_is_integer(json_object_get(message, "to"))) {
        unsigned to = message_turn(message, "to");
        x->turn = to < x->turn ? to : x->turn;
    } else if (e.kind == HISTORY_CLEARED) {
        x->turn = 0;
    }
    e.turn = x->turn;
    x->entries[x->count++] = e;
    if (e.role == HISTORY_ASSISTANT)
        totals_add_answer(&x->totals, message);
    x->totals.messages = x->count;
    x->totals.turns = x->turn;
    return 0;
}

/* An undo stands behind what it takes back, so the entries are read backwards. The turn of an
 * undo's entry is where it led. */
void index_settle(struct history_index *x)
{
    unsigned limit = UINT32_MAX;
    bool cleared = false;
    for (size_t i = x->count; i-- > 0;) {
        struct history_entry *e = &x->entries[i];
        bool marks =
            e->kind == HISTORY_BOX || e->kind == HISTORY_UNDO || e->kind == HISTORY_CLEARED;
        e->undone = !marks && e->turn > limit;
        e->counts = marks || (!cleared && !e->undone);
        if (e->kind == HISTORY_CLEARED) {
            cleared = true;
            limit = UINT32_MAX; /* what was undone before is of other turns */
        }
        if (e->kind == HISTORY_UNDO && e->turn < limit)
            limit = e->turn;
    }
}

struct index_mark index_mark(const struct history_index *x)
{
    return (struct index_mark){x->count, x->turn, x->totals};
}

void index_go_back(struct history_index *x, const struct index_mark *m)
{
    x->count = m->count;
    x->turn = m->turn;
    x->totals = m->totals;
    index_settle(x);
}

struct history *history_alloc(struct error *err)
{
    struct history *h = calloc(1, sizeof *h);
    if (!h) {
        error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    h->folder = h->fd = -1;
    h->index = INDEX_INIT;
    pthread_mutex_init(&h->lock, NULL);
    return h;
}

struct history *history_close(struct history *h)
{
    if (!h)
        return NULL;
    if (!h->exists && !h->read_only && h->fd >= 0)
        history_unreserve(h);
    history_sync(h, NULL);
    cleanup_close(&h->fd);
    cleanup_close(&h->folder);
    json_decref(h->head);
    free(h->index.entries);
    pthread_mutex_destroy(&h->lock);
    free(h->trouble);
    free(h->path);
    free(h->name);
    free(h);
    return NULL;
}

int history_new(const char *folder, const char *workspace, const char *parent, unsigned parent_turn,
                struct history **ret, struct error *err)
{
    char created[32];
    struct tm utc;
    time_t t = time(NULL);
    struct history *h = history_alloc(err);
    if (!h)
        return -ENOMEM;
    int r = history_reserve(folder, h, err);
    if (r < 0) {
        history_close(h);
        return r;
    }
    gmtime_r(&t, &utc);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    bool named = workspace && utf8_valid((const uint8_t *)workspace, strlen(workspace));
    json_t *forked =
        parent ? json_pack("{s:s, s:I}", "session", parent, "turn", (json_int_t)parent_turn) : NULL;
    h->head = json_pack("{s:i, s:s, s:s, s:s*, s:o*}", "version", 1, "session", h->id, "created",
                        created, "workspace", named ? workspace : NULL, "forked_from", forked);
    if (!h->head) {
        history_close(h);
        return error_set(err, ENOMEM, "out of memory");
    }
    *ret = h;
    return 0;
}

int history_open(const char *folder, const char *given, bool read_only, struct history **ret,
                 bool *ret_repaired, struct error *err)
{
    _cleanup_loaded_ struct loaded l = {0};
    struct stat st;
    struct history *h = history_alloc(err);
    if (!h)
        return -ENOMEM;
    h->read_only = read_only;
    h->exists = true;
    int r = history_find(folder, given, h, err);
    if (r == 0)
        r = history_open_file(h, err);
    if (r == 0)
        r = history_load(h->fd, h->path, &l, err);
    if (r == 0 && fstat(h->fd, &st) < 0)
        r = error_errno(err, errno, "cannot stat %s", h->path);
    if (r == 0) {
        h->head = TAKE_PTR(l.head);
        h->index = l.index;
        l.index = INDEX_INIT;
        h->end = l.end;
        h->size = (uint64_t)st.st_size;
        json_int_t version = json_get_integer(h->head, "version");
        r = version <= 1
                ? history_repair(h, &l, err)
                : error_set(err, EPROTONOSUPPORT,
                            "%s was written by a newer hutch (file version %lld); update hutch",
                            h->path, (long long)version);
        h->count = h->index.count;
    }
    if (r < 0) {
        history_close(h);
        return r;
    }
    if (ret_repaired)
        *ret_repaired = h->trouble;
    *ret = h;
    return 0;
}

const char *history_trouble(const struct history *h)
{
    return h->trouble;
}

const char *history_id(const struct history *h)
{
    return h->id;
}

const char *history_workspace(const struct history *h)
{
    return json_get_string(h->head, "workspace");
}

const char *history_path(const struct history *h)
{
    return h->path;
}

const json_t *history_head(const struct history *h)
{
    return h->head;
}

void history_totals(const struct history *h, struct history_totals *ret)
{
    *ret = h->index.totals;
}

size_t history_count(const struct history *h)
{
    LOCKED((pthread_mutex_t *)&h->lock);
    return h->count;
}

const struct history_entry *history_entry(const struct history *h, size_t i)
{
    return i < h->index.count ? &h->index.entries[i] : NULL;
}

unsigned history_turns(const struct history *h)
{
    return h->index.turn;
}

bool history_peek(struct history *h, size_t i, struct history_entry *ret)
{
    LOCKED(&h->lock);
    if (i < h->count)
        *ret = h->index.entries[i];
    return i < h->count;
}

int history_read(struct history *h, size_t i, json_t **ret, struct error *err)
{
    struct history_entry e;
    if (!history_peek(h, i, &e))
        return error_set(err, ENOENT, "session %s has no message %zu", h->id, i);
    _cleanup_free_ char *text = malloc(e.length);
    if (!text)
        return error_set(err, ENOMEM, "out of memory for message %zu of %s", i, h->id);
    ssize_t n = io_read_at(h->fd, text, e.length, e.offset);
    if (n != (ssize_t)e.length)
        return error_errno(err, n < 0 ? (int)-n : ESTALE, "cannot read message %zu of %s", i,
                           h->path);
    json_error_t why;
    json_t *message = json_loadb(text, e.length, JSON_ALLOW_NUL, &why);
    if (!message)
        return error_set(err, EBADMSG, "message %zu of %s: %s", i, h->path, why.text);
    *ret = message;
    return 0;
}

json_t *history_last(struct history *h, const char *kind)
{
    for (size_t i = h->count; i-- > 0;) {
        const struct history_entry *e = &h->index.entries[i];
        json_t *m = NULL;
        if (e->role != HISTORY_HUTCH || !e->counts || e->kind != kind_by_name(kind) ||
            history_read(h, i, &m, NULL) < 0)
            continue;
        if (strcmp(json_get_string_or(m, "kind", ""), kind) == 0)
            return m;
        json_decref(m);
    }
    return NULL;
}

int history_put_head(const json_t *head, struct buf *b)
{
    size_t from = b->len;
    if (json_append(b, head, 0) < 0)
        return -ENOMEM;
    b->len--; /* the closing brace */
    return buf_append_str(b, b->len - from > 1 ? ", \"messages\": [" : "\"messages\": [");
}

static int history_put_tail(const struct history_totals *t, struct buf *b)
{
    bool used = t->input || t->output;
    _cleanup_json_ json_t *totals =
        json_pack("{s:I, s:I, s:s*, s:o*, s:o*, s:o*}", "turns", (json_int_t)t->turns, "messages",
                  (json_int_t)t->messages, "model", t->model[0] ? t->model : NULL, "input",
                  used ? json_integer((json_int_t)t->input) : NULL, "output",
                  used ? json_integer((json_int_t)t->output) : NULL, "cost",
                  t->cost >= 0 ? json_real(t->cost) : NULL);
    buf_append_str(b, "\n], \"totals\": ");
    int r = totals ? json_append(b, totals, JSON_REAL_PRECISION(8)) : -1;
    return r < 0 || buf_append_str(b, "}\n") < 0 ? -ENOMEM : 0;
}

int history_close_file(struct history *h)
{
    _cleanup_buf_ struct buf tail = BUF_INIT(HISTORY_TAIL_MAX);
    int r = history_put_tail(&h->index.totals, &tail);
    if (r == 0)
        r = io_write_at(h->fd, tail.data, tail.len, h->end);
    if (r == 0 && ftruncate(h->fd, (off_t)(h->end + tail.len)) < 0)
        r = -errno;
    if (r == 0)
        h->size = h->end + tail.len;
    return r;
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
    LOCKED(&h->lock);
    index_go_back(&h->index, m);
}

/* Writes what was added since the mark. On failure, index and file are as they were. */
static int history_commit(struct history *h, struct buf *b, const struct index_mark *m,
                          struct error *err)
{
    size_t n = b->len;
    struct stat st;
    _cleanup_buf_ struct buf head = BUF_INIT(HISTORY_MESSAGE_MAX);
    int r = history_put_tail(&h->index.totals, b);
    if (r == 0 && !h->exists)
        r = history_put_head(h->head, &head);
    if (r < 0) {
        error_set(err, ENOMEM, "out of memory while writing %s", h->path);
    } else if (!h->exists) { /* the file gets its name when its first messages are in it */
        r = io_write_at(h->fd, head.data, head.len, 0);
        if (r == 0)
            r = io_write_at(h->fd, b->data, b->len, head.len);
        if (r < 0 && ftruncate(h->fd, 0) < 0)
            r = -errno;
        r = r < 0 ? error_errno(err, -r, "cannot write %s", h->path) : history_publish(h, err);
        if (r == 0) {
            h->exists = h->folder_unsynced = true;
            h->end = head.len;
        }
    } else if (fstat(h->fd, &st) < 0) {
        r = error_errno(err, errno, "cannot stat %s", h->path);
    } else if (st.st_nlink == 0) {
        r = error_set(
            err, ESTALE,
            "another program removed or replaced %s: the session cannot be saved; start a new one",
            h->path);
    } else if ((uint64_t)st.st_size != h->size) {
        r = error_set(err, ESTALE,
                      "another program changed %s; resume the session to continue from there",
                      h->path);
    } else {
        r = io_write_at(h->fd, b->data, b->len, h->end);
        if (r == 0 && h->end + b->len < h->size && ftruncate(h->fd, (off_t)(h->end + b->len)) < 0)
            r = -errno;
        if (r < 0)
            error_errno(err, -r, "cannot write %s", h->path);
    }
    if (r < 0) {
        history_revert_index(h, m);
        /* If even that fails, the next append writes over it; a crash until then tears it. */
        if (r != -ESTALE && h->exists && history_close_file(h) < 0 && fstat(h->fd, &st) == 0)
            h->size = (uint64_t)st.st_size;
        return r;
    }
    LOCKED(&h->lock);
    for (size_t i = m->count; i < h->index.count; i++)
        h->index.entries[i].offset += h->end;
    h->count = h->index.count;
    h->unsynced = true;
    h->size = h->end + b->len;
    h->end += n;
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

int history_sync(struct history *h, struct error *err)
{
    if ((h->unsynced && fdatasync(h->fd) < 0) || (h->folder_unsynced && fsync(h->folder) < 0))
        return error_errno(err, errno, "cannot sync %s to disk", h->path);
    h->unsynced = h->folder_unsynced = false;
    return 0;
}

int history_copy_until(struct history *from, unsigned turn, struct history *to, struct error *err)
{
    /* A summary refers to messages by number; the copy numbers them differently: numbers[i] is the
     * first message of the copy that stands at or behind message i. */
    static const char *const members[] = {"until", "stubs", "thoughts"};
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
        for (size_t k = 0; r == 0 && e->kind == HISTORY_SUMMARY && k < ARRAY_SIZE(members); k++) {
            json_int_t number = json_get_integer(message, members[k]);
            size_t at = number < 0 || (size_t)number > i ? i : (size_t)number;
            json_object_set_new(message, members[k], json_integer((json_int_t)numbers[at]));
        }
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
