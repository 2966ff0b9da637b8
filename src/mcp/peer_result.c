/* What tools/call gave, as a result: text, one picture, data. All of it is a stranger's and
 * bounded. */
#include <errno.h>
#include <string.h>

#include "encoding.h"
#include "foreign.h"
#include "rpc.h"
#include "peer.h"
#include "banned.h"

#define TEXT_MAX  (RESULT_TEXT_MAX - 4096u)
#define LABEL_MAX 500u

/* A short text of a member, cleaned, in `out`. */
static const char *label(const json_t *object, const char *member, char *out, size_t size)
{
    const json_t *v = json_object_get(object, member);
    _cleanup_free_ char *clean =
        json_is_string(v) ? foreign_text(json_string_value(v), json_string_length(v), LABEL_MAX)
                          : NULL;
    snprintf(out, size, "%s", clean ? clean : "");
    return out;
}

/* Begins a new line for the next piece. */
static void separate(struct buf *b)
{
    if (b->len && b->data[b->len - 1] != '\n')
        buf_append_str(b, "\n");
}

static void put_text(struct buf *b, const json_t *v)
{
    if (!json_is_string(v))
        return;
    size_t n = json_string_length(v), room = b->len < TEXT_MAX ? TEXT_MAX - b->len : 0;
    bool cut = n > room / 3 && n > room; /* a NUL grows to three bytes */
    if (rpc_has_nul(v))
        cut = n > room / 3, room /= 3;
    text_append(b, json_string_value(v), cut ? room : n);
    if (cut)
        buf_printf(b, "\n[… %zu bytes left out …]\n", n - room);
}

static const char *known_mime(const char *mime)
{
    static const char *const known[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (strcmp(known[i], mime) == 0)
            return known[i];
    return NULL;
}

/* The first picture is passed on; a result holds one. */
static void put_media(struct tool_result *r, const json_t *item, const char *kind)
{
    char mime[LABEL_MAX + 8];
    const json_t *data = json_object_get(item, "data");
    const char *known = known_mime(label(item, "mimeType", mime, sizeof mime));
    if (strcmp(kind, "image") == 0 && known && !r->mime && json_is_string(data) &&
        base64_decode(&r->image, json_string_value(data), json_string_length(data)) == 0) {
        r->mime = known;
        return;
    }
    if (!r->mime) { /* what could not be decoded whole */
        r->image.len = 0;
        r->image.failed = false;
    }
    separate(&r->text);
    buf_printf(&r->text, "[%s %s, %zu bytes of base64, not shown]\n", kind, mime,
               json_is_string(data) ? json_string_length(data) : 0);
}

static void put_resource(struct buf *b, const json_t *resource)
{
    char uri[LABEL_MAX + 8], mime[LABEL_MAX + 8];
    const json_t *text = json_object_get(resource, "text"),
                 *blob = json_object_get(resource, "blob");
    label(resource, "uri", uri, sizeof uri);
    label(resource, "mimeType", mime, sizeof mime);
    separate(b);
    if (json_is_string(text)) {
        buf_printf(b, "[resource %s %s]\n", uri, mime);
        put_text(b, text);
    } else {
        buf_printf(b, "[resource %s %s, %zu bytes of base64, not shown]\n", uri, mime,
                   json_is_string(blob) ? json_string_length(blob) : 0);
    }
}

static void put_link(struct buf *b, const json_t *link)
{
    char name[LABEL_MAX + 8], uri[LABEL_MAX + 8], about[LABEL_MAX + 8];
    label(link, "name", name, sizeof name);
    label(link, "uri", uri, sizeof uri);
    label(link, "description", about, sizeof about);
    separate(b);
    buf_printf(b, "[link to resource %s: %s%s%s]\n", uri, name, *about ? " - " : "", about);
}

static void put_item(struct tool_result *r, const json_t *item)
{
    char type[LABEL_MAX + 8];
    label(item, "type", type, sizeof type);
    if (strcmp(type, "text") == 0) {
        separate(&r->text);
        put_text(&r->text, json_object_get(item, "text"));
    } else if (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0) {
        put_media(r, item, type);
    } else if (strcmp(type, "resource") == 0) {
        put_resource(&r->text, json_object_get(item, "resource"));
    } else if (strcmp(type, "resource_link") == 0) {
        put_link(&r->text, item);
    } else {
        separate(&r->text);
        buf_printf(&r->text, "[%.100s: content of a kind that hutch does not know]\n", type);
    }
}

static void put_content(struct tool_result *r, const json_t *content)
{
    size_t i;
    json_t *item;
    json_array_foreach(content, i, item)
    {
        if (r->text.len > TEXT_MAX) {
            buf_printf(&r->text, "[… %zu more pieces left out …]\n", json_array_size(content) - i);
            return;
        }
        put_item(r, item);
    }
}

/* Data says it all where there is no text: older clients are given it as text, too. */
static void put_data_as_text(struct tool_result *r)
{
    char *text = json_dumps(r->data, JSON_COMPACT);
    if (!text)
        return;
    json_t *string = json_string_nocheck(text);
    put_text(&r->text, string);
    json_decref(string);
    free(text);
}

int peer_take_result(const struct peer_tool *t, const json_t *answer, struct tool_result *r,
                     struct error *err)
{
    const json_t *content = json_object_get(answer, "content");
    json_t *data = json_object_get(answer, "structuredContent");
    if (content && !json_is_array(content))
        return error_set(err, EPROTO, "the MCP server '%s' answered with content that is no list",
                         t->peer->name);
    r->failed = json_is_true(json_object_get(answer, "isError"));
    if (t->output && !r->failed &&
        foreign_check(t->output, data ? data : json_null(), "output", err) < 0)
        return error_wrap(err, "%s did not give what its schema promises", t->name);
    if (json_is_object(data))
        r->data = json_incref(data);
    put_content(r, content);
    if (r->text.len == 0 && r->data && !r->mime)
        put_data_as_text(r);
    if (r->text.len == 0 && r->failed)
        buf_append_str(&r->text, "the tool failed and did not say why");
    return 0;
}
