/*
 * Searching: by words in three steps (all of them, any of them, their beginnings), each ranked by
 * BM25; by vectors where there are some; the ranks fused: a doc's score is the sum of 1 / (60 +
 * rank) over the lists that have it.
 *
 * Vectors: the embedding of each piece of text, kept as floats of length 1, and compared with the
 * query's one by one. Without an answer of the provider, words are still found. A search embeds a
 * limited number of pieces, the newest first, so that none waits for a long past at once.
 *
 * A hit is shown as a snippet: the stretch of its text that has the most of what was asked for, on
 * one line. It looks for the terms as letters, without the tokenizer: a stemmed or composed form
 * may not be found, and then the beginning of the text is shown.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "conversation.h"
#include "history_file.h"
#include "io.h"
#include "memory_db.h"
#include "model.h"
#include "thread.h"
#include "text.h"
#include "banned.h"

#define TERMS_MAX           24
#define TERM_MAX            200
#define SNIPPET_BEFORE      80 /* bytes shown in front of the first match */
#define SNIPPET_MATCHES_MAX 64
#define EACH_MAX            64 /* hits of one list */
#define FUSED_MAX           256
#define RANK_OFFSET         60
#define BATCH               32
#define EMBED_MAX           256 /* pieces per search */
#define DIMENSION_MAX       8192

/* The terms of a query: words and phrases, cut to TERM_MAX bytes. */
struct search_terms {
    char *texts[TERMS_MAX];
    size_t count;
};

enum match_how { MATCH_ALL, MATCH_ANY, MATCH_BEGINNINGS, N_MATCHES };

static int search_terms_add(struct search_terms *t, const char *text, size_t n)
{
    bool word = false; /* has a letter or digit, or a byte that is not ASCII */
    for (size_t i = 0; i < n; i++)
        word |= isalnum((unsigned char)text[i]) || (unsigned char)text[i] >= 0x80;
    if (t->count == TERMS_MAX || !word)
        return 0;
    if (n > TERM_MAX) {
        n = TERM_MAX;
        n -= utf8_cut_end((const uint8_t *)text, n);
    }
    for (size_t i = 0; i < t->count; i++)
        if (strlen(t->texts[i]) == n && strncasecmp(t->texts[i], text, n) == 0)
            return 0;
    char *copy = strndup(text, n);
    if (!copy)
        return -ENOMEM;
    t->texts[t->count++] = copy;
    return 0;
}

static void search_terms_free(struct search_terms *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->texts[i]);
    t->count = 0;
}

static int search_terms_parse(const char *text, struct search_terms *ret)
{
    int r = 0;
    *ret = (struct search_terms){0};
    while (r == 0 && *text) {
        const char *end = *text == '"' ? strchr(text + 1, '"') : NULL;
        if (end) {
            r = search_terms_add(ret, text + 1, (size_t)(end - text - 1));
            text = end + 1;
            continue;
        }
        size_t n = strcspn(text, " \t\r\n\"");
        r = search_terms_add(ret, text, n);
        text += n ? n : 1;
    }
    if (r < 0)
        search_terms_free(ret);
    return r;
}

struct term_match {
    size_t at, term;
};

/* How many different terms are within one snippet from place i on? */
static size_t match_coverage(const struct term_match *p, size_t n, size_t i)
{
    uint64_t seen = 0;
    for (size_t k = i; k < n && p[k].at < p[i].at + MEMORY_SNIPPET_MAX - 2 * SNIPPET_BEFORE; k++)
        seen |= UINT64_C(1) << p[k].term;
    return (size_t)__builtin_popcountll(seen);
}

