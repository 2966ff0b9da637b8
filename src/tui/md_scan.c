#include <ctype.h>
#include <string.h>

#include "md_scan.h"
#include "banned.h"

static size_t blanks(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && (line[i] == ' ' || line[i] == '\t'))
        i++;
    return i;
}

bool md_blank(const char *line, size_t n)
{
    size_t i = blanks(line, n);
    return i == n || line[i] == '\n';
}

int md_indent(const char *line, size_t n)
{
    int columns = 0;
    for (size_t i = 0; i < n && columns < 64 && (line[i] == ' ' || line[i] == '\t'); i++)
        columns = line[i] == '\t' ? columns + 4 - columns % 4 : columns + 1;
    return columns;
}

static size_t repeated(const char *s, size_t n, char c)
{
    size_t i = 0;
    while (i < n && s[i] == c)
        i++;
    return i;
}

static bool ends_word(const char *s, size_t n, size_t at)
{
    return at >= n || s[at] == ' ' || s[at] == '\t' || s[at] == '\n';
}

bool md_heading(const char *line, size_t n)
{
    size_t at = blanks(line, n), marks = repeated(line + at, n - at, '#');
    return marks >= 1 && marks <= 6 && ends_word(line, n, at + marks);
}

bool md_quote(const char *line, size_t n)
{
    size_t at = blanks(line, n);
    return at < n && line[at] == '>';
}

/* Where the text behind an item's mark begins, or 0; *ret_one: it is a bullet, or numbered 1. */
static size_t item_mark(const char *line, size_t n, bool *ret_one)
{
    size_t at = blanks(line, n), digits = 0;
    while (at + digits < n && digits < 10 && isdigit((unsigned char)line[at + digits]))
        digits++;
    size_t end = at + digits;
    if (end >= n || !strchr(digits ? ".)" : "-*+", line[end]) || digits > 9)
        return 0;
    *ret_one = digits == 0 || (digits == 1 && line[at] == '1');
    return ends_word(line, n, end + 1) ? end + 1 : 0;
}

bool md_item(const char *line, size_t n)
{
    bool one;
    return item_mark(line, n, &one) && !md_rule(line, n);
}

bool md_interrupts(const char *line, size_t n)
{
    bool one = false;
    size_t behind = item_mark(line, n, &one);
    return behind && one && !md_blank(line + behind, n - behind) && !md_rule(line, n);
}

bool md_rule(const char *line, size_t n)
{
    size_t at = blanks(line, n), marks = 0;
    char mark = at < n ? line[at] : 0;
    if (mark != '-' && mark != '*' && mark != '_')
        return false;
    for (; at < n && line[at] != '\n'; at++) {
        if (line[at] != mark && line[at] != ' ' && line[at] != '\t')
            return false;
        marks += line[at] == mark;
    }
    return marks >= 3;
}

bool md_fence(const char *line, size_t n, struct markdown_fence *ret, const char **ret_info,
              size_t *ret_info_n)
{
    size_t at = blanks(line, n);
    int indent = md_indent(line, n);
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

bool md_fence_ends(const struct markdown_fence *f, const char *line, size_t n)
{
    size_t at = blanks(line, n), length = repeated(line + at, n - at, f->mark);
    return md_indent(line, n) <= 3 && length >= f->length &&
           md_blank(line + at + length, n - at - length);
}
