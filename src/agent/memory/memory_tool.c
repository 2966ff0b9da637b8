/*
 * The `memory` tool: searching this and past sessions, and reading one message of them in full, or
 * the output of one call of several in it. This gets back what was pruned from the context.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "conversation.h"
#include "history_file.h"
#include "options.h"
#include "thread.h"
#include "tool.h"
#include "memory_db.h"
#include "text.h"
#include "banned.h"

struct memory_source {
    struct tool_source source;
    struct tool tool;
    struct history *own;
    struct memory_options options;
    pthread_mutex_t lock; /* guards `memory` */
    struct memory *memory;
};

static void history_closep(struct history **h)
{
    history_close(*h);
}

static struct memory_source *memory_source_of(const struct tool_call *c)
{
    return (struct memory_source *)((char *)c->tool - offsetof(struct memory_source, tool));
}

static void memory_put_hit(struct buf *b, const json_t *hit, const char *own)
{
    const char *session = json_get_string(hit, "session"), *call = json_get_string(hit, "call");
    const char *when = json_get_string(hit, "time");
    struct tm utc = {0};
    char ago[32];
    buf_printf(b, "[session %s, message %" JSON_INTEGER_FORMAT,
               strcmp(session, own) == 0 ? "this" : session, json_get_integer(hit, "message"));
    if (call)
        buf_printf(b, ", call %.100s", call);
    buf_printf(b, ", %s", json_get_string(hit, "role"));
    if (when && strptime(when, "%Y-%m-%dT%H:%M:%S", &utc)) {
        int64_t s = time(NULL) - timegm(&utc);
        buf_printf(b, ", %s ago", units_rough_time((s > 0 ? s : 0) * NS_PER_S, ago, sizeof ago));
    }
    buf_printf(b, "]\n%s\n\n", json_get_string(hit, "snippet"));
}

