/*
 * Summaries by the model. What is to be summarised is rendered as text and sent in pieces that fit
 * the window, each together with the summary so far; a piece that is still too long for the model
 * is halved. Whatever the model cannot or does not do is done extractively: pruning never fails
 * because a summary did.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context_private.h"
#include "summary_prompt.h"
#include "banned.h"

#define PIECES_MAX   4 /* so much of the newest is read by the model; what is older is listed */
#define PIECE_MIN    4096
#define RENDERED_MAX 6000 /* what a message comes to at most, about */

struct work {
    struct context *c;
    const struct asking *a;
    struct buf text; /* the summary so far */
    size_t at, until;
    size_t piece; /* bytes */
};

uint64_t context_summary_budget(const struct context *c)
{
    uint64_t share = c->span / 10;
    return share > 6000 ? 6000 : share;
}

/* Renders messages from w->at on until the piece is full; returns the first that is not in it. */
static size_t render_piece(struct work *w, struct buf *out)
{
    size_t i = w->at;
    for (; i < w->until && (out->len < w->piece || i == w->at); i++) {
        const struct history_entry *e = history_entry(w->c->h, i);
        json_t *message = NULL;
        if (!e->counts || e->role == HISTORY_HUTCH || history_read(w->c->h, i, &message, NULL) < 0)
            continue;
        context_render(message, out);
        json_decref(message);
    }
    return i;
}

static void ignore(void *data, const struct model_event *e) {}

static json_t *question(const struct work *w, const struct buf *piece)
{
    _cleanup_buf_ struct buf b = BUF_INIT(w->text.len + piece->len + 400);
    if (w->text.len > 0) {
        buf_append_str(&b, "<summary_so_far>\n");
        buf_append(&b, w->text.data, w->text.len);
        buf_append_str(&b, "\n</summary_so_far>\n\n");
    }
    buf_append_str(&b, "<conversation>\n");
    buf_append(&b, piece->data, piece->len);
    buf_append_str(&b, "\n</conversation>\n\nWrite the summary now.");
    json_t *text = b.failed ? NULL : json_stringn((const char *)b.data, b.len);
    return text ? json_pack("[{s:s, s:[{s:s, s:o}]}]", "role", "user", "content", "type", "text",
                            "text", text)
                : NULL;
}

/* The texts of the reply take the place of the summary so far. -ENODATA if there are none. */
static int take_reply(struct work *w, const json_t *content)
{
    size_t i, most = (size_t)context_summary_budget(w->c) * 6;
    json_t *block;
    _cleanup_buf_ struct buf b = BUF_INIT(1u << 20);
    json_array_foreach(content, i, block)
    {
        const json_t *text = json_object_get(block, "text");
        const char *type = json_string_value(json_object_get(block, "type"));
        if (type && strcmp(type, "text") == 0 && json_is_string(text))
            buf_append(&b, json_string_value(text), json_string_length(text));
    }
    if (b.len == 0 || b.failed)
        return -ENODATA;
    json_t *cut = form_cut((const char *)b.data, b.len, most, 0, "of the summary left out");
    w->text.len = 0;
    buf_append_str(&w->text, cut ? json_string_value(cut) : "");
    json_decref(cut);
    return w->text.len > 0 ? 0 : -ENODATA;
}

static int ask_piece(struct work *w, const struct buf *piece, struct error *err)
{
    struct context *c = w->c;
    _cleanup_reply_ struct model_reply reply = {0};
    struct model_sink nobody = {.event = ignore};
    struct model_request q = {.system = c->summary_prompt ? c->summary_prompt : SUMMARY_PROMPT,
                              .messages = question(w, piece),
                              .max_tokens = 2 * context_summary_budget(c) + 2048,
                              .cancel = w->a->cancel};
    if (!q.messages)
        return -ENOMEM;
    int r = c->ask(w->a->m, &q, &nobody, &reply, err);
    json_decref(q.messages);
    if (r < 0)
        return r;
    model_usage_add(&c->spent, &reply.usage);
    return take_reply(w, reply.content);
}

/* One piece; halved as long as it is too long for the model. */
static int do_piece(struct work *w, struct error *err)
{
    for (;;) {
        _cleanup_buf_ struct buf piece = BUF_INIT(w->piece + HISTORY_MESSAGE_MAX);
        size_t next = render_piece(w, &piece);
        int r = piece.len > 0 ? ask_piece(w, &piece, err) : 0;
        if (r == 0)
            w->at = next;
        if (r != -EMSGSIZE || w->piece <= PIECE_MIN)
            return r;
        w->piece /= 2;
    }
}

/* What is left, without a model: behind the summary so far, which makes room for it. */
static int list_rest(struct work *w, size_t until)
{
    size_t most = (size_t)context_summary_budget(w->c) * 3;
    if (w->text.len > most) {
        json_t *cut = form_cut((const char *)w->text.data, w->text.len, most, 0,
                               "of the earlier summary left out");
        w->text.len = 0;
        buf_append_str(&w->text, cut ? json_string_value(cut) : "");
        json_decref(cut);
    }
    if (w->text.len > 0)
        buf_append_str(&w->text, "\n\n");
    buf_append_str(&w->text, "What happened then, listed (nobody summarised it):\n");
    int r = context_extract(w->c, w->at, until, most, &w->text);
    w->at = until;
    return r;
}

/* Where the last PIECES_MAX pieces begin, about. */
static size_t first_read(const struct work *w)
{
    size_t i = w->until;
    uint64_t bytes = 0, most = (uint64_t)w->piece * PIECES_MAX;
    for (; i > w->at && bytes < most; i--) {
        const struct history_entry *e = history_entry(w->c->h, i - 1);
        if (e->counts && e->role != HISTORY_HUTCH)
            bytes += e->length < RENDERED_MAX ? e->length : RENDERED_MAX;
    }
    return i;
}

static int work_with_model(struct work *w, struct error *err)
{
    struct error why = {0};
    size_t first = first_read(w);
    int r = first > w->at ? list_rest(w, first) : 0;
    while (r == 0 && w->at < w->until)
        r = do_piece(w, &why);
    if (r == -ECANCELED && err)
        *err = why;
    return r;
}

int context_summarise(struct context *c, size_t until, const struct asking *a, char **ret,
                      struct error *err)
{
    struct work w = {.c = c,
                     .a = a,
                     .text = BUF_INIT(2u << 20),
                     .at = c->start,
                     .until = until,
                     .piece = (size_t)(context_room(c) * 3 / 2)}; /* half of the room */
    int r = 0;
    if (w.piece < PIECE_MIN)
        w.piece = PIECE_MIN;
    if (c->summary)
        buf_append_str(&w.text, c->summary);
    if (a->m)
        r = work_with_model(&w, err);
    if (r == -ECANCELED) {
        buf_free(&w.text);
        return r;
    }
    if (w.at < until)
        list_rest(&w, until);
    char *text = buf_cstr(&w.text);
    if (!text) {
        buf_free(&w.text);
        return error_set(err, ENOMEM, "no memory");
    }
    *ret = text;
    return 0;
}
