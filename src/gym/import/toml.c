/* A scanner over one text: every function leaves `at` behind what it took, and never goes past
 * `end`. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "text.h"
#include "toml.h"
#include "banned.h"

struct scan {
    const char *at, *end;
    unsigned line;
    const struct toml_sink *sink;
    struct error *err;
    char table[TOML_NAME_MAX];  /* the current one, with a point behind it if it is not the top */
    char value[TOML_VALUE_MAX]; /* the last one */
};

static int wrong(struct scan *s, const char *what)
{
    return error_set(s->err, EINVAL, "line %u: %s", s->line, what);
}

static int peek(const struct scan *s)
{
    return s->at < s->end ? (unsigned char)*s->at : -1;
}

static bool begins(const struct scan *s, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(s->end - s->at) >= n && memcmp(s->at, text, n) == 0;
}

static void skip_blanks(struct scan *s)
{
    while (peek(s) == ' ' || peek(s) == '\t')
        s->at++;
}

/* Blanks, line ends and comments. */
static void skip_space(struct scan *s)
{
    for (;; s->at++) {
        if (peek(s) == '#')
            while (peek(s) >= 0 && peek(s) != '\n')
                s->at++;
        if (peek(s) == '\n')
            s->line++;
        else if (peek(s) != ' ' && peek(s) != '\t' && peek(s) != '\r')
            return;
    }
}

/* What is too long of a value is cut off: the long ones are prose. */
static int put(struct scan *s, char *out, size_t size, size_t *n, char c)
{
    if (*n + 1 < size)
        out[(*n)++] = c;
    else if (out != s->value)
        return wrong(s, "a name is too long");
    return 0;
}

static int put_code(struct scan *s, char *out, size_t size, size_t *n, unsigned digits)
{
    uint32_t code = 0;
    char bytes[4];
    size_t count = 0;
    for (unsigned i = 0; i < digits; i++, s->at++) {
        int c = peek(s);
        int v = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : -1;
        if (v < 0)
            return wrong(s, "\\u needs hexadecimal digits");
        code = code << 4 | (uint32_t)v;
    }
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return wrong(s, "\\u names no character");
    if (code < 0x80) {
        bytes[count++] = (char)code;
    } else {
        unsigned more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        bytes[count++] = (char)((0xf00u >> (more + 1) & 0xff) | code >> (6 * more));
        while (more-- > 0)
            bytes[count++] = (char)(0x80 | (code >> (6 * more) & 0x3f));
    }
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++)
        r = put(s, out, size, n, bytes[i]);
    return r;
}

/* What follows a backslash. */
static int take_escape(struct scan *s, bool long_text, char *out, size_t size, size_t *n)
{
    static const char FROM[] = "btnfre\"\\", TO[] = "\b\t\n\f\r\033\"\\";
    int c = peek(s);
    const char *found = c > 0 ? strchr(FROM, c) : NULL;
    if (long_text && (c == '\n' || c == ' ' || c == '\t' || c == '\r')) {
        for (; peek(s) == '\n' || peek(s) == ' ' || peek(s) == '\t' || peek(s) == '\r'; s->at++)
            s->line += peek(s) == '\n';
        return 0;
    }
    if (c >= 0)
        s->at++;
    if (found)
        return put(s, out, size, n, TO[found - FROM]);
    if (c == 'u' || c == 'U')
        return put_code(s, out, size, n, c == 'u' ? 4 : 8);
    return wrong(s, "unknown escape sequence");
}

/* A text in one of the four kinds of quotes, its content to out. */
static int take_quoted(struct scan *s, char *out, size_t size)
{
    char quote = *s->at, three[4] = {quote, quote, quote, 0};
    bool long_text = begins(s, three);
    size_t n = 0;
    int r = 0;
    s->at += long_text ? 3 : 1;
    if (long_text && begins(s, "\r\n"))
        s->at++;
    if (long_text && peek(s) == '\n') {
        s->at++;
        s->line++;
    }
    while (r == 0) {
        int c = peek(s);
        if (c < 0 || c == 0 || (c == '\n' && !long_text))
            return wrong(s, "unterminated string");
        if (long_text ? begins(s, three) : c == quote)
            break;
        s->at++;
        s->line += c == '\n';
        r = c == '\\' && quote == '"' ? take_escape(s, long_text, out, size, &n)
                                      : put(s, out, size, &n, (char)c);
    }
    if (r < 0)
        return r;
    s->at += long_text ? 3 : 1;
    /* Two more quotes may belong to the text. */
    for (; long_text && peek(s) == quote && r == 0; s->at++)
        r = put(s, out, size, &n, quote);
    out[n] = 0;
    return r;
}

