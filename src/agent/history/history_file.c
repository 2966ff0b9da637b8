/*
 * A history in use: opening, closing, reading; and its index, which is built from one message at a
 * time and says what each of them is and whether it still counts.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "history_file.h"
#include "json.h"
#include "text.h"
#include "banned.h"

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
    const json_t *usage = json_object_get(message, "usage"),
                 *cost = json_object_get(message, "cost");
    const char *model = json_get_string_or(message, "model", "");
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        json_int_t n = json_get_integer(usage, counts[i]);
        *sums[i] += n > 0 && n <= UINT32_MAX ? (uint64_t)n : 0;
    }
    if (json_is_number(cost) && json_number_value(cost) >= 0 && json_number_value(cost) < 1e9)
        t->cost = (t->cost < 0 ? 0 : t->cost) + json_number_value(cost);
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
    if (x->count == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 64;
        struct history_entry *more = reallocarray(x->entries, cap, sizeof *more);
        if (!more)
            return -ENOMEM;
        x->entries = more;
        x->cap = cap;
    }
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

void index_free(struct history_index *x)
{
    free(x->entries);
    *x = INDEX_INIT;
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
    char created[32];
    struct tm utc;
    time_t t = time(NULL);
    struct history *h = history_alloc(err);
    if (!h)
        return -ENOMEM;
    int r = history_reserve(h, err);
    if (r < 0) {
        history_close(h);
        return r;
    }
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
    json_int_t version = json_get_integer(h->head, "version");
    if (version > 1)
        return error_set(err, EPROTONOSUPPORT,
                         "%s was written by a newer hutch (file version %lld); update hutch",
                         h->path, (long long)version);
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
        if (e->role != HISTORY_HUTCH || !e->counts || e->kind != kind_by_name(kind) ||
            history_read(h, i, &m, NULL) < 0)
            continue;
        if (strcmp(json_get_string_or(m, "kind", ""), kind) == 0)
            return m;
        json_decref(m);
    }
    return NULL;
}
