/*
 * A conversation over HTTP: the request, and the answer of one attempt after the other through
 * server-sent events, a decoder and the retry sink to the caller's sink.
 *
 * Whether an answer is a stream shows its first byte, not its content-type, which gateways get
 * wrong: a document begins with '{', a web page with '<', and no line of a stream with either.
 */
#include <errno.h>
#include <string.h>

#include "decode.h"
#include "encode.h"
#include "exchange.h"
#include "provider.h"
#include "retry_sink.h"
#include "banned.h"

#define STREAM_MAX (1u << 30) /* bytes of one answer, whatever they are */

enum answer_form { FORM_UNKNOWN, FORM_STREAM, FORM_WHOLE };

struct ask {
    const struct http_client *c;
    char from[256]; /* "anthropic/claude-x" */
    struct retry_sink shown;
    struct model_sink sink;  /* of the decoders: `shown` */
    struct decoder *decoder; /* of the attempt under way */
    struct decoder *before;  /* of one that got further than it, so far */
    struct sse sse;
    struct buf whole;
    enum answer_form form;
    uint64_t bytes;
    struct model_reply reply; /* once it is whole */
};

/* The last attempt is kept while it is what was shown: it is the reply if the request is
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

/* The body has ended: the decoder knows whether the answer is whole. */
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

int ask_run(struct http_client *c, const struct model_request *q, const struct model_sink *sink,
            struct model_reply *ret, struct error *err)
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
        /* What had come by then: of the attempt under way, or of one before it that got further. */
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
