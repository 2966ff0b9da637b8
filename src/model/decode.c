/* The assembly of an answer and the decoder: see decode.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "decode.h"
#include "encoding.h"
#include "text.h"
#include "banned.h"

#define LABEL_MAX  256  /* bytes of an id or a name */
#define COUNT_MAX  1e15 /* tokens; more is a mistake, and sums of it could overflow */
#define VALUE_COST 64

static void assembly_free(struct assembly *a)
{
    for (size_t i = 0; i < a->n; i++) {
        struct block *b = a->blocks[i];
        buf_free(&b->text);
        buf_free(&b->input);
        buf_free(&b->id);
        buf_free(&b->name);
        json_decref(b->given);
        json_decref(b->raw);
        json_decref(b->extra);
        free(b);
    }
}

int assembly_add(struct assembly *a, enum block_kind kind, int64_t key, int64_t part,
                 struct block **ret)
{
    if (a->n == DECODER_BLOCKS_MAX)
        return -E2BIG;
    struct block *b = malloc(sizeof *b);
    if (!b)
        return -ENOMEM;
    *b = (struct block){.kind = kind,
                        .key = key,
                        .part = part,
                        .text = BUF_INIT(DECODER_BYTES_MAX + 64),
                        .input = BUF_INIT(DECODER_BYTES_MAX + 64),
                        .id = BUF_INIT(LABEL_MAX + 1),
                        .name = BUF_INIT(LABEL_MAX + 1)};
    a->blocks[a->n++] = b;
    *ret = b;
    return 0;
}

struct block *assembly_find(const struct assembly *a, int64_t key, int64_t part)
{
    for (size_t i = a->n; i > 0; i--)
        if (a->blocks[i - 1]->key == key && a->blocks[i - 1]->part == part)
            return a->blocks[i - 1];
    return NULL;
}

/* Counts n more bytes kept. A piece grows at most three times: a NUL becomes U+FFFD. */
static int assembly_spend(struct assembly *a, size_t n)
{
    if (n > DECODER_BYTES_MAX - a->bytes)
        return -EFBIG;
    a->bytes += n;
    return 0;
}

static void assembly_show(struct assembly *a, enum model_event_kind kind, struct buf *text,
                          size_t from)
{
    const char *data = text->len > from ? buf_cstr(text) : NULL;
    if (!data || !a->sink.event)
        return;
    struct model_event e = {.kind = kind, .text = data + from, .n = text->len - from};
    a->sink.event(a->sink.data, &e);
}

static void assembly_show_text(struct assembly *a, struct block *b, size_t from)
{
    assembly_show(a, b->kind == BLOCK_THINKING ? MODEL_THINKING : MODEL_TEXT, &b->text, from);
}

/* Appends a piece to one of the block's texts. The budget counts what it became. */
static int assembly_grow(struct assembly *a, struct block *b, struct buf *text, const char *s,
                         size_t n)
{
    size_t before = text->len;
    int r = assembly_spend(a, n);
    if (r < 0)
        return r;
    if (utf8_pieces_append(&b->broken, s, n, a->mended, text) < 0)
        return before + 3 * n > text->max ? -EFBIG : -ENOMEM;
    size_t grown = text->len - before;
    return grown > n ? assembly_spend(a, grown - n) : 0;
}

int assembly_text(struct assembly *a, struct block *b, const json_t *piece)
{
    if (!json_is_string(piece))
        return 0;
    size_t from = b->text.len;
    int r = assembly_grow(a, b, &b->text, json_string_value(piece), json_string_length(piece));
    if (r == 0)
        assembly_show_text(a, b, from);
    return r;
}

int assembly_text_is(struct assembly *a, struct block *b, const json_t *text)
{
    if (!json_is_string(text))
        return 0;
    _cleanup_json_ json_t *settled = lenient_json_settle((json_t *)text, a->mended);
    if (!settled)
        return -ENOMEM;
    const char *s = json_string_value(settled);
    size_t n = json_string_length(settled), had = b->text.len;
    bool more = n >= had && (had == 0 || memcmp(b->text.data, s, had) == 0);
    size_t from = more ? had : 0;
    b->broken.n = 0;
    b->text.len = from;
    int r = assembly_spend(a, n - from);
    if (r == 0 && utf8_pieces_append(&b->broken, s + from, n - from, false, &b->text) < 0)
        r = -ENOMEM;
    if (r == 0 && more)
        assembly_show_text(a, b, had);
    return r;
}

int assembly_input(struct assembly *a, struct block *b, const json_t *piece)
{
    return json_is_string(piece)
               ? assembly_grow(a, b, &b->input, json_string_value(piece), json_string_length(piece))
               : 0;
}

