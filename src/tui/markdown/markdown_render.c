/*
 * The layout of a block of Markdown. md4c reports what begins and what ends; here that becomes
 * lines. Inline text is gathered as styled text, which is wrapped when its block ends. Lists and
 * quotes are levels: each puts its mark before the lines in it.
 *
 * The columns of a table get the width they need; if that is too much, the wide ones get less and
 * their text is wrapped. If not even that fits, each row is shown as a list.
 */
#include <md4c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "markdown.h"
#include "text.h"
#include "banned.h"

#define MD_CELLS   4096 /* of a table */
#define MARGIN_MAX 512
#define TAB_WIDTH  4 /* columns: code is more often indented with tabs than aligned */
#define COLUMN_MIN 4 /* of a table */

/* An open list, item or quote: what stands before its first line, and before the others. */
struct md_level {
    MD_BLOCKTYPE type;
    bool ordered, tight; /* of a list */
    unsigned next;       /* number of its next item */
    char first[16], rest[16];
    bool begun; /* the first line was written */
};

struct md_cell {
    struct styled text;
    MD_ALIGN align;
};

struct md_render {
    struct lines *out;
    int width, indent;
    struct md_level levels[MARKDOWN_DEPTH];
    size_t depth, too_deep; /* levels beyond MARKDOWN_DEPTH */
    struct styled text;     /* of the open paragraph, heading, cell, … */
    unsigned style;         /* of text in this block */
    unsigned strong, emphasis, code, strike, links, others; /* open spans */
    size_t link_start;                                      /* in `text` */
    bool gap;           /* an empty line comes before the next line */
    bool in_code;       /* in a block of code */
    struct lexer lexer; /* of that */
    bool in_table;
    struct md_cell *cells; /* of the table, row by row */
    size_t n_cells, columns;
    size_t calls, budget; /* of md4c: text must not make it report more than it holds */
};

/* The margins of the next lines, with all levels. */
struct md_margins {
    char first[MARGIN_MAX], rest[MARGIN_MAX];
    struct margin margin; /* points to these two */
    int width;
};

static int margin_room(const struct margin *m, int width)
{
    return width - clean_width(m->first, strlen(m->first));
}

/* The name of the language above a block of code, if it has one. `width` includes the margin. */
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

static int md_over_budget(struct md_render *r)
{
    return ++r->calls > r->budget;
}

/* Adds text without the markers of markdown_render(). */
static void md_add_text(struct md_render *r, const char *text, size_t n)
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

static int md_on_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE n, void *data)
{
    static const char *const names[][2] = {{"&amp;", "&"},   {"&lt;", "<"},    {"&gt;", ">"},
                                           {"&quot;", "\""}, {"&apos;", "'"},  {"&nbsp;", " "},
                                           {"&mdash;", "—"}, {"&ndash;", "–"}, {"&rarr;", "→"},
                                           {"&times;", "×"}, {"&hellip;", "…"}};
    struct md_render *r = data;
    _cleanup_buf_ struct buf clean = BUF_INIT(16);
    char name[16] = "";
    if (type == MD_TEXT_ENTITY && n > 3 && n < sizeof name)
        memcpy(name, text, n);
    if (type == MD_TEXT_BR) {
        styled_puts(&r->text, ROLE_TEXT, "\n");
    } else if (type == MD_TEXT_SOFTBR) {
        md_add_text(r, " ", 1);
    } else if (name[0] && name[1] == '#') { /* may name any character: cleaned like all text */
        char raw[4];
        bool hex = name[2] == 'x' || name[2] == 'X';
        unsigned long code = strtoul(name + (hex ? 3 : 2), NULL, hex ? 16 : 10);
        size_t size = clean_encode(code <= 0x10ffff ? (uint32_t)code : 0xfffd, raw);
        clean_append(&clean, raw, size, false);
        if (clean.len)
            md_add_text(r, (const char *)clean.data, clean.len);
    } else {
        const char *shown = NULL;
        for (size_t i = 0; name[0] && i < ARRAY_SIZE(names); i++)
            if (strcmp(names[i][0], name) == 0)
                shown = names[i][1];
        md_add_text(r, shown ? shown : text, shown ? strlen(shown) : n);
    }
    return md_over_budget(r);
}

