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

static size_t blanks(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && (line[i] == ' ' || line[i] == '\t'))
        i++;
    return i;
}

static bool line_is_blank(const char *line, size_t n)
{
    size_t i = blanks(line, n);
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
    size_t at = blanks(line, n), digits = 0, marks = 0;
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

static size_t repeated(const char *s, size_t n, char c)
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
    size_t at = blanks(line, n);
    int indent = line_indent(line, n);
    char mark = at < n ? line[at] : 0;
    size_t length = mark == '`' || mark == '~' ? repeated(line + at, n - at, mark) : 0;
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

/* Blocks. */

/* The margin of code at the top level: the document's, and two columns. */
static struct margin code_margin(const struct markdown *m)
{
    static const char spaces[] = "          ";
    int n = m->indent + 2 < (int)sizeof spaces ? m->indent + 2 : (int)sizeof spaces - 1;
    const char *margin = spaces + sizeof spaces - 1 - n;
    return (struct margin){.first = margin, .rest = margin};
}

static void block_render(struct markdown *m, const char *text, size_t n)
{
    m->work += n;
    markdown_render(text, n, m->width, m->indent, m->lines.count > 0 && !m->joined, &m->lines);
}

/* The open block ends at `to`. */
static void block_end(struct markdown *m, const char *text, size_t to)
{
    if (m->block != MARKDOWN_NONE && m->block != MARKDOWN_FENCE)
        block_render(m, text + m->start, to - m->start);
    m->start = to;
    m->done_lines = m->lines.count;
    m->joined = false;
}

/* A block begins with this line. */
static void block_begin(struct markdown *m, const char *line, size_t n)
{
    const char *info;
    size_t info_n;
    m->blank = false;
    if (!line_is_fence(line, n, &m->fence, &info, &info_n)) {
        m->block = line_indent(line, n) >= 4 ? MARKDOWN_INDENTED
                   : line_is_item(line, n)   ? MARKDOWN_LIST
                                             : MARKDOWN_TEXT;
        return;
    }
    struct margin margin = code_margin(m);
    m->block = MARKDOWN_FENCE;
    m->lexer = lexer_open(info, info_n);
    if (m->lines.count)
        lines_end(&m->lines);
    markdown_code_label(info, info_n, &margin, m->width, &m->lines);
    m->start = m->scanned + n;
    m->done_lines = m->lines.count;
}

/* Does the line, which is not empty, begin a block of its own? */
static bool block_begins(const struct markdown *m, const char *line, size_t n)
{
    struct markdown_fence fence;
    const char *info;
    size_t info_n;
    int indent = line_indent(line, n);
    switch (m->block) {
    case MARKDOWN_LIST: /* what is indented may belong to an item */
        return indent == 0 && !line_is_item(line, n) &&
               (m->blank || line_is_fence(line, n, &fence, &info, &info_n));
    case MARKDOWN_INDENTED:
        return indent < 4;
    case MARKDOWN_TEXT:
        return m->blank || line_is_fence(line, n, &fence, &info, &info_n);
    default:
        return true;
    }
}

/* A line in a code fence: code, or the fence's end. */
static void take_fence_line(struct markdown *m, const char *line, size_t n)
{
    struct margin margin = code_margin(m);
    size_t at = blanks(line, n), marks = repeated(line + at, n - at, m->fence.mark), strip = 0;
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
    markdown_code_line(&m->lexer, line + strip, n - strip, &margin, m->width, &m->lines);
    m->done_lines = m->lines.count;
}

static void take_line(struct markdown *m, const char *text, size_t n)
{
    const char *line = text + m->scanned;
    if (m->block == MARKDOWN_FENCE) {
        take_fence_line(m, line, n);
        return;
    }
    if (!m->within && line_is_blank(line, n)) {
        m->blank = m->block != MARKDOWN_NONE;
        if (!m->blank)
            m->start = m->scanned + n;
        return;
    }
    /* A list is cut at an item of the top level, or where it is far too long. */
    size_t length = m->scanned - m->start;
    bool may_cut =
        length >= MARKDOWN_BLOCK && (m->block != MARKDOWN_LIST || length >= 2 * MARKDOWN_BLOCK ||
                                     (line_is_item(line, n) && line_indent(line, n) == 0));
    if (!m->within && block_begins(m, line, n)) {
        block_end(m, text, m->scanned);
        block_begin(m, line, n);
    } else if (may_cut) {
        bool apart = m->blank;
        block_end(m, text, m->scanned);
        m->joined = !apart;
    } else if (m->block == MARKDOWN_TEXT && line_is_item(line, n)) {
        m->block = MARKDOWN_LIST;
    }
    m->blank = false;
}

/* The length of the next line with its newline; of one that is too long, up to a blank; 0: it is
 * not complete yet. */
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

void markdown_update(struct markdown *m, const char *text, size_t n)
{
    size_t length;
    lines_cut(&m->lines, m->done_lines);
    while (m->scanned < n && (length = line_length(text + m->scanned, n - m->scanned)) > 0) {
        take_line(m, text, length);
        m->scanned += length;
        m->within = text[m->scanned - 1] != '\n';
    }
    /* The incomplete line at the end is taken as if it were complete, since it may begin a block of
     * its own. Then the state goes back to that of complete lines; the lines of what may still
     * change are cut by the next update. */
    struct markdown complete = *m;
    if (m->scanned < n)
        take_line(m, text, n - m->scanned);
    if (m->start < n && m->block != MARKDOWN_NONE && m->block != MARKDOWN_FENCE)
        block_render(m, text + m->start, n - m->start);
    complete.lines = m->lines;
    complete.work = m->work;
    *m = complete;
}
