/*
 * How the view begins when older messages are not in it: the person's own words, verbatim, and the
 * summary. Words are what peers' compactions lose, rules above all ("never touch the migrations"),
 * so they are not left to a summary: the first and the latest are there in full, and of the others
 * the newest as far as the budget goes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context_private.h"
#include "banned.h"

static void put_words(const json_t *message, struct buf *b)
{
    size_t i;
    json_t *block;
    json_array_foreach(json_object_get(message, "content"), i, block)
    {
        const char *text = json_string_value(json_object_get(block, "text"));
        if (text)
            buf_printf(b, "%s%s", b->len ? "\n" : "", text);
    }
}

/* The person's words of message i, at most max bytes: a new string, NULL if there are none. */
static json_t *read_words(struct context *c, size_t i, size_t max)
{
    char note[100];
    json_t *message = NULL;
    _cleanup_buf_ struct buf b = BUF_INIT(HISTORY_MESSAGE_MAX);
    if (history_read(c->h, i, &message, NULL) < 0)
        return NULL;
    put_words(message, &b);
    json_decref(message);
    snprintf(note, sizeof note, "left out; memory {\"message\": %zu} gets them back", i);
    return b.len > 0 && !b.failed
               ? form_cut((const char *)b.data, b.len, max * 2 / 3, max / 3, note)
               : NULL;
}

/* The places of the person's words before `start`, oldest first. */
static int find_words(const struct context *c, size_t **ret, size_t *ret_n)
{
    size_t *found = NULL, n = 0, room = 0;
    for (size_t i = 0; i < c->start; i++) {
        const struct history_entry *e = history_entry(c->h, i);
        if (!e->counts || !e->begins_turn)
            continue;
        if (n == room) {
            room = room ? 2 * room : 64;
            size_t *more = realloc(found, room * sizeof *more);
            if (!more) {
                free(found);
                return -ENOMEM;
            }
            found = more;
        }
        found[n++] = i;
    }
    *ret = found;
    *ret_n = n;
    return 0;
}

/* Chooses texts[i] for the words to show: first, last, then backwards from the last. */
static void choose(struct context *c, const size_t *at, size_t n, json_t **texts)
{
    size_t most = (size_t)(c->span / 8 * 3) >> c->squeeze;
    uint64_t budget = (c->span / 8) >> c->squeeze, used = 0;
    if (n > 0)
        texts[0] = read_words(c, at[0], most);
    for (size_t i = n; i-- > 1;) {
        texts[i] = read_words(c, at[i], i == n - 1 ? most : most / 4);
        size_t length = json_string_length(texts[i]);
        used += tokens_of_text(length ? json_string_value(texts[i]) : "", length);
        if (used <= budget || i == n - 1)
            continue;
        json_decref(texts[i]);
        texts[i] = NULL;
        break;
    }
}

static void put_all_words(const struct context *c, const size_t *at, size_t n, json_t **texts,
                          struct buf *b)
{
    size_t gap = 0;
    buf_append_str(b, "[hutch] This conversation is longer than what fits here: its beginning is "
                      "left out. What the"
                      " person said in it stands below word for word, and still holds; then comes "
                      "a summary of what was"
                      " done. `memory` finds everything else.\n");
    for (size_t i = 0; i < n; i++) {
        if (!texts[i]) {
            gap++;
            continue;
        }
        if (gap > 0)
            buf_printf(b, "\n(%zu more messages of the person here: memory has them.)\n", gap);
        gap = 0;
        buf_printf(b, "\n<person turn=\"%u\">\n%s\n</person>\n", history_entry(c->h, at[i])->turn,
                   json_string_value(texts[i]));
    }
}

static json_t *make_message(const struct context *c, const struct buf *words)
{
    json_t *all = json_stringn((const char *)words->data, words->len);
    size_t n = strlen(c->summary), most = (size_t)context_summary_budget(c) * 6 >> c->squeeze;
    json_t *cut = form_cut(c->summary, n, most, 0, "of the summary left out");
    _cleanup_buf_ struct buf b = BUF_INIT(json_string_length(cut) + 100);
    if (cut)
        buf_printf(&b, "<summary>\n%s\n</summary>", json_string_value(cut));
    json_decref(cut);
    json_t *summary = b.len > 0 && !b.failed ? json_stringn((const char *)b.data, b.len) : NULL;
    return json_pack("{s:s, s:[{s:s, s:o}, {s:s, s:o}]}", "role", "user", "content", "type", "text",
                     "text", all, "type", "text", "text", summary);
}

int context_make_head(struct context *c, struct error *err)
{
    size_t *at = NULL, n = 0;
    _cleanup_buf_ struct buf b = BUF_INIT(HISTORY_MESSAGE_MAX);
    int r = find_words(c, &at, &n);
    json_t **texts = r == 0 ? calloc(n + 1, sizeof *texts) : NULL;
    if (texts) {
        choose(c, at, n, texts);
        put_all_words(c, at, n, texts, &b);
    }
    json_t *head = texts && !b.failed ? make_message(c, &b) : NULL;
    for (size_t i = 0; texts && i < n; i++)
        json_decref(texts[i]);
    free(texts);
    free(at);
    if (!head)
        return error_set(err, ENOMEM, "no memory");
    json_decref(c->head);
    c->head = head;
    c->head_tokens = tokens_of_message(head);
    return 0;
}
