/*
 * The conversation of a session for a page that was just opened: pieces of the history, read beside
 * the agent, which may be writing it.
 */
#include <errno.h>
#include <string.h>

#include "json.h"
#include "live_session.h"
#include "tool.h"
#include "banned.h"

#define PAGE_MAX  (256u << 10) /* a page ends with the message that reaches this */
#define TOTAL_MAX (700u << 10) /* what such a message may add */
#define TEXT_MAX  (32u << 10)
#define IMAGE_MAX (256u << 10)

struct conversation_page {
    json_t *items;
    size_t from, last, bytes;
    bool more;
};

static const char *piece_kind_name(enum piece_kind kind)
{
    static const char *const NAMES[] = {
        [PIECE_PERSON] = "person", [PIECE_ANSWER] = "answer", [PIECE_THINKING] = "thinking",
        [PIECE_CALL] = "call",     [PIECE_IMAGE] = "image",   [PIECE_NOTE] = "note"};
    return NAMES[kind];
}

static size_t piece_text_size(const struct conversation_page *page, const struct piece *p)
{
    size_t room = TOTAL_MAX > page->bytes ? TOTAL_MAX - page->bytes : 0;
    if (p->kind == PIECE_IMAGE) /* whole or not at all */
        return p->n <= IMAGE_MAX && p->n <= room ? p->n : 0;
    size_t n = p->n < TEXT_MAX ? p->n : TEXT_MAX;
    n = n < room ? n : room;
    return n < p->n ? n - utf8_cut_end((const uint8_t *)p->text, n) : n;
}

/* Of hutch's own messages those that people care about. */
static bool piece_is_shown(const struct piece *p)
{
    static const char *const NOTES[] = {"summary", "cleared", "note"};
    for (size_t i = 0; p->kind == PIECE_NOTE && i < ARRAY_SIZE(NOTES); i++)
        if (p->name && strcmp(p->name, NOTES[i]) == 0)
            return true;
    return p->kind != PIECE_NOTE;
}

/* Fits piece_sink.piece; -ECANCELED ends the page. */
static int conversation_page_add(void *data, const struct piece *p)
{
    struct conversation_page *page = data;
    if (p->message < page->from || !piece_is_shown(p))
        return 0;
    if (page->bytes >= PAGE_MAX && p->message != page->last) {
        page->more = true;
        page->from = p->message;
        return -ECANCELED;
    }
    size_t n = piece_text_size(page, p), input = p->input ? strnlen(p->input, TEXT_MAX) : 0;
    page->last = p->message;
    page->bytes += n + input + 256;
    json_t *item = json_pack("{s:s, s:I, s:I, s:s*, s:s*, s:s*, s:o*, s:o, s:b}", "kind",
                             piece_kind_name(p->kind), "message", (json_int_t)p->message, "turn",
                             (json_int_t)p->turn, "time", p->time, "name", p->name, "brief",
                             p->brief, "input", p->input ? text_json(p->input, input) : NULL,
                             "text", text_json(p->text ? p->text : "", n), "truncated", n < p->n);
    if (p->kind == PIECE_CALL) {
        json_object_set_new(item, "failed", json_boolean(p->failed));
        json_object_set_new(item, "answered", json_boolean(p->answered));
    }
    return json_array_append_new(page->items, item) < 0 ? -ENOMEM : 0;
}

int session_conversation(const struct session_home *h, const char *history, size_t from,
                         json_t **ret, struct error *err)
{
    struct conversation_page page = {.items = json_array(), .from = from};
    const struct piece_sink sink = {.piece = conversation_page_add, .data = &page};
    struct history *open = NULL;
    int r = history_open(h->histories, history, true, &open, NULL, err);
    if (r == 0)
        r = history_pieces(open, false, &sink, err);
    history_close(open);
    if (r == -ENOENT || (r == -ECANCELED && page.more)) /* nothing was said yet; the page is full */
        r = 0;
    if (r < 0) {
        json_decref(page.items);
        return r;
    }
    *ret = json_pack("{s:o, s:o}", "items", page.items, "next",
                     page.more ? json_integer((json_int_t)page.from) : json_null());
    return *ret ? 0 : error_set(err, ENOMEM, "no memory");
}
