/* Spans and text within a block: md4c's events become text with styles in the flow. */
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "md_render.h"
#include "banned.h"

unsigned md_style(const struct md_render *r)
{
    unsigned role = r->code     ? ROLE_CODE
                    : r->strike ? ROLE_MUTED
                    : r->links  ? ROLE_LINK
                                : STYLE_ROLE(r->style);
    return role | (r->style & ~0xffu) | (r->strong ? STYLE_BOLD : 0) |
           (r->emphasis ? STYLE_ITALIC : 0);
}

/* How many spans of this kind are open; those that look like their surroundings are counted
 * together. */
static unsigned *count_of(struct md_render *r, MD_SPANTYPE type)
{
    switch (type) {
    case MD_SPAN_STRONG:
        return &r->strong;
    case MD_SPAN_EM:
        return &r->emphasis;
    case MD_SPAN_CODE:
        return &r->code;
    case MD_SPAN_DEL:
        return &r->strike;
    case MD_SPAN_A:
    case MD_SPAN_IMG:
        return &r->links;
    default:
        return &r->others;
    }
}

int md_enter_span(MD_SPANTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    ++*count_of(r, type);
    if (type == MD_SPAN_DEL)
        flow_say(&r->flow, ROLE_MUTED, "~~");
    if (type == MD_SPAN_A || type == MD_SPAN_IMG)
        r->link_start = r->flow.text.len;
    return ++r->calls > r->budget;
}

/* Where a link leads, unless its text says so. */
static void say_address(struct md_render *r, const MD_ATTRIBUTE *address)
{
    size_t n = r->flow.text.len > r->link_start ? r->flow.text.len - r->link_start : 0;
    if (!address->text || address->size == 0)
        return;
    if (n && n <= address->size &&
        memcmp(address->text + address->size - n, r->flow.text.data + r->link_start, n) == 0)
        return;
    if (n)
        flow_say(&r->flow, ROLE_MUTED, " (");
    flow_add(&r->flow, ROLE_MUTED, address->text, address->size);
    if (n)
        flow_say(&r->flow, ROLE_MUTED, ")");
}

int md_leave_span(MD_SPANTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    --*count_of(r, type);
    if (type == MD_SPAN_DEL)
        flow_say(&r->flow, ROLE_MUTED, "~~");
    if (type == MD_SPAN_A)
        say_address(r, &((MD_SPAN_A_DETAIL *)detail)->href);
    if (type == MD_SPAN_IMG)
        say_address(r, &((MD_SPAN_IMG_DETAIL *)detail)->src);
    return ++r->calls > r->budget;
}

/* Without the marks that were set between brackets and colons (md_render.c). */
static void add(struct md_render *r, const char *text, size_t n)
{
    while (n) {
        const char *mark = memmem(text, n, CLEAN_NEVER, strlen(CLEAN_NEVER));
        size_t part = mark ? (size_t)(mark - text) : n;
        flow_add(&r->flow, r->in_code ? ROLE_TEXT : md_style(r), text, part);
        part += mark ? strlen(CLEAN_NEVER) : 0;
        text += part;
        n -= part;
    }
}

static size_t encode(uint32_t c, char out[4])
{
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[n] | c);
    return n;
}

/* A number as text can name any character: it comes through the same door as all others. */
static void add_number(struct md_render *r, const char *text)
{
    bool hex = text[2] == 'x' || text[2] == 'X';
    unsigned long code = strtoul(text + (hex ? 3 : 2), NULL, hex ? 16 : 10);
    _cleanup_buf_ struct buf clean = BUF_INIT(16);
    char raw[4];
    size_t n = encode(code <= 0x10ffff ? (uint32_t)code : 0xfffd, raw);
    clean_append(&clean, raw, n, false);
    if (clean.len)
        add(r, (const char *)clean.data, clean.len);
}

static void add_entity(struct md_render *r, const char *text, size_t n)
{
    static const char *const names[][2] = {
        {"&amp;", "&"},  {"&lt;", "<"},   {"&gt;", ">"},    {"&quot;", "\""},  {"&apos;", "'"},
        {"&nbsp;", " "}, {"&copy;", "©"}, {"&mdash;", "—"}, {"&ndash;", "–"},  {"&hellip;", "…"},
        {"&rarr;", "→"}, {"&larr;", "←"}, {"&times;", "×"}, {"&middot;", "·"}, {"&bull;", "•"},
        {"&le;", "≤"},   {"&ge;", "≥"},   {"&ne;", "≠"},    {"&deg;", "°"},    {"&plusmn;", "±"},
    };
    char name[16] = "";
    if (n > 3 && n < sizeof name)
        memcpy(name, text, n);
    if (name[0] && name[1] == '#') {
        add_number(r, name);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i][0], name) == 0) {
            add(r, names[i][1], strlen(names[i][1]));
            return;
        }
    add(r, text, n);
}

int md_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE n, void *data)
{
    struct md_render *r = data;
    if (type == MD_TEXT_BR)
        flow_say(&r->flow, ROLE_TEXT, "\n");
    else if (type == MD_TEXT_SOFTBR)
        add(r, " ", 1);
    else if (type == MD_TEXT_ENTITY)
        add_entity(r, text, n);
    else
        add(r, text, n);
    return ++r->calls > r->budget;
}
