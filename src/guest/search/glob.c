#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "glob.h"
#include "banned.h"

/* A part of a pattern that is being read. */
struct glob_cursor {
    const char *at, *end;
};

/* [:name:] at p, if there is one: whether c is of it in *has. 1, 0 if it is none, -EINVAL if it is
 * unknown. */
static int glob_class(struct glob_cursor *p, uint8_t c, bool *has)
{
    static const struct {
        const char *name;
        int (*has)(int c);
    } CLASSES[] = {
        {"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
        {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
        {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit},
    };
    if (p->end - p->at < 2 || p->at[0] != '[' || p->at[1] != ':')
        return 0;
    const char *name = p->at + 2, *close = name;
    while (close < p->end && *close != ']')
        close++;
    if (close == p->end)
        return -EINVAL;
    if (close == name || close[-1] != ':')
        return 0; /* then it is a bracket like any other character */
    size_t n = (size_t)(close - 1 - name);
    for (size_t i = 0; i < ARRAY_SIZE(CLASSES); i++)
        if (strlen(CLASSES[i].name) == n && memcmp(CLASSES[i].name, name, n) == 0) {
            *has |= c < 0x80 && CLASSES[i].has(c);
            p->at = close + 1;
            return 1;
        }
    return -EINVAL;
}

/* One character of a set, perhaps behind a backslash. */
static int glob_set_character(struct glob_cursor *p)
{
    if (p->at < p->end && *p->at == '\\')
        p->at++;
    return p->at < p->end ? (uint8_t)*p->at++ : -EINVAL;
}

/* The set behind a `[`: 1 if c is in it, 0 if not, -EINVAL if it does not end. Moves p behind
 * it. */
static int glob_set(struct glob_cursor *p, uint8_t c)
{
    bool negated = p->at < p->end && (*p->at == '!' || *p->at == '^'), has = false;
    p->at += negated;
    for (bool first = true; p->at < p->end && (first || *p->at != ']'); first = false) {
        int r = glob_class(p, c, &has);
        if (r < 0)
            return r;
        if (r > 0)
            continue;
        int low = glob_set_character(p), high = low;
        if (p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            high = glob_set_character(p);
        }
        if (low < 0 || high < 0)
            return -EINVAL;
        has |= c == low || (c >= low && c <= high);
    }
    if (p->at == p->end)
        return -EINVAL;
    p->at++;
    return c != '/' && has != negated;
}

/* One element of the pattern that is no star, against one character. 1, 0, or -EINVAL: it can match
 * nothing. */
static int glob_one(struct glob_cursor *p, char c)
{
    char element = *p->at++;
    switch (element) {
    case '?':
        return c != '/';
    case '[':
        return glob_set(p, (uint8_t)c);
    case '\\':
        if (p->at == p->end)
            return -EINVAL;
        return *p->at++ == c;
    default:
        return element == c;
    }
}

/*
 * Only the last star and the last ** need to be tried anew, with one more character or component:
 * what precedes them has matched as early as it can, and from there a later star reaches every
 * place that it could reach from a later one.
 */
bool glob_match(const char *pattern, size_t n_pattern, const char *text, size_t n_text)
{
    struct glob_cursor p = {pattern, pattern + n_pattern};
    const char *t = text, *end = text + n_text;
    const char *star = NULL, *star_text = NULL; /* behind the last star; where it began to match */
    const char *deep = NULL, *deep_text = NULL; /* behind the last ** and its slash; the same */
    for (;;) {
        int matched = 0;
        if (p.at < p.end && *p.at == '*') {
            bool starts = p.at == pattern || p.at[-1] == '/';
            const char *stars = p.at;
            while (p.at < p.end && *p.at == '*')
                p.at++;
            bool escaped = p.end - p.at >= 2 && p.at[0] == '\\' && p.at[1] == '/';
            bool ends = p.at == p.end || *p.at == '/' || escaped;
            if (p.at - stars < 2 || !starts || !ends) {
                star = p.at;
                star_text = t;
                continue;
            }
            if (p.at == p.end)
                return true;
            p.at += escaped ? 2 : 1;
            star = NULL;
            deep = p.at;
            deep_text = t;
            if (!escaped) /* before an escaped slash git wants at least one component */
                continue;
        } else {
            if (p.at == p.end && t == end)
                return true;
            matched = p.at < p.end && t < end ? glob_one(&p, *t) : 0;
        }
        if (matched < 0)
            return false;
        if (matched > 0) {
            t++;
            continue;
        }
        if (star && star_text < end && *star_text != '/') {
            t = ++star_text;
            p.at = star;
            continue;
        }
        star = NULL;
        const char *slash = deep ? memchr(deep_text, '/', (size_t)(end - deep_text)) : NULL;
        if (!slash)
            return false;
        t = deep_text = slash + 1;
        p.at = deep;
    }
}

bool glob_is_plain(const char *pattern, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strchr("*?[\\", pattern[i]))
            return false;
    return true;
}

#define EXPANDED_MAX 4096

struct brace_expansion {
    int (*each)(void *data, const char *pattern, size_t n);
    void *data;
    unsigned count;
};

/* The length of what cannot hold a brace with a meaning: an escaped character, a set, or any other
 * one. */
static size_t brace_element(const char *s, size_t n)
{
    if (s[0] == '\\' && n > 1)
        return 2;
    if (s[0] != '[')
        return 1;
    size_t i = 1;
    if (i < n && (s[i] == '!' || s[i] == '^'))
        i++;
    if (i < n && s[i] == ']')
        i++;
    for (; i < n; i += s[i] == '\\' ? 2 : 1)
        if (s[i] == ']')
            return i + 1;
    return 1;
}

/* The comma or brace that ends the alternative which begins at i; n if there is none. */
static size_t brace_alternative_end(const char *s, size_t n, size_t i)
{
    size_t depth = 0;
    for (; i < n; i += brace_element(s + i, n - i)) {
        if (depth == 0 && (s[i] == ',' || s[i] == '}'))
            return i;
        depth += s[i] == '{';
        depth -= s[i] == '}';
    }
    return n;
}

static int brace_expand(struct brace_expansion *e, const char *pattern, size_t n)
{
    if (n > EXPANDED_MAX)
        return -E2BIG;
    for (size_t open = 0; open < n; open += brace_element(pattern + open, n - open)) {
        if (pattern[open] != '{')
            continue;
        size_t close = brace_alternative_end(pattern, n, open + 1);
        bool comma = close < n && pattern[close] == ',';
        while (close < n && pattern[close] == ',')
            close = brace_alternative_end(pattern, n, close + 1);
        if (close == n || !comma)
            continue;
        for (size_t at = open + 1, end; at <= close; at = end + 1) {
            _cleanup_buf_ struct buf one = BUF_INIT(EXPANDED_MAX);
            end = brace_alternative_end(pattern, n, at);
            buf_append(&one, pattern, open);
            buf_append(&one, pattern + at, end - at);
            if (buf_append(&one, pattern + close + 1, n - close - 1) < 0)
                return -ENOMEM;
            int r = brace_expand(e, (const char *)one.data, one.len);
            if (r < 0)
                return r;
        }
        return 0;
    }
    return ++e->count > GLOB_ALTERNATIVES_MAX ? -E2BIG : e->each(e->data, pattern, n);
}

int glob_expand(const char *pattern, size_t n,
                int (*each)(void *data, const char *pattern, size_t n), void *data)
{
    struct brace_expansion e = {.each = each, .data = data};
    return brace_expand(&e, pattern, n);
}
