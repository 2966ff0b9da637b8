/* The desk: the conversation as a Markdown file of the person's. It never replaces a file that is there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "desk_private.h"
#include "io.h"
#include "summary.h"
#include "banned.h"

static const char *string_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static bool is_type(const json_t *block, const char *type)
{
    const char *t = string_of(block, "type");
    return t && strcmp(t, type) == 0;
}

/* A fence longer than any run of backquotes in the text. */
static void put_fenced(struct buf *out, const char *text)
{
    size_t longest = 2, run = 0;
    for (const char *at = text; *at; at++) {
        run = *at == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    char fence[64];
    size_t n = longest + 1 < sizeof fence ? longest + 1 : sizeof fence - 1;
    memset(fence, '`', n);
    fence[n] = 0;
    buf_printf(out, "%s\n%s%s%s\n\n", fence, text, *text && text[strlen(text) - 1] == '\n' ? "" : "\n",
               fence);
}

static void put_block(struct buf *out, const json_t *block)
{
    const json_t *part;
    size_t i;
    const char *text = string_of(block, "text"), *name = string_of(block, "name");
    if (is_type(block, "text") && text) {
        buf_printf(out, "%s\n\n", text);
    } else if (is_type(block, "tool_use") && name) {
        buf_printf(out, "**%s** ", name);
        summary_of_call(name, json_object_get(block, "input"), 200, out);
        buf_append_str(out, "\n\n");
    } else if (is_type(block, "tool_result")) {
        json_array_foreach(json_object_get(block, "content"), i, part) if ((text = string_of(part, "text")))
            put_fenced(out, text);
    }
}

static int put_message(struct buf *out, struct history *h, size_t i, struct error *err)
{
    const struct history_entry *e = history_entry(h, i);
    json_t *message, *block;
    size_t k;
    if (!e->counts || e->role == HISTORY_HUTCH)
        return 0;
    if (e->begins_turn)
        buf_printf(out, "## Turn %u\n\n", e->turn);
    else if (e->role == HISTORY_ASSISTANT)
        buf_append_str(out, "### Answer\n\n");
    int r = history_read(h, i, &message, err);
    if (r < 0)
        return r;
    json_array_foreach(json_object_get(message, "content"), k, block) put_block(out, block);
    json_decref(message);
    return 0;
}

/* Writes what has gathered. */
static int flush(int fd, struct buf *out)
{
    int r = out->failed ? -EFBIG : io_write_all(fd, out->data, out->len);
    out->len = 0;
    return r;
}

int desk_export(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct history *h = agent_history(d->agent);
    _cleanup_buf_ struct buf out = BUF_INIT(HISTORY_MESSAGE_MAX * 2u);
    _cleanup_fd_ int fd = open(j->text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return error_set(err, EEXIST, "%s is there already; name another file", j->text);
    if (fd < 0)
        return error_errno(err, errno, "cannot make %s", j->text);
    buf_printf(&out, "# Session %s\n\n", history_id(h));
    int r = 0;
    for (size_t i = 0, n = history_count(h); r == 0 && i < n; i++) {
        r = put_message(&out, h, i, err);
        if (r == 0 && (r = flush(fd, &out)) < 0)
            error_errno(err, -r, "cannot write %s", j->text);
    }
    return r < 0 ? r : buf_printf(&a->text, "Written to %s.\n", j->text);
}
