/*
 * md4c reports what begins and what ends; here that becomes lines. Inline text is gathered as
 * styled text, which is wrapped when its block ends. Lists and quotes are levels: each puts its
 * mark before the lines in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "markdown_render.h"
#include "banned.h"

#define TAB_WIDTH 4 /* columns: code is more often indented with tabs than aligned */

static int margin_room(const struct margin *m, int width)
{
    return width - clean_width(m->first, strlen(m->first));
}

void markdown_code_label(const char *info, size_t n, const struct margin *margin, int width,
                         struct lines *out)
{
    _cleanup_styled_ struct styled s = STYLED_INIT;
    size_t length = 0;
    while (length < n && info[length] != ' ' && info[length] != '\t')
        length++;
    if (length == 0)
        return;
    styled_add(&s, ROLE_MUTED | STYLE_ITALIC, info, length);
    wrap_one(&s, margin, margin_room(margin, width), TAB_WIDTH, out);
}

void markdown_code_line(struct lexer *l, const char *line, size_t n, const struct margin *margin,
                        int width, struct lines *out)
{
    _cleanup_styled_ struct styled s = STYLED_INIT;
    lexer_line(l, line, n, &s);
    wrap_exact(&s, margin, margin_room(margin, width), TAB_WIDTH, out);
}

static int over_budget(struct md_render *r)
{
    return ++r->calls > r->budget;
}

/* Inline text. */

/* Text without the markers that hide_link_definitions() set. */
static void text_add(struct md_render *r, const char *text, size_t n)
{
    unsigned role = r->in_code  ? ROLE_TEXT
                    : r->code   ? ROLE_CODE
                    : r->strike ? ROLE_MUTED
                    : r->links  ? ROLE_LINK
                                : STYLE_ROLE(r->style);
    unsigned flags = r->in_code ? 0
                                : (r->style & ~0xffu) | (r->strong ? STYLE_BOLD : 0) |
                                      (r->emphasis ? STYLE_ITALIC : 0);
    while (n) {
        const char *marker = memmem(text, n, CLEAN_NEVER, strlen(CLEAN_NEVER));
        size_t part = marker ? (size_t)(marker - text) : n;
        styled_add(&r->text, role | flags, text, part);
        part += marker ? strlen(CLEAN_NEVER) : 0;
        text += part;
        n -= part;
    }
}

/* An entity can name any character: a number is cleaned like all other text. */
static void entity_add(struct md_render *r, const char *text, size_t n)
{
    static const char *const names[][2] = {{"&amp;", "&"},   {"&lt;", "<"},    {"&gt;", ">"},
                                           {"&quot;", "\""}, {"&apos;", "'"},  {"&nbsp;", " "},
                                           {"&mdash;", "—"}, {"&ndash;", "–"}, {"&rarr;", "→"},
                                           {"&times;", "×"}, {"&hellip;", "…"}};
    char name[16] = "";
    if (n > 3 && n < sizeof name)
        memcpy(name, text, n);
    if (name[0] && name[1] == '#') {
        _cleanup_buf_ struct buf clean = BUF_INIT(16);
        char raw[4];
        bool hex = name[2] == 'x' || name[2] == 'X';
        unsigned long code = strtoul(name + (hex ? 3 : 2), NULL, hex ? 16 : 10);
        size_t size = clean_encode(code <= 0x10ffff ? (uint32_t)code : 0xfffd, raw);
        clean_append(&clean, raw, size, false);
        if (clean.len)
            text_add(r, (const char *)clean.data, clean.len);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i][0], name) == 0) {
            text_add(r, names[i][1], strlen(names[i][1]));
            return;
        }
    text_add(r, text, n);
}

static int on_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE n, void *data)
{
    struct md_render *r = data;
    if (type == MD_TEXT_BR)
        styled_puts(&r->text, ROLE_TEXT, "\n");
    else if (type == MD_TEXT_SOFTBR)
        text_add(r, " ", 1);
    else if (type == MD_TEXT_ENTITY)
        entity_add(r, text, n);
    else
        text_add(r, text, n);
    return over_budget(r);
}

