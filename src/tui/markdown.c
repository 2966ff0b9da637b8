#include <string.h>

#include "md_render.h"
#include "md_scan.h"
#include "utf8.h"
#include "banned.h"

void markdown_open(struct markdown *m, int width, int indent)
{
    *m = (struct markdown){.lines = LINES_INIT, .width = width, .indent = indent};
}

void markdown_free(struct markdown *m)
{
    lines_free(&m->lines);
}

/* Before the top level's code: the document's own margin, and two columns. */
static const char *code_margin(const struct markdown *m)
{
    static const char blanks[] = "          ";
    int n = m->indent + 2 < (int)sizeof blanks ? m->indent + 2 : (int)sizeof blanks - 1;
    return blanks + sizeof blanks - 1 - n;
}

static void render(struct markdown *m, const char *text, size_t n)
{
    m->work += n;
    if (m->kind == MARKDOWN_FENCE) {
        struct margin margin = {.first = code_margin(m), .rest = code_margin(m)};
        size_t strip = 0;
        while (strip < n && (int)strip < m->fence.indent && text[strip] == ' ')
            strip++;
        if (n && text[n - 1] == '\n')
            n--;
        md_code_line(&m->lexer, text + strip, n - strip, &margin, m->width, &m->lines);
        return;
    }
    md_render(text, n, m->width, m->indent, m->lines.count > 0 && !m->joined, &m->lines);
}

/* The open block ends at `to`. */
static void finish(struct markdown *m, const char *text, size_t to)
{
    if (m->kind != MARKDOWN_NONE && m->kind != MARKDOWN_FENCE)
        render(m, text + m->start, to - m->start);
    m->start = to;
    m->done_lines = m->lines.count;
    m->joined = false;
}

static void begin_fence(struct markdown *m, const char *info, size_t n)
{
    if (m->lines.count)
        lines_end(&m->lines);
    md_code_label(info, n, &(struct margin){.first = code_margin(m), .rest = ""}, m->width,
                  &m->lines);
    m->lexer = lexer_open(info, n);
    m->done_lines = m->lines.count;
}

/* A block begins with this line. */
static void begin(struct markdown *m, const char *line, size_t n)
{
    const char *info;
    size_t info_n;
    int indent = md_indent(line, n);
    m->blank = false;
    if (md_fence(line, n, &m->fence, &info, &info_n)) {
        m->kind = MARKDOWN_FENCE;
        begin_fence(m, info, info_n);
    } else if (indent >= 4) {
        m->kind = MARKDOWN_INDENTED;
    } else if (md_heading(line, n)) {
        m->kind = MARKDOWN_HEADING;
    } else if (md_quote(line, n)) {
        m->kind = MARKDOWN_QUOTE;
    } else {
        m->kind = md_item(line, n) ? MARKDOWN_LIST : MARKDOWN_PARAGRAPH;
    }
}

/* Something that ends a paragraph without an empty line. */
static bool is_abrupt(const char *line, size_t n)
{
    struct markdown_fence fence;
    const char *info;
    size_t info_n;
    return md_fence(line, n, &fence, &info, &info_n) || md_heading(line, n);
}

/* Does the line, which is not empty, begin a block of its own? */
static bool begins(const struct markdown *m, const char *line, size_t n)
{
    int indent = md_indent(line, n);
    switch (m->kind) {
    case MARKDOWN_NONE:
    case MARKDOWN_HEADING:
        return true;
    case MARKDOWN_LIST: /* what is indented may belong to an item */
        return indent == 0 && !md_item(line, n) &&
               (m->blank || is_abrupt(line, n) || md_quote(line, n) || md_rule(line, n));
    case MARKDOWN_QUOTE:
        return m->blank ||
               (indent < 4 && !md_quote(line, n) && (is_abrupt(line, n) || md_interrupts(line, n)));
    case MARKDOWN_INDENTED:
        return indent < 4;
    default:
        return m->blank ||
               (indent < 4 && (is_abrupt(line, n) || md_quote(line, n) || md_interrupts(line, n)));
    }
}

/* May a block that has grown too long be cut before this line? */
static bool may_cut(const struct markdown *m, const char *line, size_t n)
{
    return m->kind != MARKDOWN_LIST || (md_item(line, n) && md_indent(line, n) == 0) ||
           m->scanned - m->start >= 2 * MARKDOWN_BLOCK;
}

static void take_fence_line(struct markdown *m, const char *text, size_t n)
{
    const char *line = text + m->scanned;
    if (!m->within && md_fence_ends(&m->fence, line, n)) {
        m->kind = MARKDOWN_NONE;
    } else {
        render(m, line, n);
        m->done_lines = m->lines.count;
    }
    m->start = m->scanned + n;
}

static void take_line(struct markdown *m, const char *text, size_t n)
{
    const char *line = text + m->scanned;
    if (m->kind == MARKDOWN_FENCE) {
        take_fence_line(m, text, n);
        return;
    }
    if (!m->within && md_blank(line, n)) {
        m->blank = m->kind != MARKDOWN_NONE;
        if (!m->blank)
            m->start = m->scanned + n;
        return;
    }
    if (!m->within && begins(m, line, n)) {
        finish(m, text, m->scanned);
        begin(m, line, n);
        if (m->kind == MARKDOWN_FENCE)
            m->start = m->scanned + n;
    } else if (m->scanned - m->start >= MARKDOWN_BLOCK && may_cut(m, line, n)) {
        bool apart = m->blank;
        finish(m, text, m->scanned);
        m->joined = !apart;
    }
    m->blank = false;
}

/* The length of the next line, with its end; of one that is too long, up to a blank; 0: it is not
 * whole yet.
 */
static size_t line_length(const char *text, size_t n)
{
    size_t most = n < MARKDOWN_LINE ? n : MARKDOWN_LINE;
    const char *end = memchr(text, '\n', most);
    if (end)
        return (size_t)(end - text) + 1;
    if (n < MARKDOWN_LINE)
        return 0;
    end = memrchr(text, ' ', most);
    if (end && end > text + most / 2)
        return (size_t)(end - text) + 1;
    return most - utf8_cut_end((const uint8_t *)text, most);
}

/* The line at the end that is not whole yet is taken as if it were, since it may begin a block of
 * its own; the state goes back to what whole lines said, and the lines of what may still change are
 * cut the next time.
 */
static void take_tail(struct markdown *m, const char *text, size_t n)
{
    struct markdown whole = *m;
    if (m->scanned < n)
        take_line(m, text, n - m->scanned);
    if (m->start < n && m->kind != MARKDOWN_NONE && m->kind != MARKDOWN_FENCE)
        render(m, text + m->start, n - m->start);
    whole.lines = m->lines;
    whole.work = m->work;
    *m = whole;
}

void markdown_update(struct markdown *m, const char *text, size_t n)
{
    size_t length;
    lines_cut(&m->lines, m->done_lines);
    while (m->scanned < n && (length = line_length(text + m->scanned, n - m->scanned)) > 0) {
        take_line(m, text, length);
        m->scanned += length;
        m->within = text[m->scanned - 1] != '\n';
    }
    take_tail(m, text, n);
}