/* The number of open spans of this kind. */
static unsigned *md_span_count(struct md_render *r, MD_SPANTYPE type)
{
    return type == MD_SPAN_STRONG                     ? &r->strong
           : type == MD_SPAN_EM                       ? &r->emphasis
           : type == MD_SPAN_CODE                     ? &r->code
           : type == MD_SPAN_DEL                      ? &r->strike
           : type == MD_SPAN_A || type == MD_SPAN_IMG ? &r->links
                                                      : &r->others;
}

static int md_on_enter_span(MD_SPANTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    ++*md_span_count(r, type);
    if (type == MD_SPAN_DEL)
        styled_puts(&r->text, ROLE_MUTED, "~~");
    if (type == MD_SPAN_A || type == MD_SPAN_IMG)
        r->link_start = r->text.text.len;
    return md_over_budget(r);
}

static int md_on_leave_span(MD_SPANTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    const MD_ATTRIBUTE *address = type == MD_SPAN_A     ? &((MD_SPAN_A_DETAIL *)detail)->href
                                  : type == MD_SPAN_IMG ? &((MD_SPAN_IMG_DETAIL *)detail)->src
                                                        : NULL;
    --*md_span_count(r, type);
    if (type == MD_SPAN_DEL)
        styled_puts(&r->text, ROLE_MUTED, "~~");
    if (address && address->text && address->size) {
        /* Shows where a link leads, unless its text says so. */
        size_t n = r->text.text.len > r->link_start ? r->text.text.len - r->link_start : 0;
        if (n == 0 || n > address->size ||
            memcmp(address->text + address->size - n, r->text.text.data + r->link_start, n) != 0) {
            styled_puts(&r->text, ROLE_MUTED, n ? " (" : "");
            styled_add(&r->text, ROLE_MUTED, address->text, address->size);
            styled_puts(&r->text, ROLE_MUTED, n ? ")" : "");
        }
    }
    return md_over_budget(r);
}

static void margin_add(char *to, const char *mark)
{
    size_t n = strlen(to), more = strlen(mark);
    if (n + more < MARGIN_MAX)
        memcpy(to + n, mark, more + 1);
}

/* Levels add their marks as long as half of the line is left for text. */
static bool md_level_fits(const struct md_render *r, const struct md_level *l, int *width)
{
    int wide = clean_width(l->rest, strlen(l->rest));
    if (*width + wide > r->width / 2)
        return false;
    *width += wide;
    return true;
}

/* Writes the empty line if one is due, and makes the margins. */
static void md_begin_lines(struct md_render *r, struct md_margins *ret)
{
    if (r->gap) {
        char margin[MARGIN_MAX] = "";
        int width = r->indent;
        for (size_t i = 0; i < r->depth && r->levels[i].begun; i++)
            if (md_level_fits(r, &r->levels[i], &width))
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
    r->gap = false;

    *ret = (struct md_margins){.width = r->indent};
    snprintf(ret->first, sizeof ret->first, "%*s", r->indent, "");
    snprintf(ret->rest, sizeof ret->rest, "%*s", r->indent, "");
    for (size_t i = 0; i < r->depth; i++) {
        struct md_level *l = &r->levels[i];
        if (md_level_fits(r, l, &ret->width)) {
            margin_add(ret->first, l->begun ? l->rest : l->first);
            margin_add(ret->rest, l->rest);
        }
        l->begun = true;
    }
    ret->margin = (struct margin){ret->first, ret->rest, ROLE_MUTED, ROLE_MUTED};
}

static void md_put_dashes(struct md_render *r, int n)
{
    for (; n > 0; n--)
        lines_put(r->out, ROLE_MUTED, "─", strlen("─"), 1);
}

/* Tables. */

static void md_table_free(struct md_render *r)
{
    for (size_t i = 0; i < r->n_cells; i++)
        styled_free(&r->cells[i].text);
    free(r->cells);
    r->cells = NULL;
    r->n_cells = r->columns = 0;
    r->in_table = false;
}

static int md_table_sum(const int *widths, size_t n, int cap)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += widths[i] < cap ? widths[i] : cap;
    return sum;
}

