/*
 * md4c tells what begins and what ends; here that becomes lines. Inline text is gathered in a flow,
 * which is wrapped when its block ends. Lists and quotes are levels: each puts its mark before the
 * lines in it.
 */
#include <stdio.h>
#include <string.h>

#include "clean.h"
#include "markdown.h"
#include "md_render.h"
#include "banned.h"

static void add_mark(char *to, const char *mark)
{
    size_t n = strlen(to), more = strlen(mark);
    if (n + more < MD_MARGIN_MAX)
        memcpy(to + n, mark, more + 1);
}

/* Each level adds its mark, as long as half of the line is left for text: is there room for this
 * one? */
static bool has_room(const struct md_render *r, const struct md_level *l, int *width)
{
    int wide = clean_width(l->rest, strlen(l->rest));
    if (*width + wide > r->width / 2)
        return false;
    *width += wide;
    return true;
}

static void blank_line(struct md_render *r)
{
    char margin[MD_MARGIN_MAX] = "";
    int width = r->indent;
    for (size_t i = 0; i < r->depth && r->levels[i].begun; i++)
        if (has_room(r, &r->levels[i], &width))
            add_mark(margin, r->levels[i].rest);
    size_t n = strlen(margin);
    while (n && margin[n - 1] == ' ')
        margin[--n] = 0;
    if (n) {
        lines_put(r->out, ROLE_MUTED, "          ", (size_t)r->indent, r->indent);
        lines_say(r->out, ROLE_MUTED, margin);
    }
    lines_end(r->out);
}

void md_begin_lines(struct md_render *r, struct md_margins *ret)
{
    if (r->gap)
        blank_line(r);
    r->gap = false;
    *ret = (struct md_margins){.width = r->indent};
    snprintf(ret->first, sizeof ret->first, "%*s", r->indent, "");
    snprintf(ret->rest, sizeof ret->rest, "%*s", r->indent, "");
    for (size_t i = 0; i < r->depth; i++) {
        struct md_level *l = &r->levels[i];
        if (has_room(r, l, &ret->width)) {
            add_mark(ret->first, l->begun ? l->rest : l->first);
            add_mark(ret->rest, l->rest);
        }
        l->begun = true;
    }
    ret->margin = (struct margin){ret->first, ret->rest, ROLE_MUTED, ROLE_MUTED};
}

static bool in_tight(const struct md_render *r)
{
    for (size_t i = r->depth; i-- > 0;)
        if (r->levels[i].type == MD_BLOCK_UL || r->levels[i].type == MD_BLOCK_OL)
            return r->levels[i].list.tight;
    return false;
}

/* What was gathered becomes lines. */
static void flush(struct md_render *r)
{
    struct md_margins m;
    if (r->flow.text.len == 0 || r->in_table)
        return;
    md_begin_lines(r, &m);
    int width = r->width < MARKDOWN_PROSE ? r->width : MARKDOWN_PROSE;
    wrap_words(&r->flow, &m.margin, width - m.width, r->out);
    flow_clear(&r->flow);
}

static void push(struct md_render *r, const struct md_level *level)
{
    if (r->depth < MD_DEPTH)
        r->levels[r->depth++] = *level;
    else
        r->too_deep++;
}

static void pop(struct md_render *r)
{
    if (r->too_deep)
        r->too_deep--;
    else if (r->depth)
        r->depth--;
}

static void push_item(struct md_render *r, const MD_BLOCK_LI_DETAIL *d)
{
    static const char *const bullets[] = {"• ", "◦ ", "▪ "};
    struct md_level level = {.type = MD_BLOCK_LI};
    struct md_list *list = NULL;
    size_t lists = 0;
    for (size_t i = 0; i < r->depth; i++)
        if (r->levels[i].type == MD_BLOCK_UL || r->levels[i].type == MD_BLOCK_OL) {
            list = &r->levels[i].list;
            lists++;
        }
    if (list && list->ordered)
        snprintf(level.first, sizeof level.first, "%u. ", list->next++ % 1000000000u);
    else
        snprintf(level.first, sizeof level.first, "%s",
                 bullets[lists < 3 ? (lists ? lists - 1 : 0) : 2]);
    if (d->is_task)
        snprintf(level.first, sizeof level.first, "[%s] ", d->task_mark == ' ' ? " " : "x");
    snprintf(level.rest, sizeof level.rest, "%*s", clean_width(level.first, strlen(level.first)),
             "");
    push(r, &level);
}

static void code_begins(struct md_render *r, const MD_BLOCK_CODE_DETAIL *d)
{
    size_t n = d->info.text ? d->info.size : 0;
    struct md_margins m;
    r->in_code = true;
    r->lexer = lexer_open(n ? d->info.text : "", n);
    if (n == 0)
        return;
    md_begin_lines(r, &m);
    add_mark(m.first, "  ");
    md_code_label(d->info.text, n, &m.margin, r->width, r->out);
}