static bool is_bare(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* A name with points, appended to what is in `name` already. */
static int take_name(struct scan *s, char *name)
{
    size_t n = strlen(name);
    for (;;) {
        int r = 0;
        skip_blanks(s);
        if (peek(s) == '"' || peek(s) == '\'') {
            r = take_quoted(s, name + n, TOML_NAME_MAX - n);
            n += r == 0 ? strlen(name + n) : 0;
        } else if (!is_bare(peek(s))) {
            r = wrong(s, "expected a name");
        }
        for (; r == 0 && is_bare(peek(s)); s->at++)
            r = put(s, name, TOML_NAME_MAX, &n, *s->at);
        skip_blanks(s);
        if (r < 0 || peek(s) != '.')
            return name[n] = 0, r;
        s->at++;
        r = put(s, name, TOML_NAME_MAX, &n, '.');
        if (r < 0)
            return r;
    }
}

/* A number, yes or no, or a date: as it stands. */
static int take_plain(struct scan *s)
{
    size_t n = 0;
    int r = 0;
    for (; r == 0 && (is_bare(peek(s)) || peek(s) == '+' || peek(s) == '.' || peek(s) == ':');
         s->at++)
        r = put(s, s->value, sizeof s->value, &n, *s->at);
    s->value[n] = 0;
    return r < 0 ? r : n == 0 ? wrong(s, "expected a value") : 0;
}

static int take_nested(struct scan *s, const char *name, unsigned depth);

/* A value, told under its name; NULL: it lies in a list, and is not. */
static int take_value(struct scan *s, const char *name, unsigned depth)
{
    if (peek(s) == '[' || peek(s) == '{')
        return take_nested(s, name, depth + 1);
    int r = peek(s) == '"' || peek(s) == '\'' ? take_quoted(s, s->value, sizeof s->value)
                                              : take_plain(s);
    if (r == 0 && name)
        s->sink->value(s->sink->data, name, s->value);
    return r;
}

/* The name within an inline table, behind that of the table, and its sign. */
static int take_inner_name(struct scan *s, const char *table, char name[TOML_NAME_MAX])
{
    int n = snprintf(name, TOML_NAME_MAX, "%s%s", table ? table : "", table ? "." : "");
    if (n < 0 || n >= TOML_NAME_MAX)
        return wrong(s, "a name is too long");
    int r = take_name(s, name);
    if (r == 0 && peek(s) != '=')
        r = wrong(s, "expected '='");
    s->at += r == 0;
    skip_blanks(s);
    return r;
}

/* A list, which is passed over, or an inline table. */
static int take_nested(struct scan *s, const char *name, unsigned depth)
{
    bool list = *s->at == '[';
    char close = list ? ']' : '}', inner[TOML_NAME_MAX];
    if (depth > TOML_DEPTH_MAX)
        return wrong(s, "lists are nested too deeply");
    s->at++;
    for (;;) {
        skip_space(s);
        if (peek(s) == close) {
            s->at++;
            return 0;
        }
        int r = list ? 0 : take_inner_name(s, name, inner);
        if (r == 0)
            r = take_value(s, list || !name ? NULL : inner, depth);
        if (r < 0)
            return r;
        skip_space(s);
        if (peek(s) == ',')
            s->at++;
        else if (peek(s) != close)
            return wrong(s, "unterminated list or table");
    }
}

/* `[name]` or `[[name]]`. */
static int take_table(struct scan *s)
{
    bool list = begins(s, "[[");
    s->at += list ? 2 : 1;
    s->table[0] = 0;
    int r = take_name(s, s->table);
    if (r == 0 && !begins(s, list ? "]]" : "]"))
        r = wrong(s, "unterminated table name");
    if (r == 0 && strlen(s->table) + 4 > sizeof s->table)
        r = wrong(s, "a table's name is too long");
    if (r < 0)
        return r;
    s->at += list ? 2 : 1;
    size_t n = strlen(s->table);
    snprintf(s->table + n, sizeof s->table - n, "%s", list ? "[]" : "");
    if (s->sink->table)
        s->sink->table(s->sink->data, s->table);
    n = strlen(s->table);
    snprintf(s->table + n, sizeof s->table - n, ".");
    return 0;
}

static int take_pair(struct scan *s)
{
    char name[TOML_NAME_MAX];
    snprintf(name, sizeof name, "%s", s->table);
    int r = take_name(s, name);
    if (r == 0 && peek(s) != '=')
        r = wrong(s, "expected '='");
    if (r < 0)
        return r;
    s->at++;
    skip_blanks(s);
    return take_value(s, name, 0);
}

int toml_scan(const char *text, size_t n, const struct toml_sink *sink, struct error *err)
{
    struct scan s = {.at = text, .end = text + n, .line = 1, .sink = sink, .err = err};
    if (!utf8_valid((const uint8_t *)text, n))
        return error_set(err, EINVAL, "is not UTF-8");
    for (;;) {
        skip_space(&s);
        if (s.at == s.end)
            return 0;
        int r = peek(&s) == '[' ? take_table(&s) : take_pair(&s);
        if (r < 0)
            return r;
        skip_blanks(&s);
        if (peek(&s) == '\r')
            s.at++;
        if (peek(&s) >= 0 && peek(&s) != '\n' && peek(&s) != '#')
            return wrong(&s, "unexpected text after the value");
    }
}
