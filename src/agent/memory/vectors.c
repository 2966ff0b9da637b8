/*
 * Vectors: the embedding of each piece of text, kept as floats of length 1, and compared with the
 * query's one by one. Without an answer of the provider, words are still found.
 *
 * A search embeds a limited number of pieces, the newest first, so that none waits for a long past
 * at once.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "history_file.h"
#include "memory_db.h"
#include "model.h"
#include "banned.h"

#define BATCH         32
#define EACH_TIME     256 /* pieces per search */
#define DIMENSION_MAX 8192

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

struct batch {
    sqlite3_int64 docs[BATCH];
    size_t count;
    json_t *texts;
};

/* The next pieces without a vector, the newest first. */
static int batch_fill(struct memory *m, struct batch *b)
{
    _cleanup_stmt_ sqlite3_stmt *s =
        memory_prepare(m,
                       "SELECT id FROM docs WHERE undone = 0 AND NOT EXISTS (SELECT 1 FROM vectors"
                       " WHERE doc = docs.id AND embedder = ?) ORDER BY id DESC LIMIT ?",
                       NULL);
    b->texts = json_array();
    if (!s || !b->texts)
        return -ENOMEM;
    sqlite3_bind_text(s, 1, m->embedder, -1, SQLITE_STATIC);
    sqlite3_bind_int(s, 2, BATCH);
    while (sqlite3_step(s) == SQLITE_ROW) {
        _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
        _cleanup_json_ json_t *message = NULL;
        struct memory_row row;
        struct memory_part part;
        sqlite3_int64 doc = sqlite3_column_int64(s, 0);
        if (memory_row(m, doc, &row) < 0 || memory_message(m, &row, &message) < 0 ||
            memory_part(message, row.part, &part, &text) < 0 || row.at + row.n > text.len)
            continue;
        if (json_array_append_new(b->texts, json_stringn((char *)text.data + row.at, row.n)) == 0)
            b->docs[b->count++] = doc;
    }
    return b->count ? 0 : -ENOENT;
}

static int batch_store(struct memory *m, const struct batch *b, const json_t *vectors)
{
    _cleanup_stmt_ sqlite3_stmt *s =
        memory_prepare(m, "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", NULL);
    int r = s && json_array_size(vectors) == b->count ? memory_run(m, "BEGIN IMMEDIATE", NULL)
                                                      : -EPROTO;
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < b->count; i++) {
        size_t n;
        _cleanup_free_ float *v = vector_parse(json_array_get(vectors, i), &n);
        if (!v) {
            r = -EPROTO;
            break;
        }
        sqlite3_bind_int64(s, 1, b->docs[i]);
        sqlite3_bind_text(s, 2, m->embedder, -1, SQLITE_STATIC);
        sqlite3_bind_blob(s, 3, v, (int)(n * sizeof *v), SQLITE_TRANSIENT);
        r = sqlite3_step(s) == SQLITE_DONE ? 0 : -EIO;
        sqlite3_reset(s);
    }
    memory_run(m, r == 0 ? "COMMIT" : "ROLLBACK", NULL);
    return r;
}

int memory_embed_new(struct memory *m, int cancel)
{
    int r = 0;
    for (size_t done = 0; r == 0 && done < EACH_TIME; done += BATCH) {
        struct batch b = {0};
        json_t *vectors = NULL;
        r = batch_fill(m, &b);
        if (r == 0)
            r = model_embed(m->model, m->embedder, b.texts, cancel, &vectors, NULL);
        if (r == 0)
            r = batch_store(m, &b, vectors);
        json_decref(vectors);
        json_decref(b.texts);
    }
    return r == -ENOENT ? 0 : r;
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

int memory_nearest(struct memory *m, const struct memory_query *q, struct memory_hit *ret,
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