/* The width of each column: what it needs; if that is too much, the widest ones shrink to one
 * width. False: not even that fits. */
static bool md_table_fit(const struct md_render *r, int room, int widths[MARKDOWN_COLUMNS])
{
    size_t n = r->columns;
    for (size_t c = 0; c < n; c++)
        widths[c] = 1;
    for (size_t i = 0; i < r->n_cells; i++) {
        int w = styled_width(&r->cells[i].text);
        widths[i % n] = w > widths[i % n] ? w : widths[i % n];
    }
    int low = COLUMN_MIN, high = room;
    if (md_table_sum(widths, n, COLUMN_MIN) > room)
        return false;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (md_table_sum(widths, n, middle) <= room)
            low = middle;
        else
            high = middle - 1;
    }
    int spare = room - md_table_sum(widths, n, low);
    for (size_t i = 0; i < n; i++) {
        if (widths[i] <= low)
            continue;
        widths[i] = low + (spare > 0);
        spare -= spare > 0;
    }
    return true;
}

static void md_table_border(struct md_render *r, const char *margin, const int *widths,
                            const char *const marks[3])
{
    lines_puts(r->out, ROLE_MUTED, margin);
    for (size_t c = 0; c < r->columns; c++) {
        lines_puts(r->out, ROLE_MUTED, marks[c > 0]);
        md_put_dashes(r, widths[c] + 2);
    }
    lines_puts(r->out, ROLE_MUTED, marks[2]);
    lines_end(r->out);
}

static void md_table_row(struct md_render *r, const char *margin, const int *widths, size_t first)
{
    struct lines cells[MARKDOWN_COLUMNS] = {0};
    size_t height = 1;
    for (size_t c = 0; c < r->columns; c++) {
        cells[c] = LINES_INIT;
        wrap_words(&r->cells[first + c].text, &(struct margin){"", "", 0, 0}, widths[c], &cells[c]);
        height = cells[c].count > height ? cells[c].count : height;
    }
    for (size_t i = 0; i < height; i++) {
        lines_puts(r->out, ROLE_MUTED, margin);
        for (size_t c = 0; c < r->columns; c++) {
            const struct line *line = i < cells[c].count ? &cells[c].all[i] : NULL;
            MD_ALIGN align = r->cells[first + c].align;
            int spare = widths[c] - (line ? line->width : 0);
            int before = align == MD_ALIGN_RIGHT ? spare : align == MD_ALIGN_CENTER ? spare / 2 : 0;
            lines_puts(r->out, ROLE_MUTED, "│");
            for (int k = 0; k < before + 1; k++)
                lines_put(r->out, ROLE_TEXT, " ", 1, 1);
            for (size_t k = 0; line && k < line->count; k++) {
                const struct run *run = &cells[c].runs[line->first + k];
                lines_put(r->out, run->style, (const char *)cells[c].text.data + run->at, run->n,
                          run->width);
            }
            for (int k = 0; k < spare - before + 1; k++)
                lines_put(r->out, ROLE_TEXT, " ", 1, 1);
        }
        lines_puts(r->out, ROLE_MUTED, "│");
        lines_end(r->out);
    }
    for (size_t c = 0; c < r->columns; c++)
        lines_free(&cells[c]);
}

