/*
 * A model: opened by its provider's row, asked, recorded if the user wants it; and embeddings.
 *
 * A request over HTTP runs through an exchange (http.h). The answer of each attempt goes through
 * server-sent events, a decoder and the retry sink to the caller's sink.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "decode.h"
#include "encode.h"
#include "http.h"
#include "json.h"
#include "model.h"
#include "provider.h"
#include "replay.h"
#include "text.h"
#include "banned.h"

#define STREAM_MAX           (1u << 30) /* bytes of one answer */
#define SHOWN_CALLS_MAX      (1u << 20)
#define EMBED_BATCH          64u
#define EMBED_BYTES_MAX      (64u << 20)
#define EMBED_DIMENSIONS_MAX 65536u

const char *model_stop_name(enum model_stop stop)
{
    static const char *const NAMES[] = {
        [MODEL_END_TURN] = "end_turn",
        [MODEL_TOOL_USE] = "tool_use",
        [MODEL_MAX_TOKENS] = "max_tokens",
        [MODEL_STOP_SEQUENCE] = "stop_sequence",
        [MODEL_PAUSE_TURN] = "pause_turn",
        [MODEL_REFUSAL] = "refusal",
        [MODEL_WINDOW_EXCEEDED] = "model_context_window_exceeded",
    };
    return NAMES[stop];
}

void model_usage_add(struct model_usage *sum, const struct model_usage *one)
{
    sum->known |= one->known;
    sum->input += one->input;
    sum->output += one->output;
    sum->cache_read += one->cache_read;
    sum->cache_write += one->cache_write;
    sum->thinking += one->thinking;
}

void model_reply_free(struct model_reply *r)
{
    json_decref(r->content);
    *r = (struct model_reply){};
}

void retry_sink_init(struct retry_sink *s, const struct model_sink *sink)
{
    *s = (struct retry_sink){.sink = sink,
                             .text.given = BUF_INIT(DECODER_BYTES_MAX * 2u),
                             .thinking.given = BUF_INIT(DECODER_BYTES_MAX * 2u),
                             .calls.given = BUF_INIT(SHOWN_CALLS_MAX)};
}

void retry_sink_free(struct retry_sink *s)
{
    buf_free(&s->text.given);
    buf_free(&s->thinking.given);
    buf_free(&s->calls.given);
}

void retry_sink_restart(struct retry_sink *s)
{
    s->text.at = s->thinking.at = s->calls.at = 0;
}

static bool stream_is_behind(const struct retry_stream *t)
{
    return t->at < t->given.len;
}

bool retry_sink_is_behind(const struct retry_sink *s)
{
    return stream_is_behind(&s->text) || stream_is_behind(&s->thinking);
}

/* Takes back what was shown beyond this attempt. */
static void retry_sink_go_back(struct retry_sink *s)
{
    const struct model_event e = {
        .kind = MODEL_BACK, .text = "", .keep = s->text.at, .keep_thinking = s->thinking.at};
    s->text.given.len = s->text.at;
    s->thinking.given.len = s->thinking.at;
    s->calls.given.len = s->calls.at;
    s->sink->event(s->sink->data, &e);
}

void retry_sink_end(struct retry_sink *s)
{
    if (retry_sink_is_behind(s))
        retry_sink_go_back(s);
}

static void retry_sink_text(struct retry_sink *s, struct retry_stream *t,
                            const struct model_event *e)
{
    size_t same = 0;
    if (stream_is_behind(t)) {
        /* How many bytes repeat what was shown. Both are whole characters: where they part within
         * one, it is the character that differs. */
        const uint8_t *given = t->given.data + t->at;
        size_t most = t->given.len - t->at < e->n ? t->given.len - t->at : e->n;
        while (same < most && given[same] == (uint8_t)e->text[same])
            same++;
        while (same < most && same > 0 && (given[same] & 0xc0) == 0x80)
            same--;
    }
    t->at += same;
    if (same == e->n)
        return;
    if (stream_is_behind(t))
        retry_sink_go_back(s);
    struct model_event rest = *e;
    rest.text += same;
    rest.n -= same;
    s->failed = s->failed || buf_append(&t->given, rest.text, rest.n) < 0;
    t->at = t->given.len;
    s->sink->event(s->sink->data, &rest);
}

static void retry_sink_event(void *data, const struct model_event *e)
{
    struct retry_sink *s = data;
    struct retry_stream *t = &s->calls;
    if (e->kind == MODEL_TEXT || e->kind == MODEL_THINKING) {
        retry_sink_text(s, e->kind == MODEL_TEXT ? &s->text : &s->thinking, e);
        return;
    }
    if (e->kind == MODEL_CALL) { /* sent once; a call that differs needs no MODEL_BACK */
        const char *given = (const char *)t->given.data + t->at;
        if (stream_is_behind(t) && strcmp(given, e->text) == 0) {
            t->at += strlen(given) + 1;
            return;
        }
        t->given.len = t->at;
        s->failed = s->failed || buf_append(&t->given, e->text, strlen(e->text) + 1) < 0;
        t->at = t->given.len;
    }
    s->sink->event(s->sink->data, e);
}

struct model_sink retry_sink_input(struct retry_sink *s)
{
    return (struct model_sink){.event = retry_sink_event, .data = s};
}

/* Whether an answer is a stream shows its first byte, not its content-type, which gateways get
 * wrong: a document begins with '{', a web page with '<', and no line of a stream with either. */
enum answer_form { FORM_UNKNOWN, FORM_STREAM, FORM_WHOLE };