int assembly_input_is(struct assembly *a, struct block *b, const json_t *input)
{
    if (json_is_object(input)) {
        b->input.len = 0;
        return assembly_keep(a, &b->given, (json_t *)input);
    }
    if (!json_is_string(input))
        return 0;
    b->input.len = 0;
    b->broken.n = 0;
    return assembly_input(a, b, input);
}

/* A short text: cut at LABEL_MAX, at the end of a character. */
static int assembly_label(struct assembly *a, struct buf *to, const json_t *value)
{
    _cleanup_json_ json_t *settled = lenient_json_settle((json_t *)value, a->mended);
    if (!settled)
        return -ENOMEM;
    const char *s = json_string_value(settled);
    size_t n = strlen(s);
    if (n > LABEL_MAX)
        n = LABEL_MAX - utf8_cut_end((const uint8_t *)s, LABEL_MAX);
    to->len = 0;
    return buf_append(to, s, n) < 0 ? -ENOMEM : 0;
}

static bool is_filled(const json_t *value)
{
    return json_is_string(value) && *json_string_value(value);
}

int assembly_call(struct assembly *a, struct block *b, const json_t *id, const json_t *name)
{
    bool first = b->name.len == 0;
    int r = is_filled(id) ? assembly_label(a, &b->id, id) : 0;
    if (r == 0 && is_filled(name))
        r = assembly_label(a, &b->name, name);
    if (r == 0 && first)
        assembly_show(a, MODEL_CALL, &b->name, 0);
    return r;
}

int assembly_keep(struct assembly *a, json_t **slot, json_t *value)
{
    int r = assembly_spend(a, a->cost);
    if (r < 0)
        return r;
    a->cost = 0;
    json_t *settled = a->mended ? lenient_json_settle(value, true) : json_deep_copy(value);
    if (!settled)
        return -ENOMEM;
    json_decref(*slot);
    *slot = settled;
    return 0;
}

int assembly_end(struct assembly *a, struct block *b)
{
    if (b->whole)
        return 0;
    size_t from = b->text.len;
    bool has_input = b->kind == BLOCK_CALL || b->kind == BLOCK_OTHER;
    b->whole = true;
    if (utf8_pieces_end(&b->broken, has_input ? &b->input : &b->text) < 0)
        return -ENOMEM;
    assembly_show_text(a, b, from);
    return 0;
}

/* By key and part, all blocks or only the calls. An insertion sort, stable: there are few blocks,
 * and they are nearly in order. */
static void assembly_sort(struct assembly *a, bool calls_only)
{
    size_t places[DECODER_BLOCKS_MAX], n = 0;
    for (size_t i = 0; i < a->n; i++) {
        struct block *b = a->blocks[i];
        if (calls_only && b->kind != BLOCK_CALL)
            continue;
        size_t at = n;
        places[n++] = i;
        for (; at > 0; at--) {
            struct block *left = a->blocks[places[at - 1]];
            if (left->key < b->key || (left->key == b->key && left->part <= b->part))
                break;
            a->blocks[places[at]] = left;
        }
        a->blocks[places[at]] = b;
    }
}

static json_t *buf_json(const struct buf *b)
{
    return json_stringn(b->len ? (const char *)b->data : "", b->len);
}

/* A JSON text as an object: a new reference, or NULL. Some servers wrap it in a string once
 * more. */
static json_t *object_parse(const char *text, size_t n, bool again)
{
    struct lenient_json l;
    if (lenient_json_parse(text, n, &l) < 0)
        return NULL;
    json_t *value = lenient_json_settle(l.value, l.mended);
    json_decref(l.value);
    if (json_is_object(value))
        return value;
    json_t *inner = NULL;
    if (json_is_null(value))
        inner = json_object();
    else if (json_is_string(value) && again)
        inner = object_parse(json_string_value(value), json_string_length(value), false);
    json_decref(value);
    return inner;
}

bool assembly_input_whole(const struct block *b)
{
    _cleanup_json_ json_t *object =
        b->input.len ? object_parse((const char *)b->input.data, b->input.len, false) : NULL;
    return object || (b->given && b->input.len == 0);
}

/* The input of a call; NULL: it is not an object. Nothing means an empty one. */
static json_t *block_input(const struct block *b)
{
    size_t blank = 0;
    while (blank < b->input.len && b->input.data[blank] && strchr(" \t\r\n", b->input.data[blank]))
        blank++;
    if (blank < b->input.len)
        return object_parse((const char *)b->input.data, b->input.len, true);
    return json_is_object(b->given) ? json_incref(b->given) : json_object();
}

