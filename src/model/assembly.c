#include <errno.h>
#include <string.h>

#include "assembly.h"
#include "utf8.h"
#include "banned.h"

#define LABEL_MAX 256 /* bytes of an id or a name */

static void block_free(struct block *b)
{
    buf_free(&b->text);
    buf_free(&b->input);
    buf_free(&b->id);
    buf_free(&b->name);
    json_decref(b->given);
    json_decref(b->raw);
    json_decref(b->extra);
    free(b);
}

void assembly_free(struct assembly *a)
{
    for (size_t i = 0; i < a->n; i++)
        block_free(a->blocks[i]);
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

/* Notes n more bytes kept. The largest growth of a piece is 3: a NUL becomes U+FFFD. */
static int spend(struct assembly *a, size_t n)
{
    if (n > DECODER_BYTES_MAX - a->bytes)
        return -EFBIG;
    a->bytes += n;
    return 0;
}

static void show(struct assembly *a, enum model_event_kind kind, struct buf *text, size_t from)
{
    const char *data = text->len > from ? buf_cstr(text) : NULL;
    if (!data || !a->sink.event)
        return;
    struct model_event e = {.kind = kind, .text = data + from, .n = text->len - from};
    a->sink.event(a->sink.data, &e);
}

static void show_text(struct assembly *a, struct block *b, size_t from)
{
    show(a, b->kind == BLOCK_THINKING ? MODEL_THINKING : MODEL_TEXT, &b->text, from);
}

/* A piece at the end of one of the block's texts. The budget counts what came out of it. */
static int grow(struct assembly *a, struct block *b, struct buf *text, const char *s, size_t n)
{
    size_t before = text->len;
    int r = spend(a, n);
    if (r < 0)
        return r;
    if (broken_append(&b->broken, s, n, a->mended, text) < 0)
        return before + 3 * n > text->max ? -EFBIG : -ENOMEM;
    size_t grown = text->len - before;
    return grown > n ? spend(a, grown - n) : 0;
}

int assembly_text(struct assembly *a, struct block *b, const json_t *piece)
{
    if (!json_is_string(piece))
        return 0;
    size_t from = b->text.len;
    int r = grow(a, b, &b->text, json_string_value(piece), json_string_length(piece));
    if (r == 0)
        show_text(a, b, from);
    return r;
}

int assembly_text_is(struct assembly *a, struct block *b, const json_t *text)
{
    if (!json_is_string(text))
        return 0;
    _cleanup_json_ json_t *settled = loose_settle((json_t *)text, a->mended);
    if (!settled)
        return -ENOMEM;
    const char *s = json_string_value(settled);
    size_t n = json_string_length(settled), had = b->text.len;
    bool more = n >= had && (had == 0 || memcmp(b->text.data, s, had) == 0);
    size_t from = more ? had : 0;
    b->broken.n = 0;
    b->text.len = from;
    int r = spend(a, n - from);
    if (r == 0 && broken_append(&b->broken, s + from, n - from, false, &b->text) < 0)
        r = -ENOMEM;
    if (r == 0 && more)
        show_text(a, b, had);
    return r;
}

int assembly_input(struct assembly *a, struct block *b, const json_t *piece)
{
    return json_is_string(piece)
               ? grow(a, b, &b->input, json_string_value(piece), json_string_length(piece))
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
static int label(struct assembly *a, struct buf *to, const json_t *value)
{
    _cleanup_json_ json_t *settled = loose_settle((json_t *)value, a->mended);
    if (!settled)
        return -ENOMEM;
    const char *s = json_string_value(settled);
    size_t n = strlen(s);
    if (n > LABEL_MAX)
        n = LABEL_MAX - utf8_cut_end((const uint8_t *)s, LABEL_MAX);
    to->len = 0;
    return buf_append(to, s, n) < 0 ? -ENOMEM : 0;
}

static bool says_something(const json_t *value)
{
    return json_is_string(value) && *json_string_value(value);
}

int assembly_call(struct assembly *a, struct block *b, const json_t *id, const json_t *name)
{
    bool first = b->name.len == 0;
    int r = says_something(id) ? label(a, &b->id, id) : 0;
    if (r == 0 && says_something(name))
        r = label(a, &b->name, name);
    if (r == 0 && first)
        show(a, MODEL_CALL, &b->name, 0);
    return r;
}

int assembly_keep(struct assembly *a, json_t **slot, json_t *value)
{
    int r = spend(a, a->cost);
    if (r < 0)
        return r;
    a->cost = 0;
    json_t *settled = a->mended ? loose_settle(value, true) : json_deep_copy(value);
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
    if (broken_end(&b->broken, has_input ? &b->input : &b->text) < 0)
        return -ENOMEM;
    show_text(a, b, from);
    return 0;
}

bool assembly_has_calls(const struct assembly *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->blocks[i]->kind == BLOCK_CALL)
            return true;
    return false;
}

static bool is_behind(const struct block *a, const struct block *b)
{
    return a->key > b->key || (a->key == b->key && a->part > b->part);
}

/* By insertion: there are few, in order but for a server that wants to be looked at. Stable. */
void assembly_sort(struct assembly *a, bool calls_only)
{
    size_t places[DECODER_BLOCKS_MAX], n = 0;
    for (size_t i = 0; i < a->n; i++) {
        struct block *b = a->blocks[i];
        if (calls_only && b->kind != BLOCK_CALL)
            continue;
        size_t at = n;
        places[n++] = i;
        for (; at > 0 && is_behind(a->blocks[places[at - 1]], b); at--)
            a->blocks[places[at]] = a->blocks[places[at - 1]];
        a->blocks[places[at]] = b;
    }
}
