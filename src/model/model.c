/*
 * A model: opened by its provider's row, asked, recorded if wanted. And embeddings, from an
 * endpoint like OpenAI's, whose answer is checked: as many vectors as texts, all of one length, of
 * finite numbers.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "exchange.h"
#include "json.h"
#include "model.h"
#include "provider.h"
#include "record.h"
#include "text.h"
#include "banned.h"

#define EMBED_BATCH          64u
#define EMBED_BYTES_MAX      (64u << 20)
#define EMBED_DIMENSIONS_MAX 65536u

struct model {
    struct model_spec spec;
    struct http_client http; /* of a provider that is reached by HTTP */
    void *state;             /* of any other */
};

int model_open(const struct model_spec *spec, struct model **ret, struct error *err)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ENOMEM, "out of memory");
    m->spec = *spec;
    m->http.spec = &m->spec;
    int r = spec->api->open ? spec->api->open(spec, &m->state, err)
                            : endpoint_make(spec, &m->http.at, err);
    if (r == 0 && spec->record)
        r = record_check(spec->record, err);
    if (r < 0) {
        model_close(m);
        return r;
    }
    *ret = m;
    return 0;
}

struct model *model_close(struct model *m)
{
    if (!m)
        return NULL;
    transport_free(m->http.transport);
    endpoint_free(&m->http.at);
    if (m->state)
        m->spec.api->close(m->state);
    free(m);
    return NULL;
}

const struct model_spec *model_spec_of(const struct model *m)
{
    return &m->spec;
}

static void sink_nothing(void *data, const struct model_event *e) {}

int model_ask(struct model *m, const struct model_request *q, const struct model_sink *sink,
              struct model_reply *ret, struct error *err)
{
    static const struct model_sink nothing = {.event = sink_nothing};
    const struct provider *api = m->spec.api;
    struct model_reply reply = {0};
    struct record rec;
    record_begin(&rec, sink ? sink : &nothing);
    const struct model_sink *to = m->spec.record ? &rec.sink : rec.next;
    int r = api->ask ? api->ask(m->state, &m->spec, q, to, &reply, err)
                     : ask_run(&m->http, q, to, &reply, err);
    if (m->spec.record && (r == 0 || r == -ECANCELED)) {
        /* A recording with a hole is useless: a request that cannot be recorded fails. */
        int written = record_end(&rec, &m->spec, q, &reply, r == -ECANCELED, err);
        if (written < 0)
            model_reply_free(&reply);
        r = written < 0 ? written : r;
    }
    record_free(&rec);
    if (r == 0 || r == -ECANCELED)
        *ret = reply;
    return r;
}

struct embed {
    const struct http_client *c;
    struct buf body;
    size_t wanted;   /* vectors in this answer */
    json_t *vectors; /* in the order of the texts */
};

static int embed_begin(void *data, struct error *err)
{
    struct embed *e = data;
    buf_free(&e->body);
    return 0;
}

static int embed_take(void *data, const char *bytes, size_t n, struct retry_hint *ret,
                      struct error *err)
{
    struct embed *e = data;
    if (buf_append(&e->body, bytes, n) < 0)
        return error_set(err, EPROTO, "%s sent more than %u bytes of embeddings", e->c->at.host,
                         EMBED_BYTES_MAX);
    return 0;
}

static bool is_vector(const json_t *v, size_t dimensions)
{
    size_t i;
    json_t *x;
    if (!json_is_array(v) || json_array_size(v) != dimensions || dimensions == 0 ||
        dimensions > EMBED_DIMENSIONS_MAX)
        return false;
    json_array_foreach(v, i, x)
    {
        if (!json_is_number(x) || !isfinite(json_number_value(x)))
            return false;
    }
    return true;
}

/* Sorts the vectors by their index; without one they are in order. */
static int embed_end(void *data, struct retry_hint *ret, struct error *err)
{
    struct embed *e = data;
    _cleanup_json_ json_t *sorted = json_array();
    _cleanup_json_ json_t *answer =
        e->body.len ? json_loadb((const char *)e->body.data, e->body.len, 0, NULL) : NULL;
    const json_t *list = json_object_get(answer, "data");
    size_t i, dimensions = json_array_size(json_object_get(json_array_get(list, 0), "embedding"));
    json_t *one;
    int r = json_is_array(list) && json_array_size(list) == e->wanted ? 0 : -EPROTO;
    for (i = 0; i < e->wanted; i++)
        json_array_append_new(sorted, json_null());
    json_array_foreach(list, i, one)
    {
        json_t *vector = json_object_get(one, "embedding"), *index = json_object_get(one, "index");
        json_int_t at = json_is_integer(index) ? json_integer_value(index) : (json_int_t)i;
        if (r < 0 || at < 0 || (size_t)at >= e->wanted || !is_vector(vector, dimensions) ||
            !json_is_null(json_array_get(sorted, (size_t)at))) {
            r = -EPROTO;
            break;
        }
        json_array_set(sorted, (size_t)at, vector);
    }
    if (r == 0 && json_array_extend(e->vectors, sorted) < 0)
        r = -ENOMEM;
    return r < 0 ? error_set(err, -r, "the embeddings of %s do not match the texts", e->c->at.host)
                 : 0;
}

int model_embed(struct model *m, const char *embedder, json_t *texts, int cancel,
                json_t **ret_vectors, struct error *err)
{
    struct http_client *c = &m->http;
    struct embed e = {.c = c, .body = BUF_INIT(EMBED_BYTES_MAX), .vectors = json_array()};
    int r = e.vectors ? 0 : error_set(err, ENOMEM, "out of memory");
    if (r == 0 && !c->at.embed_url)
        r = error_set(err, EOPNOTSUPP, "%s has no endpoint for embeddings", m->spec.provider);
    for (size_t at = 0; r == 0 && at < json_array_size(texts); at += EMBED_BATCH) {
        size_t left = json_array_size(texts) - at;
        json_t *some = json_array();
        e.wanted = left < EMBED_BATCH ? left : EMBED_BATCH;
        for (size_t i = 0; i < e.wanted; i++)
            json_array_append(some, json_array_get(texts, at + i));
        _cleanup_json_ json_t *request = json_pack("{s:s, s:o, s:s}", "model", embedder, "input",
                                                   some, "encoding_format", "float");
        _cleanup_free_ char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
        const struct exchange x = {.url = c->at.embed_url,
                                   .name = embedder,
                                   .body = body,
                                   .n = body ? strlen(body) : 0,
                                   .cancel = cancel,
                                   .begin = embed_begin,
                                   .take = embed_take,
                                   .end = embed_end,
                                   .data = &e};
        r = body ? exchange_run(c, &x, err) : error_set(err, ENOMEM, "out of memory");
    }
    buf_free(&e.body);
    if (r == 0)
        *ret_vectors = TAKE_PTR(e.vectors);
    json_decref(e.vectors);
    return r;
}
