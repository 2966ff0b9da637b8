#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "numbered.h"
#include "read_file.h"
#include "utf8.h"
#include "banned.h"

#define HEX_MAX (8u << 10) /* bytes shown as a hex dump in one result; five times as much text */

static bool is_odd_control(uint8_t c)
{
    return c < 0x20 && !strchr("\t\n\r\f\b\033", c ? c : 1);
}

/* Are these bytes text? What is cut off at both ends of a range does not count. */
static bool is_text(const uint8_t *s, size_t n)
{
    size_t start = utf8_cut_start(s, n), end = utf8_cut_end(s + start, n - start);
    for (size_t i = 0; i < n; i++)
        if (is_odd_control(s[i]))
            return false;
    return utf8_valid(s + start, n - start - end);
}

static int set_bytes(struct tool_result *r, const struct read_bytes *b, json_t *content, bool text,
                     uint64_t next)
{
    json_t *o = json_object();
    int bad = !o;
    bad |= data_set(o, "path", json_string(b->path));
    bad |= data_set(o, "size", json_integer((json_int_t)b->size));
    bad |= data_set(o, "first_byte", json_integer((json_int_t)b->offset));
    bad |= data_set(o, "content", content);
    bad |= data_set(o, "binary", json_boolean(!text));
    bad |= data_set(o, "truncated", json_boolean(next < b->size));
    if (next < b->size)
        bad |= data_set(o, "next_offset", json_integer((json_int_t)next));
    r->data = o;
    return bad ? -ENOMEM : 0;
}

int read_show_bytes(struct tool_result *r, const struct read_bytes *b)
{
    bool text = is_text(b->data, b->n);
    size_t n = text || b->n < HEX_MAX ? b->n : HEX_MAX;
    uint64_t next = b->offset + n;
    if (text)
        text_append(&r->text, b->data, n);
    else
        hexdump_append(&r->text, b->data, n, b->offset);
    int e = set_bytes(r, b, text_json(r->text.data, r->text.len), text, next);
    if (r->text.len && r->text.data[r->text.len - 1] != '\n')
        buf_append(&r->text, "\n", 1);
    if (n == 0)
        buf_printf(&r->text, "[no bytes from %" PRIu64 " on: the file has %" PRIu64 "]\n",
                   b->offset, b->size);
    else if (next < b->size)
        buf_printf(&r->text,
                   "[bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64
                   "; to go on: byte_offset %" PRIu64 "]\n",
                   b->offset, next - 1, b->size, next);
    return e;
}

/* The numbers of the RESULT, with what follows from them. */
struct facts {
    uint64_t size, first, count, lines, cut, unknown;
    unsigned endings;
    bool more;
    const char *encoding;
};

static const char *encoding_of(const struct read_lines *l, uint64_t first)
{
    uint64_t kind = wire_find_u64(l->result, WIRE_K_CONTENT, FILEKIND_TEXT);
    if (kind == FILEKIND_UTF16LE || kind == FILEKIND_UTF16BE)
        return kind == FILEKIND_UTF16LE ? "utf-16le" : "utf-16be";
    if (!utf8_valid(l->data, l->n))
        return "unknown";
    return first == 1 && l->n >= 3 && memcmp(l->data, "\xef\xbb\xbf", 3) == 0 ? "utf-8-bom"
                                                                              : "utf-8";
}

static struct facts facts_of(const struct read_lines *l)
{
    const struct wire_frame *f = l->result;
    uint64_t many = wire_find_u64(f, WIRE_K_TOO_MANY, 0);
    struct facts k = {.size = wire_find_u64(f, WIRE_K_SIZE, 0),
                      .first = wire_find_u64(f, WIRE_K_LINE, 0),
                      .count = wire_find_u64(f, WIRE_K_COUNT, 0),
                      .lines = wire_find_u64(f, WIRE_K_LINES, 0),
                      .cut = wire_find_u64(f, WIRE_K_CUT, 0),
                      .endings = (unsigned)wire_find_u64(f, WIRE_K_ENDINGS, 0),
                      .unknown = many == 2,
                      .more = many > 0};
    k.encoding = encoding_of(l, k.first);
    return k;
}

static const char *endings_name(unsigned endings)
{
    bool lf = endings & WIRE_ENDS_LF, crlf = endings & WIRE_ENDS_CRLF;
    return lf && crlf ? "mixed" : crlf ? "crlf" : lf ? "lf" : "none";
}