static void md_table_draw(struct md_render *r)
{
    static const char *const top[] = {"┌", "┬", "┐"}, *const middle[] = {"├", "┼", "┤"},
                             *const bottom[] = {"└", "┴", "┘"};
    struct md_margins m;
    int widths[MARKDOWN_COLUMNS];
    size_t columns = r->columns;
    if (columns == 0 || r->n_cells < columns)
        return;
    md_begin_lines(r, &m);
    if (md_table_fit(r, r->width - m.width - 3 * (int)columns - 1, widths)) {
        md_table_border(r, m.first, widths, top);
        for (size_t i = 0; i + columns <= r->n_cells; i += columns) {
            md_table_row(r, m.rest, widths, i);
            if (i == 0)
                md_table_border(r, m.rest, widths, middle);
        }
        md_table_border(r, m.rest, widths, bottom);
        return;
    }
    /* `head: cell`, a line each, with an empty line between rows. */
    for (size_t i = columns; i < r->n_cells; i++) {
        _cleanup_styled_ struct styled line = STYLED_INIT;
        if (i % columns == 0 && i > columns)
            lines_end(r->out);
        styled_append(&line, &r->cells[i % columns].text);
        styled_puts(&line, ROLE_MUTED, ": ");
        styled_append(&line, &r->cells[i].text);
        wrap_words(&line, &m.margin, r->width - m.width, r->out);
        m.margin.first = m.margin.rest;
    }
}

/* Blocks. */

static int md_prose_width(const struct md_render *r)
{
    return r->width < PROSE_WIDTH ? r->width : PROSE_WIDTH;
}

/* The gathered text becomes lines. */
static void md_flush_text(struct md_render *r)
{
    struct md_margins m;
    if (r->text.text.len == 0 || r->in_table)
        return;
    md_begin_lines(r, &m);
    wrap_words(&r->text, &m.margin, md_prose_width(r) - m.width, r->out);
    styled_clear(&r->text);
}

static void md_level_push(struct md_render *r, const struct md_level *level)
{
    if (r->depth < MARKDOWN_DEPTH)
        r->levels[r->depth++] = *level;
    else
        r->too_deep++;
}

static void md_begin_item(struct md_render *r, const MD_BLOCK_LI_DETAIL *d)
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
    md_level_push(r, &level);
}

static int md_on_enter_block(MD_BLOCKTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    struct md_margins m;
    const MD_BLOCK_OL_DETAIL *ordered = detail;
    const MD_BLOCK_CODE_DETAIL *code = detail;
    md_flush_text(r);
    r->style = ROLE_TEXT;
    switch (type) {
    case MD_BLOCK_QUOTE:
        md_level_push(r, &(struct md_level){.type = type, .first = "│ ", .rest = "│ "});
        break;
    case MD_BLOCK_UL:
        md_level_push(
            r, &(struct md_level){.type = type, .tight = ((MD_BLOCK_UL_DETAIL *)detail)->is_tight});
        break;
    case MD_BLOCK_OL:
        md_level_push(r, &(struct md_level){.type = type,
                                            .ordered = true,
                                            .tight = ordered->is_tight,
                                            .next = ordered->start});
        break;
    case MD_BLOCK_LI:
        md_begin_item(r, detail);
        break;
    case MD_BLOCK_H:
        r->style = ROLE_HEADING | STYLE_BOLD |
                   (((MD_BLOCK_H_DETAIL *)detail)->level == 1 ? STYLE_UNDERLINE : 0);
        break;
    case MD_BLOCK_CODE:
        r->in_code = true;
        r->lexer = lexer_open(code->info.text ? code->info.text : "",
                              code->info.text ? code->info.size : 0);
        if (code->info.text && code->info.size) {
            md_begin_lines(r, &m);
            margin_add(m.first, "  ");
            markdown_code_label(code->info.text, code->info.size, &m.margin, r->width, r->out);
        }
        break;
    case MD_BLOCK_HR:
        md_begin_lines(r, &m);
        lines_puts(r->out, ROLE_MUTED, m.first);
        md_put_dashes(r, md_prose_width(r) - m.width);
        lines_end(r->out);
        break;
    case MD_BLOCK_TABLE:
        r->in_table = true;
        r->columns = ((MD_BLOCK_TABLE_DETAIL *)detail)->col_count;
        if (r->columns > MARKDOWN_COLUMNS)
            return 1;
        break;
    case MD_BLOCK_TH:
        r->style = ROLE_TEXT | STYLE_BOLD;
        break;
    default:
        break;
    }
    return md_over_budget(r);
}

