/*
 * Searching: by words in three steps (all of them, any of them, their beginnings), each ranked by
 * BM25; by vectors where there are some; the ranks fused: a doc's score is the sum of 1 / (60 +
 * rank) over the lists that have it. What the session or the folder of the asker says counts a
 * little more, and so does what is new: a few hundredths, enough to decide between equals.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "history_file.h"
#include "memory_private.h"
#include "banned.h"

#define EACH_MAX    64 /* hits of one list */
#define FUSED_MAX   256
#define RANK_OFFSET 60

struct fused {
    struct memory_hit hits[FUSED_MAX];
    size_t count;
};

static void fuse(struct fused *f, sqlite3_int64 doc, size_t rank, double weight)
{
    double score = weight / (double)(RANK_OFFSET + rank);
    for (size_t i = 0; i < f->count; i++)
        if (f->hits[i].doc == doc) {
            f->hits[i].score += score;
            return;
        }
    if (f->count < FUSED_MAX)
        f->hits[f->count++] = (struct memory_hit){doc, score};
}

/* One list. What an earlier step found, a later one finds again: its rank there counts, too. */
static int match(struct memory *m, const struct memory_query *q, const struct memory_terms *t,
                 enum memory_match how, struct fused *f, struct error *err)
{
    static const double weights[N_MATCHES] = {
        [MATCH_ALL] = 1, [MATCH_ANY] = 0.6, [MATCH_BEGINNINGS] = 0.3};
    _cleanup_buf_ struct buf words = BUF_INIT(64u << 10);
    if (memory_match(t, how, &words) < 0 || !buf_cstr(&words))
        return error_set(err, ENOMEM, "no memory");
    _cleanup_stmt_ sqlite3_stmt *s = memory_prepare(
        m,
        "SELECT docs.id FROM words JOIN docs ON docs.id = words.rowid JOIN sessions ON "
        "sessions.id = docs.session"
        " WHERE words MATCH ?1 AND docs.undone = 0 AND (?2 IS NULL OR sessions.name = ?2)"
        " ORDER BY bm25(words, 1.0, 0.5), docs.id DESC LIMIT ?3",
        err);
    if (!s)
        return -EIO;
    sqlite3_bind_text(s, 1, (char *)words.data, (int)words.len, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, q->session, -1, SQLITE_STATIC);
    sqlite3_bind_int(s, 3, EACH_MAX);
    sqlite3_bind_text(s, 4, q->own ? history_id(q->own) : "", -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 5, q->workspace ? q->workspace : "", -1, SQLITE_STATIC);
    int done;
    for (size_t rank = 1; (done = sqlite3_step(s)) == SQLITE_ROW; rank++)
        fuse(f, sqlite3_column_int64(s, 0), rank, weights[how]);
    return done == SQLITE_DONE ? 0 : memory_failed(m, err);
}

static int find(struct memory *m, const struct memory_query *q, const struct memory_terms *t,
                struct fused *f, struct error *err)
{
    int r = 0;
    for (enum memory_match how = MATCH_ALL; r == 0 && t->count && how < N_MATCHES; how++)
        if (how == MATCH_ALL || (how == MATCH_ANY ? t->count > 1 : f->count < q->limit))
            r = match(m, q, t, how, f, err);
    if (r < 0 || !m->embedder)
        return r;
    struct memory_hit near[EACH_MAX];
    int n = memory_nearest(m, q, near, EACH_MAX);
    for (int i = 0; i < n; i++)
        fuse(f, near[i].doc, (size_t)i + 1, 1);
    return 0;
}

int memory_row(struct memory *m, sqlite3_int64 doc, struct memory_row *ret)
{
    _cleanup_stmt_ sqlite3_stmt *s =
        memory_prepare(m,
                       "SELECT sessions.name, message, part, at, n, turn, start, length "
                       "FROM docs JOIN sessions ON"
                       " sessions.id = docs.session WHERE docs.id = ?",
                       NULL);
    if (!s)
        return -EIO;
    sqlite3_bind_int64(s, 1, doc);
    if (sqlite3_step(s) != SQLITE_ROW)
        return -ENOENT;
    const char *name = (const char *)sqlite3_column_text(s, 0);
    *ret = (struct memory_row){
        .message = (size_t)sqlite3_column_int64(s, 1),
        .part = (size_t)sqlite3_column_int64(s, 2),
        .at = (size_t)sqlite3_column_int64(s, 3),
        .n = (size_t)sqlite3_column_int64(s, 4),
        .turn = (unsigned)sqlite3_column_int64(s, 5),
        .start = (uint64_t)sqlite3_column_int64(s, 6),
        .length = (size_t)sqlite3_column_int64(s, 7),
    };
    snprintf(ret->session, sizeof ret->session, "%s", name ? name : "");
    return 0;
}

