#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "glob.h"
#include "banned.h"

struct span {
    const char *at, *end;
};

static const struct {
    const char *name;
    int (*has)(int c);
} classes[] = {
    {"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
    {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
    {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit},
};

/* [:name:] at p, if there is one: whether c is of it in *has. 1, 0 if it is none, -EINVAL if it is
 * unknown.
 */
static int posix_class(struct span *p, uint8_t c, bool *has)
{
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
    for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
        if (strlen(classes[i].name) == n && memcmp(classes[i].name, name, n) == 0) {
            *has |= c < 0x80 && classes[i].has(c);
            p->at = close + 1;
            return 1;
        }
    return -EINVAL;
}

/* One character of a set, perhaps behind a backslash. */
static int set_character(struct span *p)
{
    if (p->at < p->end && *p->at == '\\')
        p->at++;
    return p->at < p->end ? (uint8_t)*p->at++ : -EINVAL;
}

/* One member of a set: a class, a character or a range. */
static int set_member(struct span *p, uint8_t c, bool *has)
{
    int r = posix_class(p, c, has);
    if (r != 0)
        return r;
    int low = set_character(p), high = low;
    if (p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
        p->at++;
        high = set_character(p);
    }
    if (low < 0 || high < 0)
        return -EINVAL;
    *has |= c == low || (c >= low && c <= high);
    return 1;
}

/* The set behind a `[`: 1 if c is in it, 0 if not, -EINVAL if it does not end. Moves p behind it.
 */
static int set_match(struct span *p, uint8_t c)
{
    bool negated = p->at < p->end && (*p->at == '!' || *p->at == '^'), has = false;
    p->at += negated;
    bool first = true;
    while (p->at < p->end && (first || *p->at != ']')) {
        int r = set_member(p, c, &has);
        if (r < 0)
            return r;
        first = false;
    }
    if (p->at == p->end)
        return -EINVAL;
    p->at++;
    return c != '/' && has != negated;
}

/* One element of the pattern that is no star, against one character. 1, 0, or -EINVAL: it can match
 * nothing.
 */
static int one_match(struct span *p, char c)
{
    char element = *p->at++;
    switch (element) {
    case '?':
        return c != '/';
    case '[':
        return set_match(p, (uint8_t)c);
    case '\\':
        if (p->at == p->end)
            return -EINVAL;
        return *p->at++ == c;
    default:
        return element == c;
    }
}

/* Stars at p: how many, and whether they are a component `**`. */
static size_t stars(const struct span *p, const char *begin, bool *ret_component)
{
    size_t n = 0;
    while (p->at + n < p->end && p->at[n] == '*')
        n++;
    bool starts = p->at == begin || p->at[-1] == '/', ends = p->at + n == p->end || p->at[n] == '/';
    /* A slash that a backslash stands before is a slash all the same. */
    ends = ends || (p->end - (p->at + n) >= 2 && p->at[n] == '\\' && p->at[n + 1] == '/');
    *ret_component = n > 1 && starts && ends;
    return n;
}

/* Where to go on when a later part of the pattern fails: the star takes one more character, or
 * component. */
struct retry {
    struct span pattern; /* behind the star */
    const char *text;    /* NULL: none */
};

static bool retry_star(struct retry *star, struct span *p, struct span *t)
{
    if (!star->text || star->text == t->end || *star->text == '/')
        return false;
    t->at = ++star->text;
    *p = star->pattern;
    return true;
}

static bool retry_components(struct retry *deep, struct span *p, struct span *t)
{
    if (!deep->text)
        return false;
    const char *slash = memchr(deep->text, '/', (size_t)(t->end - deep->text));
    if (!slash)
        return false;
    t->at = deep->text = slash + 1;
    *p = deep->pattern;
    return true;
}

/* A place in the pattern and one in the text, and where to go on should they not lead to the end.
 */
struct match {
    struct span p, t;
    struct retry star, deep;
};

static bool retry(struct match *m)
{
    if (retry_star(&m->star, &m->p, &m->t))
        return true;
    m->star.text = NULL;
    return retry_components(&m->deep, &m->p, &m->t);
}

/* Takes the stars at p. 1: go on; 0: the text does not match; 2: it does. */
static int take_stars(struct match *m, const char *begin)
{
    bool component;
    m->p.at += stars(&m->p, begin, &component);
    if (!component) {
        m->star = (struct retry){m->p, m->t.at};
        return 1;
    }
    if (m->p.at == m->p.end)
        return 2;
    bool escaped = *m->p.at == '\\'; /* before such a slash git wants at least one component */
    m->p.at += escaped ? 2 : 1;
    m->star.text = NULL;
    m->deep = (struct retry){m->p, m->t.at};
    return !escaped || retry(m);
}

/* Takes one other element. Returns as take_stars. */
static int take_one(struct match *m)
{
    bool p_ends = m->p.at == m->p.end, t_ends = m->t.at == m->t.end;
    if (p_ends && t_ends)
        return 2;
    int r = p_ends || t_ends ? 0 : one_match(&m->p, *m->t.at++);
    if (r < 0)
        return 0;
    return r > 0 || retry(m);
}

/*
 * Only the last star and the last ** need to be tried anew: whatever stood before them has matched
 * as early as it can, and from there a later star reaches every place that it could reach from a
 * later one.
 */
bool glob_match(const char *pattern, size_t n_pattern, const char *text, size_t n_text)
{
    struct match m = {.p = {pattern, pattern + n_pattern}, .t = {text, text + n_text}};
    int r;
    do
        r = m.p.at < m.p.end && *m.p.at == '*' ? take_stars(&m, pattern) : take_one(&m);
    while (r == 1);
    return r == 2;
}

bool glob_is_plain(const char *pattern, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strchr("*?[\\", pattern[i]))
            return false;
    return true;
}

/* Braces: {a,b} stands for several patterns, which are made one after the other. */

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

/* The closing brace of the one at s[0], and whether there is a comma between; n if it is not
 * closed. */
static size_t brace_closing(const char *s, size_t n, bool *ret_comma)
{
    size_t depth = 0;
    *ret_comma = false;
    for (size_t i = 0; i < n; i += brace_element(s + i, n - i)) {
        depth += s[i] == '{';
        *ret_comma |= s[i] == ',' && depth == 1;
        if (s[i] == '}' && --depth == 0)
            return i;
    }
    return n;
}

/* The first pair of braces that stands for alternatives. */
static bool brace_find_pair(const char *s, size_t n, size_t *ret_open, size_t *ret_close)
{
    for (size_t i = 0; i < n; i += brace_element(s + i, n - i)) {
        bool comma;
        if (s[i] != '{')
            continue;
        size_t close = brace_closing(s + i, n - i, &comma);
        if (close == n - i || !comma)
            continue;
        *ret_open = i;
        *ret_close = i + close;
        return true;
    }
    return false;
}

/* The end of the alternative that begins at s: a comma or the last brace. */
static size_t brace_alternative(const char *s, size_t n)
{
    size_t depth = 0, i = 0;
    for (; i < n; i += brace_element(s + i, n - i)) {
        if (s[i] == ',' && depth == 0)
            return i;
        depth += s[i] == '{';
        depth -= s[i] == '}' && depth > 0;
    }
    return n;
}

static int brace_expand(struct brace_expansion *e, const char *pattern, size_t n)
{
    size_t open, close;
    if (n > EXPANDED_MAX)
        return -E2BIG;
    if (!brace_find_pair(pattern, n, &open, &close))
        return ++e->count > GLOB_ALTERNATIVES_MAX ? -E2BIG : e->each(e->data, pattern, n);
    for (size_t at = open + 1; at <= close;) {
        _cleanup_buf_ struct buf one = BUF_INIT(EXPANDED_MAX);
        size_t size = brace_alternative(pattern + at, close - at);
        buf_append(&one, pattern, open);
        buf_append(&one, pattern + at, size);
        if (buf_append(&one, pattern + close + 1, n - close - 1) < 0)
            return -ENOMEM;
        int r = brace_expand(e, (const char *)one.data, one.len);
        if (r < 0)
            return r;
        at += size + 1;
    }
    return 0;
}

int glob_expand(const char *pattern, size_t n,
                int (*each)(void *data, const char *pattern, size_t n), void *data)
{
    struct brace_expansion e = {.each = each, .data = data};
    return brace_expand(&e, pattern, n);
}
