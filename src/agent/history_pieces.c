#include <errno.h>
#include <string.h>

#include "buf.h"
#include "history_pieces.h"
#include "utf8.h"
#include "banned.h"

#define BRIEF_MAX 160
#define TITLE_MAX 100

struct walk {
    struct history *h;
    bool full;
    const struct piece_sink *sink;
    json_t *results; /* the message that answers its calls; or NULL */
    size_t results_at;
};

static const char *member(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static bool is_type(const json_t *block, const char *type)
{
    const char *its = member(block, "type");
    return its && strcmp(its, type) == 0;
}

/* Text on one line, cut to fit. */
static void put_line(struct buf *b, const char *text, size_t max)
{
    size_t n = strlen(text);
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

/* What a call is about, in a few words: its command, its file, or else its input. */
static char *brief_of(const json_t *input)
{
    static const char *const names[] = {"command", "path", "query", "pattern", "url", "text"};
    struct buf b = BUF_INIT(BRIEF_MAX + 16);
    const char *text = NULL;
    for (size_t i = 0; !text && i < ARRAY_SIZE(names); i++)
        text = member(input, names[i]);
    _cleanup_free_ char *dump =
        text || json_object_size(input) == 0 ? NULL : json_dumps(input, JSON_COMPACT);
    put_line(&b, text ? text : dump ? dump : "", BRIEF_MAX);
    return buf_cstr(&b);
}

static int tell(struct walk *w, size_t i, struct piece p)
{
    const struct history_entry *e = history_entry(w->h, i);
    p.message = i;
    p.turn = e->turn;
    p.counts = e->counts;
    p.undone = e->undone;
    return w->sink->piece(w->sink->data, &p);
}

static int tell_text(struct walk *w, size_t i, enum piece_kind kind, const char *time,
                     const char *name, const json_t *text)
{
    struct piece p = {.kind = kind, .time = time, .name = name, .text = json_string_value(text)};
    p.n = json_string_length(text);
    return p.n ? tell(w, i, p) : 0;
}

static const json_t *result_of(const json_t *message, const char *id)
{
    size_t i;
    json_t *block;
    json_array_foreach(json_object_get(message, "content"), i, block)
    {
        const char *its = member(block, "tool_use_id");
        if (is_type(block, "tool_result") && its && id && strcmp(its, id) == 0)
            return block;
    }
    return NULL;
}

static int tell_images(struct walk *w, size_t i, const json_t *content)
{
    size_t k;
    json_t *block;
    int r = 0;
    json_array_foreach(content, k, block) if (r == 0 && is_type(block, "image")) r =
        tell_text(w, i, PIECE_IMAGE, NULL, member(block, "mime"), json_object_get(block, "data"));
    return r;
}

static int tell_call(struct walk *w, size_t i, const char *time, const json_t *block)
{
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
    const json_t *input = json_object_get(block, "input"),
                 *result = result_of(w->results, member(block, "id"));
    const char *bad = member(block, "bad_input");
    _cleanup_free_ char *brief = brief_of(input),
                        *dump = json_dumps(input, JSON_INDENT(2) | JSON_ENCODE_ANY);
    if (result)
        history_text(result, &text);
    if (!buf_cstr(&text))
        return -ENOMEM;
    struct piece p = {.kind = PIECE_CALL,
                      .time = time,
                      .name = member(block, "name"),
                      .brief = brief,
                      .input = bad ? bad : dump,
                      .answered = result,
                      .failed = json_is_true(json_object_get(result, "is_error")),
                      .text = (char *)text.data,
                      .n = text.len};
    int r = tell(w, i, p);
    return r == 0 && result ? tell_images(w, i, json_object_get(result, "content")) : r;
}

/* The message behind an answer that has the results of its calls. */
static void find_results(struct walk *w, size_t i)
{
    json_decref(w->results);
    w->results = NULL;
    for (size_t k = i + 1; k < history_count(w->h); k++) {
        const struct history_entry *e = history_entry(w->h, k);
        if (e->role == HISTORY_HUTCH)
            continue;
        if (e->role == HISTORY_USER && !e->begins_turn &&
            history_read(w->h, k, &w->results, NULL) == 0)
            w->results_at = k;
        return;
    }
}

static int tell_answer(struct walk *w, size_t i, const json_t *message)
{
    size_t k;
    json_t *block;
    const char *time = member(message, "time"), *model = member(message, "model");
    int r = 0;
    find_results(w, i);
    json_array_foreach(json_object_get(message, "content"), k, block)
    {
        if (is_type(block, "text"))
            r = tell_text(w, i, PIECE_ANSWER, time, model, json_object_get(block, "text"));
        else if (is_type(block, "thinking"))
            r = tell_text(w, i, PIECE_THINKING, time, model, json_object_get(block, "text"));
        else if (is_type(block, "tool_use"))
            r = tell_call(w, i, time, block);
        if (r < 0)
            return r;
    }
    return 0;
}

static int tell_person(struct walk *w, size_t i, const json_t *message)
{
    size_t k;
    json_t *block;
    const char *time = member(message, "time");
    const json_t *content = json_object_get(message, "content");
    int r = json_is_string(content) ? tell_text(w, i, PIECE_PERSON, time, NULL, content) : 0;
    json_array_foreach(content, k, block)
    {
        bool told = w->results && w->results_at == i && is_type(block, "tool_result");
        if (r == 0 && is_type(block, "text"))
            r = tell_text(w, i, PIECE_PERSON, time, NULL, json_object_get(block, "text"));
        if (r == 0 && is_type(block, "tool_result") && !told) {
            _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
            history_text(block, &text);
            r = buf_cstr(&text) ? tell(w, i,
                                       (struct piece){.kind = PIECE_CALL,
                                                      .time = time,
                                                      .name = member(block, "tool_use_id"),
                                                      .answered = true,
                                                      .text = (char *)text.data,
                                                      .n = text.len})
                                : -ENOMEM;
        }
    }
    return r == 0 ? tell_images(w, i, content) : r;
}

static int tell_own(struct walk *w, size_t i, const json_t *message)
{
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
    history_text(message, &text);
    if (!buf_cstr(&text))
        return -ENOMEM;
    return tell(w, i,
                (struct piece){.kind = PIECE_NOTE,
                               .time = member(message, "time"),
                               .name = member(message, "kind"),
                               .text = (char *)text.data,
                               .n = text.len});
}

static int tell_message(struct walk *w, size_t i, struct error *err)
{
    const struct history_entry *e = history_entry(w->h, i);
    json_t *message = NULL;
    int r = history_read(w->h, i, &message, err);
    if (r < 0)
        return r;
    r = e->role == HISTORY_ASSISTANT ? tell_answer(w, i, message)
        : e->role == HISTORY_USER    ? tell_person(w, i, message)
                                     : tell_own(w, i, message);
    json_decref(message);
    return r < 0 ? error_errno(err, -r, "message %zu of %s", i, history_id(w->h)) : 0;
}

int history_pieces(struct history *h, bool full, const struct piece_sink *sink, struct error *err)
{
    struct walk w = {.h = h, .full = full, .sink = sink};
    int r = 0;
    for (size_t i = 0; r == 0 && i < history_count(h); i++)
        if (full || history_entry(h, i)->counts)
            r = tell_message(&w, i, err);
    json_decref(w.results);
    return r;
}

char *history_title(struct history *h)
{
    for (size_t i = 0; i < history_count(h); i++) {
        json_t *message = NULL;
        if (!history_entry(h, i)->begins_turn || history_read(h, i, &message, NULL) < 0)
            continue;
        _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
        struct buf title = BUF_INIT(TITLE_MAX + 16);
        history_text(message, &text);
        json_decref(message);
        if (!buf_cstr(&text))
            return NULL;
        put_line(&title, (char *)text.data, TITLE_MAX);
        return buf_cstr(&title);
    }
    return NULL;
}