static void code_ends(struct md_render *r)
{
    struct md_margins m;
    const char *at = r->flow.text.len ? (const char *)r->flow.text.data : "";
    const char *end = at + r->flow.text.len;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        md_begin_lines(r, &m);
        add_mark(m.first, "  ");
        add_mark(m.rest, "  ");
        md_code_line(&r->lexer, at, (size_t)(stop - at), &m.margin, r->width, r->out);
        at = stop + 1;
    }
    flow_clear(&r->flow);
    r->in_code = false;
}

static void rule(struct md_render *r)
{
    struct md_margins m;
    md_begin_lines(r, &m);
    int width = (r->width < MARKDOWN_PROSE ? r->width : MARKDOWN_PROSE) - m.width;
    lines_say(r->out, ROLE_MUTED, m.first);
    for (int i = 0; i < width; i++)
        lines_put(r->out, ROLE_MUTED, "─", strlen("─"), 1);
    lines_end(r->out);
}

static bool over_budget(struct md_render *r)
{
    return ++r->calls > r->budget;
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    flush(r);
    r->style = ROLE_TEXT;
    switch (type) {
    case MD_BLOCK_QUOTE:
        push(r, &(struct md_level){.type = type, .first = "│ ", .rest = "│ "});
        break;
    case MD_BLOCK_UL:
        push(r, &(struct md_level){.type = type,
                                   .list.tight = ((MD_BLOCK_UL_DETAIL *)detail)->is_tight});
        break;
    case MD_BLOCK_OL:
        push(r, &(struct md_level){.type = type,
                                   .list = {.ordered = true,
                                            .tight = ((MD_BLOCK_OL_DETAIL *)detail)->is_tight,
                                            .next = ((MD_BLOCK_OL_DETAIL *)detail)->start}});
        break;
    case MD_BLOCK_LI:
        push_item(r, detail);
        break;
    case MD_BLOCK_H:
        r->style = ROLE_HEADING | STYLE_BOLD |
                   (((MD_BLOCK_H_DETAIL *)detail)->level == 1 ? STYLE_UNDERLINE : 0);
        break;
    case MD_BLOCK_CODE:
        code_begins(r, detail);
        break;
    case MD_BLOCK_HR:
        rule(r);
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

/* An item without a line of its own still shows its mark. */
static void item_ends(struct md_render *r)
{
    struct md_margins m;
    struct md_level *level = r->depth ? &r->levels[r->depth - 1] : NULL;
    if (level && !r->too_deep && !level->begun) {
        md_begin_lines(r, &m);
        lines_say(r->out, ROLE_MUTED, m.first);
        lines_end(r->out);
    }
    pop(r);
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *data)
{
    struct md_render *r = data;
    if (type == MD_BLOCK_CODE)
        code_ends(r);
    else if (type == MD_BLOCK_TH || type == MD_BLOCK_TD)
        md_table_cell(r, ((MD_BLOCK_TD_DETAIL *)detail)->align);
    else if (type == MD_BLOCK_TABLE)
        md_table_end(r);
    else
        flush(r);
    if (type == MD_BLOCK_LI)
        item_ends(r);
    else if (type == MD_BLOCK_UL || type == MD_BLOCK_OL || type == MD_BLOCK_QUOTE)
        pop(r);
    if (!r->in_table && type != MD_BLOCK_THEAD && type != MD_BLOCK_TBODY)
        r->gap = !in_tight(r);
    r->style = ROLE_TEXT;
    return over_budget(r) || (r->in_table && r->table.count > MD_CELLS);
}

/* Between a bracket and a colon a mark is set (md_text drops it), so that nothing is a definition
 * of a link: those would vanish from the text, and each use of one can be longer than what defines
 * it. */
static int without_definitions(const char *text, size_t n, struct buf *out)
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

static void as_text(const char *text, size_t n, struct md_render *r)
{
    struct md_margins m;
    r->depth = r->too_deep = 0;
    flow_clear(&r->flow);
    flow_add(&r->flow, ROLE_TEXT, text, n);
    md_begin_lines(r, &m);
    wrap_words(&r->flow, &m.margin, r->width - m.width, r->out);
}

void md_render(const char *text, size_t n, int width, int indent, bool gap, struct lines *out)
{
    static const MD_PARSER parser = {.flags = MD_DIALECT_GITHUB | MD_FLAG_NOHTML,
                                     .enter_block = enter_block,
                                     .leave_block = leave_block,
                                     .enter_span = md_enter_span,
                                     .leave_span = md_leave_span,
                                     .text = md_text};
    _cleanup_buf_ struct buf safe = BUF_INIT(n * 4 + 16);
    struct md_render r = {.out = out,
                          .width = width,
                          .indent = indent,
                          .gap = gap,
                          .flow = FLOW_INIT,
                          .budget = 8 * n + 256};
    size_t before = out->count;
    if (without_definitions(text, n, &safe) < 0 ||
        md_parse((const char *)safe.data, (MD_SIZE)safe.len, &parser, &r) != 0) {
        lines_cut(out, before);
        r.gap = gap;
        as_text(text, n, &r);
    }
    md_table_free(&r.table);
    flow_free(&r.flow);
}
