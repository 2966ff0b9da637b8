/*
 * A summary without a model: the newest messages first, each as one or two lines, until the budget
 * is used; what the agent said, what it called, what failed. The person's words are elsewhere in
 * full (context_head.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context_private.h"
#include "banned.h"

#define SAID_MAX   400
#define CALL_MAX   160
#define NAME_SHOWN 64
#define BYTES_MAX  (8u << 20) /* of the history, that are parsed */

/* The beginning of a text, without line breaks. */
static void put_part(const char *mark, const char *text, size_t n, size_t max, struct buf *out)
{
    json_t *cut = form_cut(text, n, max, 0, "more");
    buf_append_str(out, mark);
    for (const char *at = cut ? json_string_value(cut) : ""; *at; at++)
        buf_append(out, *at == '\n' || *at == '\r' ? " " : at, 1);
    json_decref(cut);
}

static void put_line(const char *mark, const char *text, size_t n, size_t max, struct buf *out)
{
    put_part(mark, text, n, max, out);
    buf_append_str(out, "\n");
}

static void put_call(const json_t *block, struct buf *out)
{
    static const char *const telling[] = {"command", "path", "pattern", "query"};
    const char *name = json_string_value(json_object_get(block, "name"));
    const json_t *input = json_object_get(block, "input"), *value = NULL;
    for (size_t i = 0; !value && i < ARRAY_SIZE(telling); i++)
        value = json_object_get(input, telling[i]);
    const char *text = json_string_value(value);
    put_part("- called ", name ? name : "", name ? strlen(name) : 0, NAME_SHOWN, out);
    put_line(": ", text ? text : "", text ? json_string_length(value) : 0, CALL_MAX, out);
}

static void put_block(const json_t *block, bool assistant, struct buf *out)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    const json_t *text = json_object_get(block, "text");
    if (!type)
        return;
    if (assistant && strcmp(type, "text") == 0 && json_string_length(text) > 0)
        put_line("- said: ", json_string_value(text), json_string_length(text), SAID_MAX, out);
    else if (strcmp(type, "tool_use") == 0)
        put_call(block, out);
    else if (strcmp(type, "tool_result") == 0 && json_is_true(json_object_get(block, "is_error"))) {
        text = json_object_get(json_array_get(json_object_get(block, "content"), 0), "text");
        if (json_is_string(text))
            put_line("- that failed: ", json_string_value(text), json_string_length(text), CALL_MAX,
                     out);
    }
}

/* The lines of one message, or NULL. */
static char *lines_of(struct context *c, size_t i)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64u << 10);
    json_t *message = NULL, *block;
    size_t k;
    if (history_read(c->h, i, &message, NULL) < 0)
        return NULL;
    json_array_foreach(json_object_get(message, "content"), k, block)
        put_block(block, history_entry(c->h, i)->role == HISTORY_ASSISTANT, &b);
    json_decref(message);
    char *text = b.len > 0 ? buf_cstr(&b) : NULL;
    if (text)
        b = BUF_INIT(0);
    return text;
}

int context_extract(struct context *c, size_t from, size_t until, size_t max, struct buf *out)
{
    size_t used = 0, room = 0, n = 0, i = until, left = 0;
    uint64_t bytes = 0;
    char **lines = NULL;
    while (i > from && used < max && bytes < BYTES_MAX) {
        const struct history_entry *e = history_entry(c->h, --i);
        char *text = e->counts && e->role != HISTORY_HUTCH ? lines_of(c, i) : NULL;
        bytes += e->length;
        if (!text)
            continue;
        if (n == room) {
            char **more = realloc(lines, (room = room ? 2 * room : 64) * sizeof *more);
            if (!more) {
                free(text);
                break;
            }
            lines = more;
        }
        used += strlen(text);
        lines[n++] = text;
    }
    for (; i > from; i--)
        left +=
            history_entry(c->h, i - 1)->counts && history_entry(c->h, i - 1)->role != HISTORY_HUTCH;
    if (left > 0)
        buf_printf(out, "(%zu earlier messages are not listed here: memory finds them.)\n", left);
    while (n > 0) {
        buf_append_str(out, lines[--n]);
        free(lines[n]);
    }
    free(lines);
    return out->failed ? -ENOBUFS : 0;
}