/* NULL: out of memory. A thinking block that was cut off has no `raw`: it is only shown. */
static json_t *block_json(const struct assembly *a, struct block *b, json_t *taken)
{
    json_t *made = NULL, *input = NULL, *id;
    switch (b->kind) {
    case BLOCK_TEXT:
        made = json_pack("{s:s, s:o}", "type", "text", "text", buf_json(&b->text));
        break;
    case BLOCK_THINKING:
        if (b->raw_text && b->raw)
            json_object_set_new(b->raw, b->raw_text, buf_json(&b->text));
        made = json_pack("{s:s, s:s, s:o, s:O*}", "type", "thinking", "from", a->from, "text",
                         buf_json(&b->text), "raw", b->whole ? b->raw : NULL);
        break;
    case BLOCK_CALL:
        /* A call that came without an id, or with one that is taken, gets one: the same for the
         * same answer, another in another answer. */
        input = block_input(b);
        id = buf_json(&b->id);
        if (b->id.len == 0 || json_object_get(taken, json_string_value(id))) {
            char made_up[32];
            uint64_t hash = digest(a->salt, b->name.data, b->name.len);
            hash = digest(hash, b->input.data, b->input.len);
            do {
                hash = digest(hash, "", 1);
                snprintf(made_up, sizeof made_up, "call_%016" PRIx64, hash);
            } while (json_object_get(taken, made_up));
            json_decref(id);
            id = json_string(made_up);
        }
        if (id)
            json_object_set_new(taken, json_string_value(id), json_true());
        made = json_pack("{s:s, s:o, s:o, s:o, s:o*}", "type", "tool_use", "id", id, "name",
                         buf_json(&b->name), "input", input ? input : json_object(), "bad_input",
                         input ? NULL : buf_json(&b->input));
        break;
    case BLOCK_OTHER:
        if (b->input.len) {
            input = block_input(b);
            json_object_set_new(b->raw, "input", input ? input : json_object());
        }
        made = json_pack("{s:s, s:s, s:O}", "type", "other", "from", a->from, "raw", b->raw);
        break;
    }
    if (made && b->extra) {
        json_object_set_new(made, "from", json_string(a->from));
        json_object_update(made, b->extra);
    }
    return made;
}

/* The content. `cut`: only what is whole without the rest: texts, and thinking that had ended. */
static int assembly_content(struct assembly *a, bool cut, json_t **ret)
{
    _cleanup_json_ json_t *content = json_array(), *taken = json_object();
    for (size_t i = 0; i < a->n; i++) {
        struct block *b = a->blocks[i];
        if (!cut) {
            int r = assembly_end(a, b);
            if (r < 0)
                return r;
        }
        /* Empty texts, and calls without id, name and input, are left out. */
        bool kept = b->kind == BLOCK_TEXT       ? b->text.len > 0
                    : b->kind == BLOCK_THINKING ? b->text.len > 0 || (b->raw && b->whole)
                    : b->kind == BLOCK_OTHER
                        ? !cut && json_is_object(b->raw)
                        : !cut && (b->id.len || b->name.len || b->input.len || b->given);
        if (kept && json_array_append_new(content, block_json(a, b, taken)) < 0)
            return -ENOMEM;
    }
    if (!content || !taken)
        return -ENOMEM;
    *ret = TAKE_PTR(content);
    return 0;
}

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
    return json_get_string_or(value, "type", "");
}

int decode_error(struct decoder *d, json_t *error)
{
    _cleanup_json_ json_t *settled = lenient_json_settle(error, d->a.mended);
    return provider_error_of_event(settled, d->hint, d->err);
}

void decode_head(struct decoder *d, const json_t *head)
{
    const char *model = json_get_string(head, "model");
    const json_t *id = json_object_get(head, "id");
    json_int_t when = json_get_integer(head, "created");
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
    /* Servers send stop reasons that do not fit the content: calls decide. */
    bool calls = false;
    for (size_t i = 0; i < d->a.n; i++)
        calls |= d->a.blocks[i]->kind == BLOCK_CALL;
    if (!cut && d->refused && d->stop == MODEL_END_TURN)
        reply.stop = MODEL_REFUSAL;
    else if (!cut && calls && d->stop == MODEL_END_TURN)
        reply.stop = MODEL_TOOL_USE;
    else if (!calls && d->stop == MODEL_TOOL_USE)
        reply.stop = MODEL_END_TURN;
    d->err = err;
    if (d->protocol->order != ORDER_AS_BEGUN)
        assembly_sort(&d->a, d->protocol->order == ORDER_CALLS_BY_KEY);
    int r = assembly_content(&d->a, cut, &reply.content);
    if (r < 0)
        return decoder_explain(d, r);
    snprintf(reply.model, sizeof reply.model, "%s", d->model);
    *ret = reply;
    return 0;
}
