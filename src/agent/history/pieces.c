/* Messages for readers: the text of a message, a session's title, and its pieces in order. */
#include <errno.h>
#include <string.h>

#include "conversation.h"
#include "history_export.h"
#include "history_file.h"
#include "text.h"
#include "banned.h"

#define BRIEF_MAX 160

/* Each text begins on a line of its own. */
static void text_put(struct buf *b, const json_t *s)
{
    if (!json_is_string(s) || json_string_length(s) == 0)
        return;
    if (b->len > 0 && b->data[b->len - 1] != '\n')
        buf_append(b, "\n", 1);
    buf_append(b, json_string_value(s), json_string_length(s));
}

static void text_put_block(struct buf *b, const json_t *block)
{
    size_t i;
    json_t *part;
    if (block_is(block, "text") || block_is(block, "thinking")) {
        text_put(b, json_object_get(block, "text"));
    } else if (block_is(block, "tool_use")) {
        const json_t *input = json_object_get(block, "input");
        text_put(b, json_object_get(block, "name"));
        if (json_object_size(input) > 0) {
            buf_append(b, " ", 1);
            json_append(b, input, JSON_COMPACT | JSON_ENCODE_ANY);
        }
        text_put(b, json_object_get(block, "bad_input"));
    } else if (block_is(block, "tool_result")) {
        text_put(b, json_object_get(block, "content"));
        json_array_foreach(json_object_get(block, "content"), i, part)
        {
            if (!block_is(part, "tool_result"))
                text_put_block(b, part);
        }
    }
}

int history_text(const json_t *message, struct buf *ret)
{
    size_t i;
    json_t *one;
    const json_t *content = json_object_get(message, "content");
    if (json_object_get(message, "type")) {
        text_put_block(ret, message);
        return ret->failed ? -ENOBUFS : 0;
    }
    text_put(ret, content); /* a person may have written it so */
    json_array_foreach(content, i, one) text_put_block(ret, one);
    text_put(ret,
             json_object_get(message, "text")); /* of hutch's own: summaries, notes, the plan */
    json_array_foreach(json_object_get(message, "items"), i, one)
        text_put(ret, json_object_get(one, "text"));
    return ret->failed ? -ENOBUFS : 0;
}

/* Text on one line, cut to `max` bytes. */
static void text_put_line(struct buf *b, const char *text, size_t n, size_t max)
{
    bool blank = false;
    for (size_t i = 0; i < n;) {
        size_t size = utf8_character((const uint8_t *)text + i, n - i);
        bool space =
            size == 0 || text[i] == ' ' || utf8_is_control((const uint8_t *)text + i, size);
        if (!space && b->len + size + 2 > max) {
            buf_append_str(b, "…");
            return;
        }
        if (!space && blank && b->len)
            buf_append(b, " ", 1);
        if (!space)
            buf_append(b, text + i, size);
        blank = space;
        i += size ? size : 1;
    }
}

char *history_title_of(const json_t *message)
{
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
    _cleanup_buf_ struct buf title = BUF_INIT(HISTORY_TITLE_MAX + 16);
    history_text(message, &text);
    text_put_line(&title, (const char *)text.data, text.len, HISTORY_TITLE_MAX);
    return title.len ? strndup((const char *)title.data, title.len) : NULL;
}

/* One pass over a session. */
struct walk {
    struct history *h;
    const struct piece_sink *sink;
    json_t *results; /* the message that answers the calls of the last answer; or NULL */
    size_t results_at;
};

static int walk_emit(struct walk *w, size_t i, struct piece p)
{
    const struct history_entry *e = history_entry(w->h, i);
    p.message = i;
    p.turn = e->turn;
    p.counts = e->counts;
    p.undone = e->undone;
    return w->sink->piece(w->sink->data, &p);
}

static int walk_emit_text(struct walk *w, size_t i, enum piece_kind kind, const char *time,
                          const char *name, const json_t *text)
{
    struct piece p = {.kind = kind, .time = time, .name = name, .text = json_string_value(text)};
    p.n = json_string_length(text);
    return p.n ? walk_emit(w, i, p) : 0;
}

static int walk_images(struct walk *w, size_t i, const json_t *content)
{
    size_t k;
    json_t *block;
    int r = 0;
    json_array_foreach(content, k, block)
    {
        if (r == 0 && block_is(block, "image"))
            r = walk_emit_text(w, i, PIECE_IMAGE, NULL, json_get_string(block, "mime"),
                               json_object_get(block, "data"));
    }
    return r;
}