/* The number of open spans of this kind. */
static unsigned *span_count(struct md_render *r, MD_SPANTYPE type)
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

static int on_enter_span(MD_SPANTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    ++*span_count(r, type);
    if (type == MD_SPAN_DEL)
        styled_puts(&r->text, ROLE_MUTED, "~~");
    if (type == MD_SPAN_A || type == MD_SPAN_IMG)
        r->link_start = r->text.text.len;
    return over_budget(r);
}

/* Shows where a link leads, unless its text says so. */
static void link_address(struct md_render *r, const MD_ATTRIBUTE *address)
{
    size_t n = r->text.text.len > r->link_start ? r->text.text.len - r->link_start : 0;
    if (!address->text || address->size == 0)
        return;
    if (n && n <= address->size &&
        memcmp(address->text + address->size - n, r->text.text.data + r->link_start, n) == 0)
        return;
    if (n)
        styled_puts(&r->text, ROLE_MUTED, " (");
    styled_add(&r->text, ROLE_MUTED, address->text, address->size);
    if (n)
        styled_puts(&r->text, ROLE_MUTED, ")");
}

static int on_leave_span(MD_SPANTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    --*span_count(r, type);
    if (type == MD_SPAN_DEL)
        styled_puts(&r->text, ROLE_MUTED, "~~");
    if (type == MD_SPAN_A)
        link_address(r, &((MD_SPAN_A_DETAIL *)detail)->href);
    if (type == MD_SPAN_IMG)
        link_address(r, &((MD_SPAN_IMG_DETAIL *)detail)->src);
    return over_budget(r);
}

/* Margins. */

static void margin_add(char *to, const char *mark)
{
    size_t n = strlen(to), more = strlen(mark);
    if (n + more < MD_MARGIN_MAX)
        memcpy(to + n, mark, more + 1);
}

/* Levels add their marks as long as half of the line is left for text. */
static bool level_fits(const struct md_render *r, const struct md_level *l, int *width)
{
    int wide = clean_width(l->rest, strlen(l->rest));
    if (*width + wide > r->width / 2)
        return false;
    *width += wide;
    return true;
}

static void empty_line(struct md_render *r)
{
    char margin[MD_MARGIN_MAX] = "";
    int width = r->indent;
    for (size_t i = 0; i < r->depth && r->levels[i].begun; i++)
        if (level_fits(r, &r->levels[i], &width))
            margin_add(margin, r->levels[i].rest);
    size_t n = strlen(margin);
    while (n && margin[n - 1] == ' ')
        margin[--n] = 0;
    if (n) {
        lines_put(r->out, ROLE_MUTED, "          ", (size_t)r->indent, r->indent);
        lines_puts(r->out, ROLE_MUTED, margin);
    }
    lines_end(r->out);
}

void md_begin_lines(struct md_render *r, struct md_margins *ret)
{
    if (r->gap)
        empty_line(r);
    r->gap = false;
    *ret = (struct md_margins){.width = r->indent};
    snprintf(ret->first, sizeof ret->first, "%*s", r->indent, "");
    snprintf(ret->rest, sizeof ret->rest, "%*s", r->indent, "");
    for (size_t i = 0; i < r->depth; i++) {
        struct md_level *l = &r->levels[i];
        if (level_fits(r, l, &ret->width)) {
            margin_add(ret->first, l->begun ? l->rest : l->first);
            margin_add(ret->rest, l->rest);
        }
        l->begun = true;
    }
    ret->margin = (struct margin){ret->first, ret->rest, ROLE_MUTED, ROLE_MUTED};
}

/* Blocks. */

static int prose_width(const struct md_render *r)
{
    return r->width < PROSE_WIDTH ? r->width : PROSE_WIDTH;
}