int memory_message(struct memory *m, const struct memory_row *r, json_t **ret)
{
    char name[HISTORY_ID_MAX + 8];
    snprintf(name, sizeof name, "%s.json", r->session);
    _cleanup_fd_ int fd = openat(m->folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    _cleanup_free_ char *text = r->length <= HISTORY_MESSAGE_MAX ? malloc(r->length) : NULL;
    if (fd < 0 || !text || pread(fd, text, r->length, (off_t)r->start) != (ssize_t)r->length)
        return -ESTALE;
    *ret = json_loadb(text, r->length, JSON_ALLOW_NUL, NULL);
    return *ret ? 0 : -ESTALE;
}

static int compare(const void *a, const void *b)
{
    const struct memory_hit *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->doc > y->doc ? -1 : x->doc < y->doc;
}

/* A fork has the messages of what it was forked from: the same words are told once. */
static bool is_told(const json_t *hits, const char *snippet)
{
    size_t i;
    json_t *hit;
    json_array_foreach(hits, i, hit) if (strcmp(json_string_value(json_object_get(hit, "snippet")),
                                                snippet) == 0) return true;
    return false;
}

static int tell(const struct memory_row *row, const json_t *message, const struct memory_terms *t,
                double score, json_t *hits)
{
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX),
                             snippet = BUF_INIT(2 * MEMORY_SNIPPET_MAX);
    struct memory_part part;
    int r = memory_part(message, row->part, &part, &text);
    if (r < 0 || row->at + row->n > text.len)
        return r < 0 ? r : -ESTALE;
    memory_snippet((char *)text.data + row->at, row->n, t, &snippet);
    if (!buf_cstr(&snippet) || is_told(hits, (char *)snippet.data))
        return 0;
    json_t *hit =
        json_pack("{s:s, s:I, s:s*, s:s*, s:s, s:I, s:s, s:f}", "session", row->session, "message",
                  (json_int_t)row->message, "call", part.call, "time",
                  json_string_value(json_object_get(message, "time")), "role", part.role, "turn",
                  (json_int_t)row->turn, "snippet", (char *)snippet.data, "score", score);
    return hit ? json_array_append_new(hits, hit) : -EINVAL;
}

static json_t *tell_all(struct memory *m, const struct memory_query *q,
                        const struct memory_terms *t, const struct fused *f)
{
    json_t *hits = json_array();
    for (size_t i = 0; hits && i < f->count && json_array_size(hits) < q->limit; i++) {
        struct memory_row row;
        json_t *message = NULL;
        if (memory_row(m, f->hits[i].doc, &row) == 0 && memory_message(m, &row, &message) == 0)
            tell(&row, message, t, f->hits[i].score, hits);
        json_decref(message);
    }
    return hits;
}

static int search(struct memory *m, const struct memory_query *q, const struct memory_terms *t,
                  json_t **ret, struct error *err)
{
    struct fused f = {.count = 0};
    int r = memory_update(m, q->session, q->own, q->cancel, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&m->lock);
    r = find(m, q, t, &f, err);
    if (r < 0 && memory_is_damaged(m))
        r = memory_begin_anew(m, err) < 0 ? r : -EUCLEAN;
    if (r == 0) {
        if (f.count)
            qsort(f.hits, f.count, sizeof *f.hits, compare);
        *ret = tell_all(m, q, t, &f);
        r = *ret ? 0 : error_set(err, ENOMEM, "no memory");
    }
    pthread_mutex_unlock(&m->lock);
    return r;
}

int memory_search(struct memory *m, const struct memory_query *given, json_t **ret,
                  struct error *err)
{
    struct memory_query q = *given;
    struct memory_terms t;
    if (q.limit == 0 || q.limit > MEMORY_LIMIT_MAX)
        q.limit = q.limit ? MEMORY_LIMIT_MAX : 10;
    if (memory_terms(q.text, &t) < 0)
        return error_set(err, ENOMEM, "no memory");
    int r = search(m, &q, &t, ret, err);
    if (r == -EUCLEAN) /* it was damaged, and is being made anew */
        r = search(m, &q, &t, ret, err);
    memory_terms_free(&t);
    return r;
}
