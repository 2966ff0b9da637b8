/* What is the same for all protocols: from an event's bytes to its JSON, errors, the reply. */
#include <errno.h>
#include <string.h>

#include "decode.h"
#include "encoding.h"
#include "text.h"
#include "banned.h"

#define COUNT_MAX  1e15 /* tokens; more is a mistake, and sums of it could overflow */
#define VALUE_COST 64

int decoder_new(const struct decode_protocol *protocol, const char *from,
                const struct model_sink *sink, struct decoder **ret)
{
    if (!protocol)
        return -EINVAL;
    struct decoder *d = calloc(1, sizeof *d);
    if (!d)
        return -ENOMEM;
    d->protocol = protocol;
    d->from = strdup(from);
    if (!d->from) {
        decoder_free(d);
        return -ENOMEM;
    }
    d->a.from = d->from;
    d->a.salt = DIGEST_BEGIN;
    if (sink)
        d->a.sink = *sink;
    *ret = d;
    return 0;
}

struct decoder *decoder_free(struct decoder *d)
{
    if (!d)
        return NULL;
    assembly_free(&d->a);
    free(d->from);
    free(d);
    return NULL;
}

const char *decode_type(const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    return type ? type : "";
}

int decode_error(struct decoder *d, json_t *error)
{
    _cleanup_json_ json_t *settled = lenient_json_settle(error, d->a.mended);
    return provider_error_of_event(settled, d->hint, d->err);
}

void decode_head(struct decoder *d, const json_t *head)
{
    const char *model = json_string_value(json_object_get(head, "model"));
    const json_t *id = json_object_get(head, "id"), *created = json_object_get(head, "created");
    json_int_t when = json_integer_value(created);
    if (model && !d->model[0] && !d->a.mended) {
        size_t n = strnlen(model, sizeof d->model - 1);
        n -= utf8_cut_end((const uint8_t *)model, n);
        memcpy(d->model, model, n);
    }
    if (d->a.salt != DIGEST_BEGIN || !json_is_string(id))
        return;
    d->a.salt = digest(d->a.salt, json_string_value(id), json_string_length(id));
    d->a.salt = digest(d->a.salt, &when, sizeof when);
}

uint64_t decode_count(const json_t *usage, const char *name, uint64_t before)
{
    const json_t *value = json_object_get(usage, name);
    double count = json_is_number(value) ? json_number_value(value) : -1;
    return count >= 0 && count <= COUNT_MAX ? (uint64_t)count : before;
}

/* Sets the message of a limit that was hit. */
static int decoder_explain(struct decoder *d, int r)
{
    switch (r) {
    case -E2BIG:
        return error_set(d->err, E2BIG,
                         "the answer has more than %d blocks, or an event more than %u values",
                         DECODER_BLOCKS_MAX, LENIENT_JSON_VALUES_MAX);
    case -EFBIG:
        return error_set(d->err, EFBIG, "the answer is longer than %u MiB",
                         DECODER_BYTES_MAX >> 20);
    case -ENOMEM:
        return error_set(d->err, ENOMEM, "out of memory");
    case -EBADMSG:
        *d->hint = (struct retry_hint){.retry = true, .after_ms = -1};
        return error_set(d->err, EPROTO, "the provider's answer is not JSON");
    default:
        return r;
    }
}

/* `type` NULL: a whole answer. */
static int decoder_take_json(struct decoder *d, const char *text, size_t n, const char *type,
                             struct retry_hint *ret_hint, struct error *err)
{
    struct lenient_json l = {0};
    struct retry_hint hint = {.after_ms = -1};
    d->hint = &hint;
    d->err = err;
    int r = lenient_json_parse(text, n, &l);
    if (r == 0) {
        d->a.mended = l.mended;
        d->a.cost = n + VALUE_COST * l.values;
        r = !json_is_object(l.value) ? -EBADMSG
            : type                   ? d->protocol->take(d, type, l.value)
                                     : d->protocol->take_whole(d, l.value);
    }
    json_decref(l.value);
    r = decoder_explain(d, r);
    d->hint = NULL;
    d->complete = r == 1;
    if (r < 0 && ret_hint)
        *ret_hint = hint;
    return r;
}

int decoder_take(struct decoder *d, const struct sse_event *e, struct retry_hint *ret_hint,
                 struct error *err)
{
    const char *last = d->protocol->last;
    size_t blank = 0;
    if (d->complete)
        return 1;
    while (blank < e->n && e->data[blank] && strchr(" \t\r\n", e->data[blank]))
        blank++;
    if (blank == e->n)
        return 0;
    if (last && e->n == strlen(last) && memcmp(e->data, last, e->n) == 0) {
        d->complete = d->answered;
        return d->complete;
    }
    return decoder_take_json(d, e->data, e->n, e->type, ret_hint, err);
}

int decoder_take_whole(struct decoder *d, const char *text, size_t n, struct retry_hint *ret_hint,
                       struct error *err)
{
    return decoder_take_json(d, text, n, NULL, ret_hint, err);
}

int decoder_finish(struct decoder *d, bool cut, struct model_reply *ret, struct error *err)
{
    if (!cut && !d->complete && !d->stopped)
        return error_set(err, EPIPE, "the stream ended before the answer was complete");
    struct model_reply reply = {.stop = cut ? MODEL_END_TURN : d->stop, .usage = d->usage};
    /* Servers name a reason that does not fit what they sent: calls decide. */
    bool calls = assembly_has_calls(&d->a);
    if (!cut && d->refused && d->stop == MODEL_END_TURN)
        reply.stop = MODEL_REFUSAL;
    else if (!cut && calls && d->stop == MODEL_END_TURN)
        reply.stop = MODEL_TOOL_USE;
    else if (!calls && d->stop == MODEL_TOOL_USE)
        reply.stop = MODEL_END_TURN;
    d->err = err;
    if (d->protocol->finish)
        d->protocol->finish(d);
    int r = assembly_content(&d->a, cut, &reply.content);
    if (r < 0)
        return decoder_explain(d, r);
    snprintf(reply.model, sizeof reply.model, "%s", d->model);
    *ret = reply;
    return 0;
}