/* A call and its result, either of which may be missing. */
static int walk_call(struct walk *w, size_t i, const char *time, const json_t *call,
                     const json_t *result)
{
    static const char *const telling[] = {"command", "path", "query", "pattern", "url", "text"};
    const json_t *input = json_object_get(call, "input");
    const char *bad = json_get_string(call, "bad_input"), *about = NULL;
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX), brief = BUF_INIT(BRIEF_MAX + 16);
    _cleanup_free_ char *dump = input ? json_dumps(input, JSON_INDENT(2) | JSON_ENCODE_ANY) : NULL;
    for (size_t k = 0; !about && k < ARRAY_SIZE(telling); k++)
        about = json_get_string(input, telling[k]);
    if (!about && json_object_size(input) > 0)
        about = dump;
    text_put_line(&brief, about ? about : "", about ? strlen(about) : 0, BRIEF_MAX);
    if (result)
        history_text(result, &text);
    if (!buf_cstr(&text))
        return -ENOMEM;
    struct piece p = {.kind = PIECE_CALL,
                      .time = time,
                      .name = json_get_string(call ? call : result, call ? "name" : "tool_use_id"),
                      .brief = buf_cstr(&brief),
                      .input = bad ? bad : dump,
                      .answered = result,
                      .failed = json_get_bool(result, "is_error"),
                      .text = (char *)text.data,
                      .n = text.len};
    int r = walk_emit(w, i, p);
    return r == 0 ? walk_images(w, i, json_object_get(result, "content")) : r;
}

static int walk_answer(struct walk *w, size_t i, const json_t *message)
{
    size_t k, n;
    json_t *block, *one;
    const char *time = json_get_string(message, "time"), *model = json_get_string(message, "model");
    /* The message behind it that has the results of its calls. */
    json_decref(w->results);
    w->results = NULL;
    for (k = i + 1; k < history_count(w->h) && history_entry(w->h, k)->role == HISTORY_HUTCH; k++)
        ;
    const struct history_entry *next = history_entry(w->h, k);
    if (next && next->role == HISTORY_USER && !next->begins_turn &&
        history_read(w->h, k, &w->results, NULL) == 0)
        w->results_at = k;
    json_array_foreach(json_object_get(message, "content"), k, block)
    {
        const json_t *text = json_object_get(block, "text"), *result = NULL;
        int r = 0;
        if (block_is(block, "text")) {
            r = walk_emit_text(w, i, PIECE_ANSWER, time, model, text);
        } else if (block_is(block, "thinking")) {
            r = walk_emit_text(w, i, PIECE_THINKING, time, model, text);
        } else if (block_is(block, "tool_use")) {
            const char *id = json_get_string_or(block, "id", "");
            json_array_foreach(json_object_get(w->results, "content"), n, one)
            {
                const char *its = json_get_string(one, "tool_use_id");
                if (!result && block_is(one, "tool_result") && its && strcmp(its, id) == 0)
                    result = one;
            }
            r = walk_call(w, i, time, block, result);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static int walk_user(struct walk *w, size_t i, const json_t *message)
{
    size_t k;
    json_t *block;
    const char *time = json_get_string(message, "time");
    const json_t *content = json_object_get(message, "content");
    bool answers = w->results && w->results_at == i; /* walk_answer had them */
    int r = json_is_string(content) ? walk_emit_text(w, i, PIECE_PERSON, time, NULL, content) : 0;
    json_array_foreach(content, k, block)
    {
        if (r == 0 && block_is(block, "text"))
            r = walk_emit_text(w, i, PIECE_PERSON, time, NULL, json_object_get(block, "text"));
        else if (r == 0 && block_is(block, "tool_result") && !answers)
            r = walk_call(w, i, time, NULL, block);
    }
    return r == 0 ? walk_images(w, i, content) : r;
}

int history_pieces(struct history *h, bool full, const struct piece_sink *sink, struct error *err)
{
    struct walk w = {.h = h, .sink = sink};
    int r = 0;
    for (size_t i = 0; r == 0 && i < history_count(h); i++) {
        const struct history_entry *e = history_entry(h, i);
        _cleanup_json_ json_t *message = NULL;
        if (!full && !e->counts)
            continue;
        r = history_read(h, i, &message, err);
        if (r < 0)
            break;
        if (e->role == HISTORY_ASSISTANT) {
            r = walk_answer(&w, i, message);
        } else if (e->role == HISTORY_USER) {
            r = walk_user(&w, i, message);
        } else {
            _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
            history_text(message, &text);
            struct piece p = {.kind = PIECE_NOTE,
                              .time = json_get_string(message, "time"),
                              .name = json_get_string(message, "kind"),
                              .text = buf_cstr(&text),
                              .n = text.len};
            r = p.text ? walk_emit(&w, i, p) : -ENOMEM;
        }
        if (r < 0)
            error_errno(err, -r, "message %zu of %s", i, history_id(h));
    }
    json_decref(w.results);
    return r;
}