static int memory_tool_search(struct tool_call *c, const char *session, struct error *err)
{
    struct memory_source *s = memory_source_of(c);
    json_t *hits = NULL;
    const char *own = history_id(s->own);
    struct memory_query q = {.text = input_string(c, "query"),
                             .session = session,
                             .own = s->own,
                             .limit = (unsigned)input_int(c, "limit", 8),
                             .cancel = c->cancel};
    pthread_mutex_lock(&s->lock);
    int r = s->memory ? 0 : memory_open(&s->options, &s->memory, err);
    struct memory *m = s->memory;
    pthread_mutex_unlock(&s->lock);
    if (r == 0)
        r = memory_search(m, &q, &hits, err);
    if (r < 0)
        return r;
    size_t i, n = json_array_size(hits);
    json_t *hit;
    json_array_foreach(hits, i, hit) memory_put_hit(&c->result->text, hit, own);
    if (n == 0)
        buf_append_str(&c->result->text,
                       "Nothing found. Try other or fewer words; one match is enough.\n");
    else
        buf_append_str(&c->result->text, "To read one in full: memory {\"message\": N, "
                                         "\"session\": S, \"call\": ID if given}.\n");
    c->result->data = json_pack("{s:o}", "hits", hits);
    return c->result->data ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* The text of a message, or of what belongs to one call in it. */
static int message_text(const json_t *message, const char *call, struct buf *text)
{
    bool found = false;
    for (size_t part = 0;; part++) {
        _cleanup_buf_ struct buf one = BUF_INIT(HISTORY_MESSAGE_MAX);
        struct memory_part p;
        int r = memory_part(message, part, &p, &one);
        if (r == -ENOENT)
            return found || !call ? 0 : -ENOENT;
        if (r < 0)
            return r;
        if (call && (!p.call || strcmp(p.call, call) != 0))
            continue;
        found = true;
        if (text->len > 0 && text->data[text->len - 1] != '\n')
            buf_append(text, "\n", 1);
        if (!call && p.call && strcmp(p.role, "tool") == 0)
            buf_printf(text, "[output of call %.100s]\n", p.call);
        buf_append(text, one.data, one.len);
        if (text->failed)
            return -ENOBUFS;
    }
}

static int memory_tool_read(struct tool_call *c, const char *session, struct error *err)
{
    struct memory_source *s = memory_source_of(c);
    _cleanup_(history_closep) struct history *open = NULL;
    _cleanup_json_ json_t *message = NULL;
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
    const char *call = input_string(c, "call");
    size_t from = (size_t)input_int(c, "offset", 0);
    long long number = (long long)input_int(c, "message", 0);
    bool other = session && strcmp(session, history_id(s->own)) != 0;
    int r = other ? history_open(s->options.folder, session, true, &open, NULL, err) : 0;
    struct history *h = other ? open : s->own;
    if (r == 0 && (size_t)number >= history_count(h))
        return tool_fail(c, "input.message: the session %s has %zu messages, the first is 0",
                         history_id(h), history_count(h));
    if (r == 0)
        r = history_read(h, (size_t)number, &message, err);
    if (r < 0)
        return r;
    r = message_text(message, call, &text);
    if (r == -ENOENT)
        return tool_fail(c, "input.call: message %lld has nothing of the call '%.100s'", number,
                         call);
    if (r < 0)
        return error_errno(err, -r, "message %lld", number);
    if (from > text.len)
        return tool_fail(c, "input.offset: message %lld has %zu bytes", number, text.len);
    if (text.len > 0) {
        from += utf8_cut_start(text.data + from, text.len - from);
        size_t n = text.len - from;
        if (n > MEMORY_PAGE_MAX)
            n = MEMORY_PAGE_MAX - utf8_cut_end(text.data + from, MEMORY_PAGE_MAX);
        text_append(&c->result->text, text.data + from, n);
        if (from + n < text.len)
            buf_printf(&c->result->text,
                       "\n[bytes %zu to %zu of %zu; to read on, add \"offset\": %zu]\n", from,
                       from + n, text.len, from + n);
    } else {
        buf_append_str(&c->result->text, "[no text]\n");
    }
    c->result->data = json_pack("{s:I, s:I, s:I, s:s*}", "message", (json_int_t)number, "offset",
                                (json_int_t)from, "bytes", (json_int_t)text.len, "time",
                                json_get_string(message, "time"));
    return c->result->data ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int memory_tool_run(struct tool_call *c, struct error *err)
{
    struct memory_source *s = memory_source_of(c);
    const char *given = input_string(c, "session");
    bool reads = json_object_get(c->input, "message");
    if (given && !history_is_id(given, strlen(given)))
        return tool_fail(c, "input.session: \"this\", \"all\" or the ID of a session");
    if (reads && input_string(c, "query"))
        return tool_fail(c, "input: either \"query\", to search, or \"message\", to read one");
    if (given && strcmp(given, "this") == 0)
        given = history_id(s->own);
    bool all = !given || strcmp(given, "all") == 0;
    if (reads)
        return memory_tool_read(c, all ? NULL : given, err);
    if (!input_string(c, "query"))
        return tool_fail(c, "input: \"query\", to search, or \"message\", to read one, is missing");
    return memory_tool_search(c, all ? NULL : given, err);
}

static const struct tool *memory_source_find(struct tool_source *s, struct tool_session *session,
                                             const char *name, struct error *err)
{
    struct memory_source *m = (struct memory_source *)s;
    return strcmp(name, m->tool.name) == 0 ? &m->tool : NULL;
}

static void memory_source_list(struct tool_source *s, struct tool_session *session,
                               void (*each)(void *data, const struct tool *t),
                               void (*trouble)(void *data, const char *text), void *data)
{
    each(data, &((struct memory_source *)s)->tool);
}

static void memory_source_free(struct tool_source *s)
{
    struct memory_source *m = (struct memory_source *)s;
    memory_close(m->memory);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* clang-format off */
static const struct tool MEMORY_TOOL = {
    .name = "memory",
    .title = "Memory",
    .summary = "Recalls what was said and done before: in this conversation, also where it was"
               " shortened or summarised, and in"
               " past ones. With `query` it searches and returns the best passages with their"
               " session and message number. With"
               " `message` it returns one message in full, or with `call` the output of that"
               " call. Use it before you repeat"
               " work, and when you need details that are no longer shown.",
    .input = SCHEMA({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "query": {
                "type": "string", "minLength": 1, "maxLength": 2000,
                "description": "Words: names, paths, errors. Put \"exact phrases\" in quotes."
            },
            "session": {
                "type": "string", "minLength": 1, "maxLength": 31,
                "description": "\"this\", \"all\" (default of a search), or the ID of a session."
            },
            "limit": {
                "type": "integer", "minimum": 1, "maximum": 50, "default": 8,
                "description": "How many passages."
            },
            "message": {
                "type": "integer", "minimum": 0,
                "description": "The number of a message, to read it in full."
            },
            "call": {
                "type": "string", "minLength": 1, "maxLength": 200,
                "description": "Only what belongs to this tool call in the message."
            },
            "offset": {
                "type": "integer", "minimum": 0,
                "description": "Where to continue reading, in bytes."
            }
        }
    }),
    .output = SCHEMA({
        "type": "object",
        "properties": {
            "hits": {"type": "array", "items": {"type": "object"}},
            "message": {"type": "integer"},
            "offset": {"type": "integer"},
            "bytes": {"type": "integer", "description": "Of the whole text."},
            "time": {"type": "string"}
        }
    }),
    .flags = TOOL_READS,
    .run = memory_tool_run,
};
/* clang-format on */

struct tool_source *memory_tools(struct history *h, const struct memory_options *o)
{
    struct memory_source *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->source = (struct tool_source){
        .find = memory_source_find, .list = memory_source_list, .free = memory_source_free};
    s->tool = MEMORY_TOOL;
    s->own = h;
    if (o)
        s->options = *o;
    pthread_mutex_init(&s->lock, NULL);
    return &s->source;
}