/* The gathered text becomes lines. */
static void text_flush(struct md_render *r)
{
    struct md_margins m;
    if (r->text.text.len == 0 || r->in_table)
        return;
    md_begin_lines(r, &m);
    wrap_words(&r->text, &m.margin, prose_width(r) - m.width, r->out);
    styled_clear(&r->text);
}

static void level_push(struct md_render *r, const struct md_level *level)
{
    if (r->depth < MD_DEPTH)
        r->levels[r->depth++] = *level;
    else
        r->too_deep++;
}

static void level_pop(struct md_render *r)
{
    if (r->too_deep)
        r->too_deep--;
    else if (r->depth)
        r->depth--;
}

static void item_begin(struct md_render *r, const MD_BLOCK_LI_DETAIL *d)
{
    static const char *const bullets[] = {"• ", "◦ ", "▪ "};
    struct md_level level = {.type = MD_BLOCK_LI}, *list = NULL;
    size_t lists = 0;
    for (size_t i = 0; i < r->depth; i++)
        if (r->levels[i].type == MD_BLOCK_UL || r->levels[i].type == MD_BLOCK_OL) {
            list = &r->levels[i];
            lists++;
        }
    if (d->is_task)
        snprintf(level.first, sizeof level.first, "[%s] ", d->task_mark == ' ' ? " " : "x");
    else if (list && list->ordered)
        snprintf(level.first, sizeof level.first, "%u. ", list->next % 1000000000u);
    else
        snprintf(level.first, sizeof level.first, "%s",
                 bullets[lists < 3 ? (lists ? lists - 1 : 0) : 2]);
    if (list)
        list->next++;
    snprintf(level.rest, sizeof level.rest, "%*s", clean_width(level.first, strlen(level.first)),
             "");
    level_push(r, &level);
}

static void code_begin(struct md_render *r, const MD_BLOCK_CODE_DETAIL *d)
{
    size_t n = d->info.text ? d->info.size : 0;
    struct md_margins m;
    r->in_code = true;
    r->lexer = lexer_open(n ? d->info.text : "", n);
    if (n == 0)
        return;
    md_begin_lines(r, &m);
    margin_add(m.first, "  ");
    markdown_code_label(d->info.text, n, &m.margin, r->width, r->out);
}

static void code_end(struct md_render *r)
{
    struct md_margins m;
    const char *at = r->text.text.len ? (const char *)r->text.text.data : "";
    const char *end = at + r->text.text.len;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        md_begin_lines(r, &m);
        margin_add(m.first, "  ");
        margin_add(m.rest, "  ");
        markdown_code_line(&r->lexer, at, (size_t)(stop - at), &m.margin, r->width, r->out);
        at = stop + 1;
    }
    styled_clear(&r->text);
    r->in_code = false;
}

static int on_enter_block(MD_BLOCKTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    struct md_margins m;
    text_flush(r);
    r->style = ROLE_TEXT;
    switch (type) {
    case MD_BLOCK_QUOTE:
        level_push(r, &(struct md_level){.type = type, .first = "│ ", .rest = "│ "});
        break;
    case MD_BLOCK_UL:
        level_push(
            r, &(struct md_level){.type = type, .tight = ((MD_BLOCK_UL_DETAIL *)detail)->is_tight});
        break;
    case MD_BLOCK_OL:
        level_push(r, &(struct md_level){.type = type,
                                         .ordered = true,
                                         .tight = ((MD_BLOCK_OL_DETAIL *)detail)->is_tight,
                                         .next = ((MD_BLOCK_OL_DETAIL *)detail)->start});
        break;
    case MD_BLOCK_LI:
        item_begin(r, detail);
        break;
    case MD_BLOCK_H:
        r->style = ROLE_HEADING | STYLE_BOLD |
                   (((MD_BLOCK_H_DETAIL *)detail)->level == 1 ? STYLE_UNDERLINE : 0);
        break;
    case MD_BLOCK_CODE:
        code_begin(r, detail);
        break;
    case MD_BLOCK_HR:
        md_begin_lines(r, &m);
        lines_puts(r->out, ROLE_MUTED, m.first);
        for (int i = prose_width(r) - m.width; i > 0; i--)
            lines_put(r->out, ROLE_MUTED, "─", strlen("─"), 1);
        lines_end(r->out);
        break;
    case MD_BLOCK_TABLE:
        r->in_table = true;
        r->table.columns = ((MD_BLOCK_TABLE_DETAIL *)detail)->col_count;
        if (r->table.columns > MD_COLUMNS)
            return 1;
        break;
    case MD_BLOCK_TH:
        r->style = ROLE_TEXT | STYLE_BOLD;
        break;
    default:
        break;
    }
    return over_budget(r);
}

