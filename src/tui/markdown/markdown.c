/*
 * A Markdown document that grows. The text is cut into blocks: at empty lines, before and after
 * code fences, and after each line of fenced code. Finished blocks are laid out once; only the one
 * at the end, which may still change, is laid out again when text arrives. Where a block ends
 * depends on the text up to there alone, never on the pieces it arrived in: so a document gives the
 * same lines however it was cut. Time is linear: a block has a maximum size (MARKDOWN_BLOCK), and
 * longer ones are cut.
 */
#include <ctype.h>
#include <string.h>

#include "markdown.h"
#include "text.h"
#include "banned.h"

void markdown_open(struct markdown *m, int width, int indent)
{
    *m = (struct markdown){.lines = LINES_INIT, .width = width, .indent = indent};
}

void markdown_free(struct markdown *m)
{
    lines_free(&m->lines);
}

/* What a line begins, seen from the top level of the document. Lines may end with a newline. */

static size_t line_blanks(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && (line[i] == ' ' || line[i] == '\t'))
        i++;
    return i;
}

static bool line_is_blank(const char *line, size_t n)
{
    size_t i = line_blanks(line, n);
    return i == n || line[i] == '\n';
}

/* Columns of blanks at its start. */
static int line_indent(const char *line, size_t n)
{
    int columns = 0;
    for (size_t i = 0; i < n && columns < 64 && (line[i] == ' ' || line[i] == '\t'); i++)
        columns = line[i] == '\t' ? columns + 4 - columns % 4 : columns + 1;
    return columns;
}

/* `- x`, `1. x`; but not a rule: `***`, `- - -`. */
static bool line_is_item(const char *line, size_t n)
{
    size_t at = line_blanks(line, n), digits = 0, marks = 0;
    while (at + digits < n && digits < 10 && isdigit((unsigned char)line[at + digits]))
        digits++;
    size_t end = at + digits;
    if (end >= n || !strchr(digits ? ".)" : "-*+", line[end]) || digits > 9 ||
        !line_is_blank(line + end + 1, n - end - 1 < 1 ? n - end - 1 : 1))
        return false;
    for (char mark = line[at]; at < n && line[at] != '\n'; at++) {
        if (digits || mark == '+' || (line[at] != mark && line[at] != ' ' && line[at] != '\t'))
            return true;
        marks += line[at] == mark;
    }
    return marks < 3;
}

static size_t line_repeated(const char *s, size_t n, char c)
{
    size_t i = 0;
    while (i < n && s[i] == c)
        i++;
    return i;
}

/* An opening fence; *ret_info is what stands after it. */
static bool line_is_fence(const char *line, size_t n, struct markdown_fence *ret,
                          const char **ret_info, size_t *ret_info_n)
{
    size_t at = line_blanks(line, n);
    int indent = line_indent(line, n);
    char mark = at < n ? line[at] : 0;
    size_t length = mark == '`' || mark == '~' ? line_repeated(line + at, n - at, mark) : 0;
    if (length < 3 || indent > 3)
        return false;
    const char *info = line + at + length;
    size_t info_n = n - at - length;
    while (info_n && isspace((unsigned char)info[info_n - 1]))
        info_n--;
    while (info_n && isspace((unsigned char)*info)) {
        info++;
        info_n--;
    }
    if (mark == '`' && memchr(info, '`', info_n))
        return false;
    *ret = (struct markdown_fence){mark, length, indent};
    *ret_info = info;
    *ret_info_n = info_n;
    return true;
}

/* The open block is laid out and ends at `to`. */
static void document_end_block(struct markdown *m, const char *text, size_t to)
{
    if (m->block != MARKDOWN_NONE && m->block != MARKDOWN_FENCE) {
        m->work += to - m->start;
        markdown_render(text + m->start, to - m->start, m->width, m->indent,
                        m->lines.count > 0 && !m->joined, &m->lines);
    }
    m->start = to;
    m->done_lines = m->lines.count;
    m->joined = false;
}