static int match_compare(const void *a, const void *b)
{
    const struct term_match *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Where the most of the terms stand close together. */
static void snippet_make(const char *text, size_t n, const struct search_terms *t, struct buf *ret)
{
    struct term_match matches[SNIPPET_MATCHES_MAX];
    size_t count = 0, best = 0, each_max = SNIPPET_MATCHES_MAX / TERMS_MAX + 1, i;
    for (size_t term = 0; term < t->count; term++) {
        size_t length = strlen(t->texts[term]), each = 0;
        for (size_t at = 0; at + length <= n && each < each_max && count < SNIPPET_MATCHES_MAX;) {
            if (strncasecmp(text + at, t->texts[term], length) != 0) {
                at++;
                continue;
            }
            matches[count++] = (struct term_match){at, term};
            at += length;
            each++;
        }
    }
    if (count > 0)
        qsort(matches, count, sizeof *matches, match_compare);
    for (i = 1; i < count; i++)
        if (match_coverage(matches, count, i) > match_coverage(matches, count, best))
            best = i;
    size_t at = count > 0 ? matches[best].at : 0;
    size_t from = at > SNIPPET_BEFORE ? at - SNIPPET_BEFORE : 0;
    from += utf8_cut_start((const uint8_t *)text + from, n - from);
    if (from > 0)
        buf_append_str(ret, "…");
    text_put_line(ret, text + from, n - from, MEMORY_SNIPPET_MAX - 4);
}

struct memory_hit {
    sqlite3_int64 doc;
    double score;
};

struct fused_hits {
    struct memory_hit hits[FUSED_MAX];
    size_t count;
};

static void fused_add(struct fused_hits *f, sqlite3_int64 doc, size_t rank, double weight)
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
static int search_words(struct memory *m, const struct memory_query *q,
                        const struct search_terms *t, enum match_how how, struct fused_hits *f,
                        struct error *err)
{
    static const double weights[N_MATCHES] = {
        [MATCH_ALL] = 1, [MATCH_ANY] = 0.6, [MATCH_BEGINNINGS] = 0.3};
    _cleanup_buf_ struct buf words = BUF_INIT(64u << 10);
    for (size_t i = 0; i < t->count; i++) { /* FTS5's language, always valid */
        buf_append_str(&words, i == 0 ? "\"" : how == MATCH_ALL ? " AND \"" : " OR \"");
        for (const char *c = t->texts[i]; *c; c++)
            buf_append(&words, *c == '"' ? " " : c, 1);
        buf_append_str(&words, how == MATCH_BEGINNINGS ? "\" *" : "\"");
    }
    if (words.failed)
        return error_set(err, ENOMEM, "out of memory");
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
    int done;
    for (size_t rank = 1; (done = sqlite3_step(s)) == SQLITE_ROW; rank++)
        fused_add(f, sqlite3_column_int64(s, 0), rank, weights[how]);
    return done == SQLITE_DONE ? 0 : memory_failed(m, err);
}

/* A row as text again, from its history. */
struct memory_row {
    char session[HISTORY_ID_MAX];
    uint64_t start; /* of the message in the file */
    size_t length, message, part, at, n;
    unsigned turn;
};

static int memory_row(struct memory *m, sqlite3_int64 doc, struct memory_row *ret)
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

static int memory_message(struct memory *m, const struct memory_row *r, json_t **ret)
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

/* A vector of the provider, normalized to length 1; NULL if it is not one. */
static float *vector_parse(const json_t *numbers, size_t *ret_n)
{
    size_t n = json_array_size(numbers);
    float *v = n > 0 && n <= DIMENSION_MAX ? malloc(n * sizeof *v) : NULL;
    double sum = 0;
    for (size_t i = 0; v && i < n; i++) {
        v[i] = (float)json_number_value(json_array_get(numbers, i));
        sum += (double)v[i] * (double)v[i];
    }
    if (v && (!isfinite(sum) || sum <= 0)) {
        free(v);
        return NULL;
    }
    for (size_t i = 0; v && i < n; i++)
        v[i] = (float)((double)v[i] / sqrt(sum));
    *ret_n = n;
    return v;
}

/* Embeds one batch of the pieces that have no vector yet, the newest first. -ENOENT: all have. */
static int vectors_embed_batch(struct memory *m, int cancel)
{
    sqlite3_int64 docs[BATCH];
    size_t count = 0, n;
    _cleanup_json_ json_t *texts = json_array(), *vectors = NULL;
    _cleanup_stmt_ sqlite3_stmt *missing =
        memory_prepare(m,
                       "SELECT id FROM docs WHERE undone = 0 AND NOT EXISTS (SELECT 1 FROM vectors"
                       " WHERE doc = docs.id AND embedder = ?) ORDER BY id DESC LIMIT ?",
                       NULL);
    _cleanup_stmt_ sqlite3_stmt *insert =
        memory_prepare(m, "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", NULL);
    if (!missing || !insert || !texts)
        return -ENOMEM;
    sqlite3_bind_text(missing, 1, m->embedder, -1, SQLITE_STATIC);
    sqlite3_bind_int(missing, 2, BATCH);
    while (sqlite3_step(missing) == SQLITE_ROW) {
        _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
        _cleanup_json_ json_t *message = NULL;
        struct memory_row row;
        struct memory_part part;
        docs[count] = sqlite3_column_int64(missing, 0);
        if (memory_row(m, docs[count], &row) == 0 && memory_message(m, &row, &message) == 0 &&
            memory_part(message, row.part, &part, &text) == 0 && row.at + row.n <= text.len &&
            json_array_append_new(texts, json_stringn((char *)text.data + row.at, row.n)) == 0)
            count++;
    }
    if (count == 0)
        return -ENOENT;
    int r = model_embed(m->model, m->embedder, texts, cancel, &vectors, NULL);
    if (r == 0 && json_array_size(vectors) != count)
        r = -EPROTO;
    if (r == 0)
        r = memory_run(m, "BEGIN IMMEDIATE", NULL);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < count; i++) {
        _cleanup_free_ float *v = vector_parse(json_array_get(vectors, i), &n);
        if (!v) {
            r = -EPROTO;
            break;
        }
        sqlite3_bind_int64(insert, 1, docs[i]);
        sqlite3_bind_text(insert, 2, m->embedder, -1, SQLITE_STATIC);
        sqlite3_bind_blob(insert, 3, v, (int)(n * sizeof *v), SQLITE_TRANSIENT);
        r = sqlite3_step(insert) == SQLITE_DONE ? 0 : -EIO;
        sqlite3_reset(insert);
    }
    memory_run(m, r == 0 ? "COMMIT" : "ROLLBACK", NULL);
    return r;
}

