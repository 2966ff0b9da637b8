/*
 * A conversation over HTTP: its request, and the answer of one attempt after the other through
 * server-sent events and a decoder, past what was shown already, to the sink.
 *
 * Whether an answer is a stream is seen by its first byte, not by its content-type, which gateways
 * get wrong: a document begins with '{', a web page with '<', and no line of a stream with either.
 */
#include <errno.h>
#include <string.h>

#include "decoder.h"
#include "encoder.h"
#include "model_private.h"
#include "refusal.h"
#include "shown.h"
#include "banned.h"

#define STREAM_MAX (1u << 30) /* bytes of one answer, whatever they are */

enum form { FORM_UNKNOWN, FORM_STREAM, FORM_WHOLE };

struct ask {
    const struct model *m;
    char from[256]; /* "anthropic/claude-x" */
    struct shown shown;
    struct model_sink sink;  /* of the decoders: `shown` */
    struct decoder *decoder; /* of the attempt under way */
    struct decoder *before;  /* of one that got further than it, so far */
    struct sse sse;
    struct buf whole;
    enum form form;
    uint64_t bytes;
    struct model_reply reply; /* once it is whole */
};

static void forget_stream(struct ask *a)
{
    sse_free(&a->sse);
    a->sse = SSE_INIT(DECODER_BYTES_MAX);
    buf_free(&a->whole);
    a->form = FORM_UNKNOWN;
    a->bytes = 0;
}

/* The last attempt is kept while it is what was shown: whoever cancels gets that. */
static int begin(void *data, struct error *err)
{
    struct ask *a = data;
    bool behind = shown_is_behind(&a->shown);
    if (behind && a->before) {
        a->decoder = decoder_free(a->decoder);
    } else {
        decoder_free(a->before);
        a->before = TAKE_PTR(a->decoder);
    }
    forget_stream(a);
    shown_again(&a->shown);
    int r = decoder_new(a->m->spec.api, a->from, &a->sink, &a->decoder);
    return r < 0 ? error_set(err, -r, "no memory for the answer") : 0;
}

static int answer(int r, const struct decoder_trouble *t, struct trouble_hint *ret)
{
    if (r < 0)
        *ret = (struct trouble_hint){.retry = t->retry, .told_ms = t->retry_ms};
    return r;
}

static int take_events(struct ask *a, const char *bytes, size_t n, struct trouble_hint *ret,
                       struct error *err)
{
    struct sse_event e;
    int r;
    while ((r = sse_take(&a->sse, &bytes, &n, &e)) > 0) {
        struct decoder_trouble t = {.retry_ms = -1};
        r = decoder_take(a->decoder, &e, &t, err);
        if (r != 0)
            return answer(r, &t, ret);
    }
    if (r == -EMSGSIZE)
        return error_set(err, EPROTO, "%s sent an event of more than %u bytes", a->m->at.host,
                         DECODER_BYTES_MAX);
    return r < 0 ? error_set(err, ENOMEM, "no memory for the answer") : 0;
}

/* Spaces and a byte order mark say nothing yet. */
static int see_form(struct ask *a, const char *bytes, size_t n, struct error *err)
{
    static const char BLANK[] = " \t\r\n\xef\xbb\xbf";
    size_t at = 0;
    while (at < n && memchr(BLANK, bytes[at], sizeof BLANK - 1))
        at++;
    if (at == n)
        return 0;
    if (bytes[at] == '<')
        return error_set(err, EPROTO, "%s answered with a web page: is the base URL right?",
                         a->m->at.host);
    a->form = bytes[at] == '{' ? FORM_WHOLE : FORM_STREAM;
    return 0;
}

static int take(void *data, const char *bytes, size_t n, struct trouble_hint *ret,
                struct error *err)
{
    struct ask *a = data;
    a->bytes += n;
    if (a->bytes > STREAM_MAX)
        return error_set(err, EPROTO, "%s sent more than %u bytes", a->m->at.host, STREAM_MAX);
    int r = a->form == FORM_UNKNOWN ? see_form(a, bytes, n, err) : 0;
    if (r < 0)
        return r;
    if (a->form == FORM_STREAM)
        r = take_events(a, bytes, n, ret, err);
    else if (a->form == FORM_WHOLE && buf_append(&a->whole, bytes, n) < 0)
        r = error_set(err, EPROTO, "%s sent an answer of more than %u bytes", a->m->at.host,
                      DECODER_BYTES_MAX);
    if (r >= 0 && a->shown.failed)
        return error_set(err, ENOMEM, "no memory for the answer");
    return r;
}

/* The body has ended: the decoder knows whether the answer is whole. */
static int end(void *data, struct trouble_hint *ret, struct error *err)
{
    struct ask *a = data;
    struct decoder_trouble t = {.retry_ms = -1};
    int r = 0;
    if (a->form == FORM_WHOLE)
        r = decoder_take_whole(a->decoder, (const char *)a->whole.data, a->whole.len, &t, err);
    if (r < 0)
        return answer(r, &t, ret);
    r = decoder_finish(a->decoder, false, &a->reply, err);
    if (r == 0)
        shown_end(&a->shown);
    ret->retry = r == -EPIPE;
    return r;
}

/* What had come: of the attempt under way, or of one before it that came further. */
static int cut(struct ask *a, struct model_reply *ret, struct error *err)
{
    bool older = a->before && shown_is_behind(&a->shown);
    struct decoder *d = older ? a->before : a->decoder;
    struct model_reply reply = {0};
    if (!d || decoder_finish(d, true, &reply, NULL) < 0)
        reply.content = json_array();
    if (!older)
        shown_end(&a->shown);
    if (!reply.content)
        return error_set(err, ENOMEM, "no memory for the answer");
    *ret = reply;
    return error_set(err, ECANCELED, "cancelled");
}

static void free_ask(struct ask *a)
{
    decoder_free(a->decoder);
    decoder_free(a->before);
    sse_free(&a->sse);
    buf_free(&a->whole);
    shown_free(&a->shown);
}

int ask_run(struct model *m, const struct model_request *q, const struct model_sink *sink,
            struct model_reply *ret, struct error *err)
{
    _cleanup_buf_ struct buf body = BUF_INIT(ENCODER_BYTES_MAX);
    int r = encode_request(&m->spec, q, &body, err);
    if (r < 0)
        return r;
    struct ask a = {
        .m = m, .sse = SSE_INIT(DECODER_BYTES_MAX), .whole = BUF_INIT(DECODER_BYTES_MAX)};
    snprintf(a.from, sizeof a.from, "%s/%s", m->spec.provider, m->spec.name);
    shown_init(&a.shown, sink);
    a.sink = shown_sink(&a.shown);
    const struct exchange x = {.url = m->at.url,
                               .name = m->spec.name,
                               .body = body.data,
                               .n = body.len,
                               .cancel = q->cancel,
                               .sink = sink,
                               .begin = begin,
                               .take = take,
                               .end = end,
                               .data = &a};
    r = exchange_run(m, &x, err);
    if (r == 0)
        *ret = a.reply;
    else if (r == -ECANCELED)
        r = cut(&a, ret, err);
    free_ask(&a);
    return r;
}