static int md_on_leave_block(MD_BLOCKTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    struct md_margins m;
    if (type == MD_BLOCK_CODE) {
        const char *at = r->text.text.len ? (const char *)r->text.text.data : "";
        const char *end = at + r->text.text.len;
        for (const char *stop; at < end; at = stop + 1) {
            const char *newline = memchr(at, '\n', (size_t)(end - at));
            stop = newline ? newline : end;
            md_begin_lines(r, &m);
            margin_add(m.first, "  ");
            margin_add(m.rest, "  ");
            markdown_code_line(&r->lexer, at, (size_t)(stop - at), &m.margin, r->width, r->out);
        }
        styled_clear(&r->text);
        r->in_code = false;
    } else if (type == MD_BLOCK_TH || type == MD_BLOCK_TD) {
        /* The array of cells doubles at each power of two. */
        if ((r->n_cells & (r->n_cells - 1)) == 0) {
            struct md_cell *more =
                reallocarray(r->cells, r->n_cells ? r->n_cells * 2 : 1, sizeof *more);
            if (!more)
                return 1;
            r->cells = more;
        }
        r->cells[r->n_cells++] = (struct md_cell){r->text, ((MD_BLOCK_TD_DETAIL *)detail)->align};
        r->text = STYLED_INIT;
    } else if (type == MD_BLOCK_TABLE) {
        md_table_draw(r);
        md_table_free(r);
    } else {
        md_flush_text(r);
    }
    /* An item without a line of its own still shows its mark. */
    if (type == MD_BLOCK_LI && r->depth && !r->too_deep && !r->levels[r->depth - 1].begun) {
        md_begin_lines(r, &m);
        lines_puts(r->out, ROLE_MUTED, m.first);
        lines_end(r->out);
    }
    if (type == MD_BLOCK_LI || type == MD_BLOCK_UL || type == MD_BLOCK_OL ||
        type == MD_BLOCK_QUOTE) {
        if (r->too_deep)
            r->too_deep--;
        else if (r->depth)
            r->depth--;
    }
    if (!r->in_table && type != MD_BLOCK_THEAD && type != MD_BLOCK_TBODY) {
        size_t list = r->depth;
        while (list > 0 && r->levels[list - 1].type != MD_BLOCK_UL &&
               r->levels[list - 1].type != MD_BLOCK_OL)
            list--;
        r->gap = list == 0 || !r->levels[list - 1].tight;
    }
    r->style = ROLE_TEXT;
    return md_over_budget(r) || (r->in_table && r->n_cells > MD_CELLS);
}

void markdown_render(const char *text, size_t n, int width, int indent, bool gap, struct lines *out)
{
    static const MD_PARSER parser = {.flags = MD_DIALECT_GITHUB | MD_FLAG_NOHTML,
                                     .enter_block = md_on_enter_block,
                                     .leave_block = md_on_leave_block,
                                     .enter_span = md_on_enter_span,
                                     .leave_span = md_on_leave_span,
                                     .text = md_on_text};
    _cleanup_buf_ struct buf safe = BUF_INIT(n * 4 + 16);
    struct md_render r = {.out = out,
                          .width = width,
                          .indent = indent,
                          .gap = gap,
                          .text = STYLED_INIT,
                          .budget = 8 * n + 256};
    size_t before = out->count;

    /* A marker between `]` and `:` (md_add_text() drops it) keeps md4c from seeing link
     * definitions: they would vanish from the text, and a use can be longer than what defines
     * it. */
    for (const char *at = text, *end = text + n; at < end;) {
        const char *found = memmem(at, (size_t)(end - at), "]:", 2);
        size_t part = (size_t)((found ? found + 1 : end) - at);
        buf_append(&safe, at, part);
        buf_append_str(&safe, found ? CLEAN_NEVER : "");
        at += part;
    }
    if (safe.failed || md_parse((const char *)safe.data, (MD_SIZE)safe.len, &parser, &r) != 0) {
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
    md_table_free(&r);
    styled_free(&r.text);
}