struct ask {
    const struct http_client *c;
    char from[256]; /* "anthropic/claude-x" */
    struct retry_sink shown;
    struct model_sink sink;  /* of the decoders: `shown` */
    struct decoder *decoder; /* of the current attempt */
    struct decoder *before;  /* of an earlier one that got further, so far */
    struct sse sse;
    struct buf whole;
    enum answer_form form;
    uint64_t bytes;
    struct model_reply reply; /* once it is complete */
};

/* Keeps the last attempt while it got further than the new one: it is the reply if the request is
 * cancelled. */
static int ask_begin(void *data, struct error *err)
{
    struct ask *a = data;
    if (retry_sink_is_behind(&a->shown) && a->before) {
        a->decoder = decoder_free(a->decoder);
    } else {
        decoder_free(a->before);
        a->before = TAKE_PTR(a->decoder);
    }
    sse_free(&a->sse);
    a->sse = SSE_INIT(DECODER_BYTES_MAX);
    buf_free(&a->whole);
    a->form = FORM_UNKNOWN;
    a->bytes = 0;
    retry_sink_restart(&a->shown);
    int r = decoder_new(a->c->spec->api->decoder, a->from, &a->sink, &a->decoder);
    return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

static int ask_take(void *data, const char *bytes, size_t n, struct retry_hint *ret,
                    struct error *err)
{
    static const char blank[] = " \t\r\n\xef\xbb\xbf"; /* the last three: a byte order mark */
    struct ask *a = data;
    const char *host = a->c->at.host;
    struct sse_event e;
    int r = 0;
    a->bytes += n;
    if (a->bytes > STREAM_MAX)
        return error_set(err, EPROTO, "%s sent more than %u bytes", host, STREAM_MAX);
    for (size_t at = 0; a->form == FORM_UNKNOWN && at < n; at++) {
        if (memchr(blank, bytes[at], sizeof blank - 1))
            continue;
        if (bytes[at] == '<')
            return error_set(err, EPROTO, "%s answered with a web page: is the base URL right?",
                             host);
        a->form = bytes[at] == '{' ? FORM_WHOLE : FORM_STREAM;
    }
    if (a->form == FORM_WHOLE && buf_append(&a->whole, bytes, n) < 0)
        return error_set(err, EPROTO, "%s sent an answer of more than %u bytes", host,
                         DECODER_BYTES_MAX);
    while (a->form == FORM_STREAM && (r = sse_take(&a->sse, &bytes, &n, &e)) > 0) {
        r = decoder_take(a->decoder, &e, ret, err);
        if (r < 0)
            return r;
        if (r > 0)
            break;
    }
    if (r == -EMSGSIZE)
        return error_set(err, EPROTO, "%s sent an event of more than %u bytes", host,
                         DECODER_BYTES_MAX);
    if (r < 0 || a->shown.failed)
        return error_set(err, ENOMEM, "out of memory");
    return r;
}

/* The body has ended: the decoder knows whether the answer is complete. */
static int ask_end(void *data, struct retry_hint *ret, struct error *err)
{
    struct ask *a = data;
    int r = 0;
    if (a->form == FORM_WHOLE)
        r = decoder_take_whole(a->decoder, (const char *)a->whole.data, a->whole.len, ret, err);
    if (r < 0)
        return r;
    r = decoder_finish(a->decoder, false, &a->reply, err);
    if (r == 0)
        retry_sink_end(&a->shown);
    ret->retry = r == -EPIPE;
    return r;
}

static int ask_run(struct http_client *c, const struct model_request *q,
                   const struct model_sink *sink, struct model_reply *ret, struct error *err)
{
    _cleanup_buf_ struct buf body = BUF_INIT(ENCODER_BYTES_MAX);
    int r = encode_request(c->spec, q, &body, err);
    if (r < 0)
        return r;
    struct ask a = {
        .c = c, .sse = SSE_INIT(DECODER_BYTES_MAX), .whole = BUF_INIT(DECODER_BYTES_MAX)};
    snprintf(a.from, sizeof a.from, "%s/%s", c->spec->provider, c->spec->name);
    retry_sink_init(&a.shown, sink);
    a.sink = retry_sink_input(&a.shown);
    const struct exchange x = {.url = c->at.url,
                               .name = c->spec->name,
                               .body = body.data,
                               .n = body.len,
                               .cancel = q->cancel,
                               .sink = sink,
                               .begin = ask_begin,
                               .take = ask_take,
                               .end = ask_end,
                               .data = &a};
    r = exchange_run(c, &x, err);
    if (r == -ECANCELED) {
        /* The reply is what has come: of this attempt, or of an earlier one that got further. */
        bool older = a.before && retry_sink_is_behind(&a.shown);
        struct decoder *d = older ? a.before : a.decoder;
        if (!d || decoder_finish(d, true, &a.reply, NULL) < 0)
            a.reply.content = json_array();
        if (!older)
            retry_sink_end(&a.shown);
        r = a.reply.content ? error_set(err, ECANCELED, "cancelled")
                            : error_set(err, ENOMEM, "out of memory");
    }
    if (r == 0 || r == -ECANCELED)
        *ret = a.reply;
    decoder_free(a.decoder);
    decoder_free(a.before);
    sse_free(&a.sse);
    buf_free(&a.whole);
    retry_sink_free(&a.shown);
    return r;
}

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
        /* A recording with a gap is useless: a request that cannot be recorded fails. */
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

/* Checks the answer: as many vectors as texts, all of one length, of finite numbers. Sorts them by
 * their index; without one they are in order. */
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
