/* A history in use: opening, closing, reading. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "history_file.h"
#include "utf8.h"
#include "json.h"
#include "banned.h"

static struct history *history_alloc(struct error *err)
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
    history_end_sync(h);
    cleanup_close(&h->fd);
    cleanup_close(&h->folder);
    json_decref(h->head);
    index_free(&h->index);
    pthread_mutex_destroy(&h->lock);
    free(h->trouble);
    free(h->path);
    free(h->name);
    free(h);
    return NULL;
}

int history_new(const char *workspace, const char *parent, unsigned parent_turn,
                struct history **ret, struct error *err)
{
    struct history *h = history_alloc(err);
    if (!h)
        return -ENOMEM;
    int r = history_reserve(h, err);
    if (r < 0) {
        history_close(h);
        return r;
    }
    char created[32];
    struct tm utc;
    time_t t = time(NULL);
    gmtime_r(&t, &utc);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    h->head = json_pack("{s:i, s:s, s:s}", "version", 1, "session", h->id, "created", created);
    if (!h->head) {
        history_close(h);
        return error_set(err, ENOMEM, "out of memory");
    }
    if (workspace && utf8_valid((const uint8_t *)workspace, strlen(workspace)))
        json_object_set_new(h->head, "workspace", json_string(workspace));
    if (parent)
        json_object_set_new(
            h->head, "forked_from",
            json_pack("{s:s, s:I}", "session", parent, "turn", (json_int_t)parent_turn));
    *ret = h;
    return 0;
}

static int history_load_file(struct history *h, struct error *err)
{
    _cleanup_loaded_ struct loaded l = {0};
    struct stat st;
    int r = history_load(h->fd, h->path, &l, err);
    if (r < 0)
        return r;
    if (fstat(h->fd, &st) < 0)
        return error_errno(err, errno, "cannot stat %s", h->path);
    h->exists = true;
    h->head = TAKE_PTR(l.head);
    h->index = l.index;
    l.index = INDEX_INIT;
    h->end = l.end;
    h->size = (uint64_t)st.st_size;
    const json_t *version = json_object_get(h->head, "version");
    if (json_is_integer(version) && json_integer_value(version) > 1)
        return error_set(err, EPROTONOSUPPORT,
                         "%s was written by a newer hutch (file version %lld); update hutch",
                         h->path, (long long)json_integer_value(version));
    r = history_repair(h, &l, err);
    h->count = h->index.count;
    return r;
}

int history_open(const char *given, bool read_only, struct history **ret, bool *ret_repaired,
                 struct error *err)
{
    struct history *h = history_alloc(err);
    if (!h)
        return -ENOMEM;
    h->read_only = read_only;
    h->exists = true;
    int r = history_find(given, h, err);
    if (r == 0)
        r = history_open_file(h, err);
    if (r == 0)
        r = history_load_file(h, err);
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
    pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
    pthread_mutex_lock(lock);
    size_t n = h->count;
    pthread_mutex_unlock(lock);
    return n;
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
    pthread_mutex_lock(&h->lock);
    bool is = i < h->count;
    if (is)
        *ret = h->index.entries[i];
    pthread_mutex_unlock(&h->lock);
    return is;
}

int history_read(struct history *h, size_t i, json_t **ret, struct error *err)
{
    struct history_entry e;
    if (!history_peek(h, i, &e))
        return error_set(err, ENOENT, "session %s has no message %zu", h->id, i);
    _cleanup_free_ char *text = malloc(e.length);
    if (!text)
        return error_set(err, ENOMEM, "out of memory for message %zu of %s", i, h->id);
    ssize_t n = pread(h->fd, text, e.length, (off_t)e.offset);
    if (n != (ssize_t)e.length)
        return error_errno(err, n < 0 ? errno : ESTALE, "cannot read message %zu of %s", i,
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
        if (e->role != HISTORY_HUTCH || !e->counts || !index_may_be(e->kind, kind))
            continue;
        if (history_read(h, i, &m, NULL) < 0)
            continue;
        const char *its = json_get_string(m, "kind");
        if (its && strcmp(its, kind) == 0)
            return m;
        json_decref(m);
    }
    return NULL;
}
