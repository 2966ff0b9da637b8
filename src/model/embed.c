/*
 * Vectors of texts, from an endpoint that speaks as OpenAI's does. What comes back is checked: as
 * many vectors as texts, all of one length, of finite numbers.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "buf.h"
#include "model_private.h"
#include "banned.h"

#define BATCH          64u
#define ANSWER_MAX     (64u << 20)
#define DIMENSIONS_MAX 65536u

struct embed {
    const struct model *m;
    struct buf body;
    size_t wanted;   /* vectors in this answer */
    json_t *vectors; /* in the order of the texts */
};

static int begin(void *data, struct error *err)
{
    struct embed *e = data;
    buf_free(&e->body);
    return 0;
}

static int take(void *data, const char *bytes, size_t n, struct trouble_hint *ret,
                struct error *err)
{
    struct embed *e = data;
    if (buf_append(&e->body, bytes, n) < 0)
        return error_set(err, EPROTO, "%s sent more than %u bytes of vectors", e->m->at.host,
                         ANSWER_MAX);
    return 0;
}

static bool is_vector(const json_t *v, size_t dimensions)
{
    size_t i;
    json_t *x;
    if (!json_is_array(v) || json_array_size(v) != dimensions || dimensions == 0 ||
        dimensions > DIMENSIONS_MAX)
        return false;
    json_array_foreach(v, i, x)
    {
        if (!json_is_number(x) || !isfinite(json_number_value(x)))
            return false;
    }
    return true;
}

/* Sorts them by their index; without one they are in order. */
static int sort_vectors(struct embed *e, const json_t *list, json_t *sorted)
{
    size_t i, dimensions = json_array_size(json_object_get(json_array_get(list, 0), "embedding"));
    json_t *one;
    for (i = 0; i < e->wanted; i++)
        json_array_append_new(sorted, json_null());
    json_array_foreach(list, i, one)
    {
        json_t *vector = json_object_get(one, "embedding"), *index = json_object_get(one, "index");
        json_int_t at = json_is_integer(index) ? json_integer_value(index) : (json_int_t)i;
        if (at < 0 || (size_t)at >= e->wanted ||
            !json_is_null(json_array_get(sorted, (size_t)at)) || !is_vector(vector, dimensions))
            return -EPROTO;
        json_array_set(sorted, (size_t)at, vector);
    }
    return 0;
}

static int end(void *data, struct trouble_hint *ret, struct error *err)
{
    struct embed *e = data;
    json_t *answer =
        e->body.len ? json_loadb((const char *)e->body.data, e->body.len, 0, NULL) : NULL;
    const json_t *list = json_object_get(answer, "data");
    json_t *sorted = json_array();
    int r = json_is_array(list) && json_array_size(list) == e->wanted
                ? sort_vectors(e, list, sorted)
                : -EPROTO;
    if (r == 0)
        r = json_array_extend(e->vectors, sorted) < 0 ? -ENOMEM : 0;
    json_decref(sorted);
    json_decref(answer);
    return r < 0 ? error_set(err, -r, "%s sent no vectors that fit the texts", e->m->at.host) : 0;
}

static char *body_of(const char *embedder, const json_t *texts, size_t from, size_t n)
{
    json_t *some = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append(some, json_array_get(texts, from + i));
    json_t *body =
        json_pack("{s:s,s:o,s:s}", "model", embedder, "input", some, "encoding_format", "float");
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

static int embed_some(struct model *m, struct embed *e, const char *embedder, const json_t *texts,
                      size_t from, int cancel, struct error *err)
{
    size_t left = json_array_size(texts) - from;
    e->wanted = left < BATCH ? left : BATCH;
    _cleanup_free_ char *body = body_of(embedder, texts, from, e->wanted);
    if (!body)
        return error_set(err, ENOMEM, "no memory to ask for vectors");
    const struct exchange x = {.url = m->at.embed,
                               .name = embedder,
                               .body = body,
                               .n = strlen(body),
                               .cancel = cancel,
                               .begin = begin,
                               .take = take,
                               .end = end,
                               .data = e};
    return exchange_run(m, &x, err);
}

int model_embed(struct model *m, const char *embedder, json_t *texts, int cancel,
                json_t **ret_vectors, struct error *err)
{
    struct embed e = {.m = m, .body = BUF_INIT(ANSWER_MAX), .vectors = json_array()};
    int r = e.vectors ? 0 : error_set(err, ENOMEM, "no memory to ask for vectors");
    if (r == 0 && !m->at.embed)
        r = error_set(err, EOPNOTSUPP, "%s has no endpoint for embeddings", m->spec.provider);
    for (size_t at = 0; r == 0 && at < json_array_size(texts); at += BATCH)
        r = embed_some(m, &e, embedder, texts, at, cancel, err);
    buf_free(&e.body);
    if (r == 0)
        *ret_vectors = TAKE_PTR(e.vectors);
    json_decref(e.vectors);
    return r;
}