static int on_leave_block(MD_BLOCKTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    struct md_margins m;
    if (type == MD_BLOCK_CODE)
        code_end(r);
    else if (type == MD_BLOCK_TH || type == MD_BLOCK_TD)
        md_table_add_cell(r, ((MD_BLOCK_TD_DETAIL *)detail)->align);
    else if (type == MD_BLOCK_TABLE)
        md_table_draw(r);
    else
        text_flush(r);
    /* An item without a line of its own still shows its mark. */
    if (type == MD_BLOCK_LI && r->depth && !r->too_deep && !r->levels[r->depth - 1].begun) {
        md_begin_lines(r, &m);
        lines_puts(r->out, ROLE_MUTED, m.first);
        lines_end(r->out);
    }
    if (type == MD_BLOCK_LI || type == MD_BLOCK_UL || type == MD_BLOCK_OL || type == MD_BLOCK_QUOTE)
        level_pop(r);
    if (!r->in_table && type != MD_BLOCK_THEAD && type != MD_BLOCK_TBODY) {
        size_t list = r->depth;
        while (list > 0 && r->levels[list - 1].type != MD_BLOCK_UL &&
               r->levels[list - 1].type != MD_BLOCK_OL)
            list--;
        r->gap = list == 0 || !r->levels[list - 1].tight;
    }
    r->style = ROLE_TEXT;
    return over_budget(r) || (r->in_table && r->table.count > MD_CELLS);
}

/* Puts a marker between `]` and `:` (text_add() drops it), so that md4c sees no link definitions:
 * they would vanish from the text, and a use can be longer than what defines it. */
static int hide_link_definitions(const char *text, size_t n, struct buf *out)
{
    for (const char *at = text, *end = text + n; at < end;) {
        const char *found = memmem(at, (size_t)(end - at), "]:", 2);
        size_t part = (size_t)((found ? found + 1 : end) - at);
        buf_append(out, at, part);
        if (found)
            buf_append_str(out, CLEAN_NEVER);
        at += part;
    }
    return out->failed ? -1 : 0;
}

void markdown_render(const char *text, size_t n, int width, int indent, bool gap, struct lines *out)
{
    static const MD_PARSER parser = {.flags = MD_DIALECT_GITHUB | MD_FLAG_NOHTML,
                                     .enter_block = on_enter_block,
                                     .leave_block = on_leave_block,
                                     .enter_span = on_enter_span,
                                     .leave_span = on_leave_span,
                                     .text = on_text};
    _cleanup_buf_ struct buf safe = BUF_INIT(n * 4 + 16);
    struct md_render r = {.out = out,
                          .width = width,
                          .indent = indent,
                          .gap = gap,
                          .text = STYLED_INIT,
                          .budget = 8 * n + 256};
    size_t before = out->count;
    if (hide_link_definitions(text, n, &safe) < 0 ||
        md_parse((const char *)safe.data, (MD_SIZE)safe.len, &parser, &r) != 0) {
        /* Over a limit: shown as plain text. */
        struct md_margins m;
        lines_cut(out, before);
        r.gap = gap;
        r.depth = r.too_deep = 0;
        styled_clear(&r.text);
        styled_add(&r.text, ROLE_TEXT, text, n);
        md_begin_lines(&r, &m);
        wrap_words(&r.text, &m.margin, r.width - m.width, out);
    }
    md_table_free(&r.table);
    styled_free(&r.text);
}