static int set_lines(struct tool_result *r, const struct read_lines *l, const struct facts *k)
{
    json_t *o = json_object();
    int bad = !o;
    bad |= data_set(o, "path", json_string(l->path));
    bad |= data_set(o, "size", json_integer((json_int_t)k->size));
    if (!k->unknown)
        bad |= data_set(o, "lines", json_integer((json_int_t)k->lines));
    if (k->count) {
        bad |= data_set(o, "first_line", json_integer((json_int_t)k->first));
        bad |= data_set(o, "last_line", json_integer((json_int_t)(k->first + k->count - 1)));
    }
    bad |= data_set(o, "content", text_json(l->data, l->n));
    bad |= data_set(o, "truncated", json_boolean(k->more));
    if (k->more)
        bad |= data_set(o, "next_offset", json_integer((json_int_t)(k->first + k->count)));
    bad |= data_set(o, "long_lines", json_integer((json_int_t)k->cut));
    bad |= data_set(o, "encoding", json_string(k->encoding));
    bad |= data_set(o, "line_endings", json_string(endings_name(k->endings)));
    if (k->count && !k->more)
        bad |= data_set(o, "final_newline", json_boolean(!(k->endings & WIRE_ENDS_NOT)));
    bad |= data_set(o, "binary", json_false());
    r->data = o;
    return bad ? -ENOMEM : 0;
}

/* What a reader has to know beside the text. */
static void put_notes(struct buf *text, const struct facts *k)
{
    if (strcmp(k->encoding, "unknown") == 0)
        buf_append_str(text, "[some bytes are not UTF-8 and are shown as \xef\xbf\xbd: do not "
                             "write this text back]\n");
    if (strncmp(k->encoding, "utf-16", 6) == 0)
        buf_printf(text,
                   "[the file is %s; edit_file cannot edit it, write_file would make it UTF-8]\n",
                   k->encoding);
    if (strcmp(k->encoding, "utf-8-bom") == 0)
        buf_append_str(text, "[the file begins with a byte order mark]\n");
    if (k->endings & WIRE_ENDS_CRLF)
        buf_printf(text, "[%s end with CRLF; edit_file keeps that]\n",
                   k->endings & WIRE_ENDS_LF ? "some lines" : "lines");
    if (k->count && !k->more && (k->endings & WIRE_ENDS_NOT))
        buf_append_str(text, "[no newline at the end of the file]\n");
    if (k->more)
        buf_printf(text,
                   "[lines %" PRIu64 " to %" PRIu64 " of %s%" PRIu64 "; to go on: offset %" PRIu64
                   "]\n",
                   k->first, k->first + k->count - 1, k->unknown ? "more than " : "", k->lines,
                   k->first + k->count);
}

/* A file that is not shown. */
static int say_binary(struct tool_result *r, const struct read_lines *l, uint64_t size)
{
    _cleanup_buf_ struct buf seems = BUF_INIT(512);
    struct wire_field field = {0};
    wire_find(l->result, WIRE_K_SEEMS, &field);
    text_append(&seems, field.data, field.size < 100 ? field.size : 100);
    const char *kind = buf_cstr(&seems);
    if (!kind)
        return -ENOMEM;
    buf_printf(&r->text,
               "[%s: is not shown as text: it seems to be %s, %" PRIu64
               " bytes. byte_offset and byte_limit give a hex"
               " dump of a range; bash has tools for what is in it]\n",
               l->path, kind, size);
    r->data = json_pack("{s:s, s:I, s:b, s:s}", "path", l->path, "size", (json_int_t)size, "binary",
                        1, "kind", kind);
    return r->data ? 0 : -ENOMEM;
}

int read_show_lines(struct tool_result *r, const struct read_lines *l)
{
    struct facts k = facts_of(l);
    struct wire_field field;
    /* A text has its counts, also if it is empty; what has none was not read. */
    if (!wire_find(l->result, WIRE_K_COUNT, &field))
        return say_binary(r, l, k.size);
    size_t skip = strcmp(k.encoding, "utf-8-bom") == 0 ? 3 : 0;
    if (l->n == 0)
        buf_append_str(&r->text, "[the file is empty]\n");
    else if (l->numbers)
        numbered_append(&r->text, l->data + skip, l->n - skip, k.first);
    else
        text_append(&r->text, l->data + skip, l->n - skip);
    if (r->text.len && r->text.data[r->text.len - 1] != '\n')
        buf_append(&r->text, "\n", 1);
    put_notes(&r->text, &k);
    return set_lines(r, l, &k);
}