void memory_embed_new(struct memory *m, int cancel)
{
    for (size_t done = 0; done < EMBED_MAX; done += BATCH)
        if (vectors_embed_batch(m, cancel) < 0)
            return;
}

/* Inserts a hit into the list of the best ones, if it is good enough. */
static size_t hits_insert(struct memory_hit *best, size_t count, size_t max, struct memory_hit h)
{
    size_t i = count;
    if (count == max && h.score <= best[count - 1].score)
        return count;
    if (count < max)
        count++;
    else
        i--;
    for (; i > 0 && best[i - 1].score < h.score; i--)
        best[i] = best[i - 1];
    best[i] = h;
    return count;
}

/* The nearest of all; returns how many, or a negative errno. */
static int memory_nearest(struct memory *m, const struct memory_query *q, struct memory_hit *ret,
                          size_t max)
{
    _cleanup_json_ json_t *vectors = NULL, *texts = json_pack("[s]", q->text);
    size_t n = 0, count = 0;
    int r = texts ? model_embed(m->model, m->embedder, texts, q->cancel, &vectors, NULL) : -ENOMEM;
    if (r < 0)
        return r;
    _cleanup_free_ float *wanted = vector_parse(json_array_get(vectors, 0), &n);
    if (!wanted)
        return -EPROTO;
    _cleanup_stmt_ sqlite3_stmt *s =
        memory_prepare(m,
                       "SELECT docs.id, vector FROM vectors JOIN docs ON docs.id = vectors.doc"
                       " JOIN sessions ON sessions.id = docs.session WHERE embedder = ?1"
                       " AND docs.undone = 0 AND (?2 IS NULL OR sessions.name = ?2)",
                       NULL);
    if (!s)
        return -EIO;
    sqlite3_bind_text(s, 1, m->embedder, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, q->session, -1, SQLITE_STATIC);
    while (sqlite3_step(s) == SQLITE_ROW) {
        if ((size_t)sqlite3_column_bytes(s, 1) != n * sizeof(float))
            continue;
        const char *blob = sqlite3_column_blob(s, 1);
        double product = 0;
        for (size_t i = 0; i < n; i++) {
            float f;
            memcpy(&f, blob + i * sizeof f, sizeof f);
            product += (double)f * (double)wanted[i];
        }
        count =
            hits_insert(ret, count, max, (struct memory_hit){sqlite3_column_int64(s, 0), product});
    }
    return (int)count;
}