/* A line in a code fence: code, or the fence's end. */
static void document_take_fence_line(struct markdown *m, const char *line, size_t n,
                                     const struct margin *margin)
{
    size_t at = line_blanks(line, n), marks = line_repeated(line + at, n - at, m->fence.mark),
           strip = 0;
    m->start = m->scanned + n;
    if (!m->within && line_indent(line, n) <= 3 && marks >= m->fence.length &&
        line_is_blank(line + at + marks, n - at - marks)) {
        m->block = MARKDOWN_NONE;
        return;
    }
    m->work += n;
    while (strip < n && (int)strip < m->fence.indent && line[strip] == ' ')
        strip++;
    n -= n && line[n - 1] == '\n';
    markdown_code_line(&m->lexer, line + strip, n - strip, margin, m->width, &m->lines);
    m->done_lines = m->lines.count;
}

static void document_take_line(struct markdown *m, const char *text, size_t n)
{
    static const char spaces[] = "          ";
    const char *line = text + m->scanned, *info;
    int indent = line_indent(line, n), at = m->indent + 2 < (int)sizeof spaces ? m->indent + 2 : 10;
    /* The margin of code at the top level: the document's, and two columns. */
    struct margin margin = {.first = spaces + sizeof spaces - 1 - at,
                            .rest = spaces + sizeof spaces - 1 - at};
    struct markdown_fence fence;
    size_t info_n, length = m->scanned - m->start;
    if (m->block == MARKDOWN_FENCE) {
        document_take_fence_line(m, line, n, &margin);
        return;
    }
    if (!m->within && line_is_blank(line, n)) {
        m->blank = m->block != MARKDOWN_NONE;
        if (!m->blank)
            m->start = m->scanned + n;
        return;
    }
    bool item = line_is_item(line, n), opens = line_is_fence(line, n, &fence, &info, &info_n);
    bool begins = m->block == MARKDOWN_NONE || (m->block == MARKDOWN_INDENTED && indent < 4) ||
                  (m->block == MARKDOWN_TEXT && (m->blank || opens)) ||
                  /* what is indented may belong to an item */
                  (m->block == MARKDOWN_LIST && indent == 0 && !item && (m->blank || opens));
    /* A list is cut at an item of the top level, or where it is far too long. */
    bool may_cut =
        length >= MARKDOWN_BLOCK &&
        (m->block != MARKDOWN_LIST || length >= 2 * MARKDOWN_BLOCK || (item && indent == 0));
    if (!m->within && begins) {
        document_end_block(m, text, m->scanned);
        m->block = opens         ? MARKDOWN_FENCE
                   : indent >= 4 ? MARKDOWN_INDENTED
                   : item        ? MARKDOWN_LIST
                                 : MARKDOWN_TEXT;
        if (opens) {
            m->fence = fence;
            m->lexer = lexer_open(info, info_n);
            if (m->lines.count)
                lines_end(&m->lines);
            markdown_code_label(info, info_n, &margin, m->width, &m->lines);
            m->start = m->scanned + n;
            m->done_lines = m->lines.count;
        }
    } else if (may_cut) {
        bool apart = m->blank;
        document_end_block(m, text, m->scanned);
        m->joined = !apart;
    } else if (m->block == MARKDOWN_TEXT && item) {
        m->block = MARKDOWN_LIST;
    }
    m->blank = false;
}

/* The length of the next line with its newline; of one that is too long, up to a blank; 0: it is
 * not complete yet. */
static size_t document_line_length(const char *text, size_t n)
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

void markdown_update(struct markdown *m, const char *text, size_t n)
{
    size_t length;
    lines_cut(&m->lines, m->done_lines);
    while (m->scanned < n &&
           (length = document_line_length(text + m->scanned, n - m->scanned)) > 0) {
        document_take_line(m, text, length);
        m->scanned += length;
        m->within = text[m->scanned - 1] != '\n';
    }
    /* The incomplete line at the end is taken as if it were complete, since it may begin a block of
     * its own. Then the state goes back to that of complete lines; the lines of what may still
     * change are cut by the next update. */
    struct markdown complete = *m;
    if (m->scanned < n)
        document_take_line(m, text, n - m->scanned);
    if (m->start < n)
        document_end_block(m, text, n);
    complete.lines = m->lines;
    complete.work = m->work;
    *m = complete;
}
