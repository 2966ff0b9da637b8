#include <ctype.h>
#include <string.h>

#include "diff_style.h"
#include "lexer.h"
#include "lexer_table.h"
#include "banned.h"

enum within {
    WITHIN_NOTHING,
    WITHIN_COMMENT,
    WITHIN_TRIPLE_DOUBLE,
    WITHIN_TRIPLE_SINGLE,
    WITHIN_BACKTICK
};

struct lexer lexer_open(const char *name, size_t n)
{
    return (struct lexer){.language = language_find(name, n)};
}

static bool starts(const char *s, size_t n, const char *what)
{
    size_t length = what ? strlen(what) : 0;
    return length && n >= length && memcmp(s, what, length) == 0;
}

/* Where `what` ends in s, or n. */
static size_t behind(const char *s, size_t n, size_t from, const char *what, bool *ret_found)
{
    const char *at = from < n ? memmem(s + from, n - from, what, strlen(what)) : NULL;
    *ret_found = at;
    return at ? (size_t)(at - s) + strlen(what) : n;
}

static const char *closing(const struct lexer *l)
{
    switch (l->within) {
    case WITHIN_COMMENT:
        return l->language->close;
    case WITHIN_TRIPLE_DOUBLE:
        return "\"\"\"";
    case WITHIN_TRIPLE_SINGLE:
        return "'''";
    default:
        return "`";
    }
}

/* The rest of what is open, from `from` on; its end closes it. */
static size_t go_on(struct lexer *l, const char *s, size_t n, size_t at, size_t from,
                    struct flow *out)
{
    bool found;
    unsigned role = l->within == WITHIN_COMMENT ? ROLE_COMMENT : ROLE_STRING;
    size_t end = behind(s, n, from, closing(l), &found);
    flow_add(out, role, s + at, end - at);
    if (found)
        l->within = WITHIN_NOTHING;
    return end;
}

/* The end of a string that begins with the quote at `at`, on this line. */
static size_t string_end(const char *s, size_t n, size_t at)
{
    for (size_t i = at + 1; i < n; i++) {
        if (s[i] == '\\')
            i++;
        else if (s[i] == s[at])
            return i + 1;
    }
    return 0;
}

/* Something that may go on in further lines begins here? */
static bool opens(struct lexer *l, const char *s, size_t n)
{
    const struct language *lang = l->language;
    if (starts(s, n, lang->open))
        l->within = WITHIN_COMMENT;
    else if (lang->triple && starts(s, n, "\"\"\""))
        l->within = WITHIN_TRIPLE_DOUBLE;
    else if (lang->triple && starts(s, n, "'''"))
        l->within = WITHIN_TRIPLE_SINGLE;
    else if (lang->backtick && *s == '`')
        l->within = WITHIN_BACKTICK;
    return l->within != WITHIN_NOTHING;
}

static size_t opened_length(const struct lexer *l)
{
    return l->within == WITHIN_COMMENT ? strlen(l->language->open) : strlen(closing(l));
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

static size_t word(const struct lexer *l, const char *s, size_t n, size_t at, struct flow *out)
{
    size_t end = at;
    while (end < n && is_word(s[end]))
        end++;
    flow_add(out, language_keyword(l->language, s + at, end - at) ? ROLE_KEYWORD : ROLE_TEXT,
             s + at, end - at);
    return end;
}

/* A comment to the end of the line; a # within a word ($#, a#b) begins none. */
static bool is_comment(const struct lexer *l, const char *s, size_t n, size_t at)
{
    for (size_t i = 0; i < ARRAY_SIZE(l->language->comment); i++)
        if (starts(s + at, n - at, l->language->comment[i]))
            return s[at] != '#' || at == 0 || isspace((unsigned char)s[at - 1]);
    return false;
}

static size_t token(struct lexer *l, const char *s, size_t n, size_t at, struct flow *out)
{
    if (is_comment(l, s, n, at)) {
        flow_add(out, ROLE_COMMENT, s + at, n - at);
        return n;
    }
    if (opens(l, s + at, n - at))
        return go_on(l, s, n, at, at + opened_length(l), out);
    if (strchr(l->language->quotes, s[at])) {
        size_t end = string_end(s, n, at);
        flow_add(out, end ? ROLE_STRING : ROLE_TEXT, s + at, end ? end - at : 1);
        return end ? end : at + 1;
    }
    if (is_word(s[at]))
        return word(l, s, n, at, out);
    flow_add(out, ROLE_TEXT, s + at, 1);
    return at + 1;
}

/* Lines that no person reads are left as they are: a quote that is never closed is searched for to
 * the end of its line, again and again. */
#define COLOURED_MAX 4096

void lexer_line(struct lexer *l, const char *line, size_t n, struct flow *out)
{
    size_t at = 0;
    if (!l->language || n > COLOURED_MAX) {
        flow_add(out, ROLE_TEXT, line, n);
        return;
    }
    if (l->language->is_diff) {
        flow_add(out, diff_style(line, n), line, n);
        return;
    }
    if (l->within != WITHIN_NOTHING)
        at = go_on(l, line, n, 0, 0, out);
    while (at < n)
        at = token(l, line, n, at, out);
}