static int hit_compare(const void *a, const void *b)
{
    const struct memory_hit *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->doc > y->doc ? -1 : x->doc < y->doc;
}

static int hits_add(const struct memory_row *row, const json_t *message,
                    const struct search_terms *t, double score, json_t *hits)
{
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX),
                             snippet = BUF_INIT(2 * MEMORY_SNIPPET_MAX - 4);
    struct memory_part part;
    size_t i;
    json_t *hit;
    int r = memory_part(message, row->part, &part, &text);
    if (r < 0 || row->at + row->n > text.len)
        return r < 0 ? r : -ESTALE;
    snippet_make((char *)text.data + row->at, row->n, t, &snippet);
    if (!buf_cstr(&snippet))
        return 0;
    /* A fork has the messages of what it was forked from: the same words are shown once. */
    json_array_foreach(hits, i, hit)
    {
        if (strcmp(json_get_string(hit, "snippet"), (char *)snippet.data) == 0)
            return 0;
    }
    hit = json_pack("{s:s, s:I, s:s*, s:s*, s:s, s:I, s:s, s:f}", "session", row->session,
                    "message", (json_int_t)row->message, "call", part.call, "time",
                    json_get_string(message, "time"), "role", part.role, "turn",
                    (json_int_t)row->turn, "snippet", (char *)snippet.data, "score", score);
    return hit ? json_array_append_new(hits, hit) : -EINVAL;
}

static int search_locked(struct memory *m, const struct memory_query *q,
                         const struct search_terms *t, json_t **ret, struct error *err)
{
    struct fused_hits f = {.count = 0};
    struct memory_hit near[EACH_MAX];
    for (enum match_how how = MATCH_ALL; t->count && how < N_MATCHES; how++) {
        if (how == MATCH_ANY ? t->count < 2 : how == MATCH_BEGINNINGS && f.count >= q->limit)
            continue;
        int r = search_words(m, q, t, how, &f, err);
        if (r < 0)
            return memory_is_damaged(m) && memory_rebuild(m, err) == 0 ? -EUCLEAN : r;
    }
    int n = m->embedder ? memory_nearest(m, q, near, EACH_MAX) : 0;
    for (int i = 0; i < n; i++)
        fused_add(&f, near[i].doc, (size_t)i + 1, 1);
    if (f.count)
        qsort(f.hits, f.count, sizeof *f.hits, hit_compare);
    json_t *hits = json_array();
    if (!hits)
        return error_set(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < f.count && json_array_size(hits) < q->limit; i++) {
        struct memory_row row;
        _cleanup_json_ json_t *message = NULL;
        if (memory_row(m, f.hits[i].doc, &row) == 0 && memory_message(m, &row, &message) == 0)
            hits_add(&row, message, t, f.hits[i].score, hits);
    }
    *ret = hits;
    return 0;
}

int memory_search(struct memory *m, const struct memory_query *given, json_t **ret,
                  struct error *err)
{
    struct memory_query q = *given;
    struct search_terms t;
    if (q.limit == 0 || q.limit > MEMORY_LIMIT_MAX)
        q.limit = q.limit ? MEMORY_LIMIT_MAX : 10;
    if (search_terms_parse(q.text, &t) < 0)
        return error_set(err, ENOMEM, "out of memory");
    int r = -EUCLEAN;
    for (int tries = 0; r == -EUCLEAN && tries < 2; tries++) { /* it may be damaged, and rebuilt */
        r = memory_update(m, q.session, q.own, q.cancel, err);
        if (r < 0)
            break;
        pthread_mutex_lock(&m->lock);
        r = search_locked(m, &q, &t, ret, err);
        pthread_mutex_unlock(&m->lock);
    }
    search_terms_free(&t);
    return r;
}
