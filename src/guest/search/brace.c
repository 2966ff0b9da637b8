/* Braces in globs: {a,b} stands for several patterns, which are made one after the other. */
#include <errno.h>
#include <string.h>

#include "glob.h"
#include "banned.h"

#define PATTERN_MAX 4096

struct expansion {
    int (*each)(void *data, const char *pattern, size_t n);
    void *data;
    unsigned count;
};

/* The length of what cannot hold a brace with a meaning: an escaped character, a set, or any other
 * one. */
static size_t element(const char *s, size_t n)
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
static size_t closing(const char *s, size_t n, bool *ret_comma)
{
    size_t depth = 0;
    *ret_comma = false;
    for (size_t i = 0; i < n; i += element(s + i, n - i)) {
        depth += s[i] == '{';
        *ret_comma |= s[i] == ',' && depth == 1;
        if (s[i] == '}' && --depth == 0)
            return i;
    }
    return n;
}

/* The first pair of braces that stands for alternatives. */
static bool find_pair(const char *s, size_t n, size_t *ret_open, size_t *ret_close)
{
    for (size_t i = 0; i < n; i += element(s + i, n - i)) {
        bool comma;
        if (s[i] != '{')
            continue;
        size_t close = closing(s + i, n - i, &comma);
        if (close == n - i || !comma)
            continue;
        *ret_open = i;
        *ret_close = i + close;
        return true;
    }
    return false;
}

/* The end of the alternative that begins at s: a comma or the last brace. */
static size_t alternative(const char *s, size_t n)
{
    size_t depth = 0, i = 0;
    for (; i < n; i += element(s + i, n - i)) {
        if (s[i] == ',' && depth == 0)
            return i;
        depth += s[i] == '{';
        depth -= s[i] == '}' && depth > 0;
    }
    return n;
}

static int expand(struct expansion *e, const char *pattern, size_t n)
{
    size_t open, close;
    if (n > PATTERN_MAX)
        return -E2BIG;
    if (!find_pair(pattern, n, &open, &close))
        return ++e->count > GLOB_ALTERNATIVES_MAX ? -E2BIG : e->each(e->data, pattern, n);
    for (size_t at = open + 1; at <= close;) {
        _cleanup_buf_ struct buf one = BUF_INIT(PATTERN_MAX);
        size_t size = alternative(pattern + at, close - at);
        buf_append(&one, pattern, open);
        buf_append(&one, pattern + at, size);
        if (buf_append(&one, pattern + close + 1, n - close - 1) < 0)
            return -ENOMEM;
        int r = expand(e, (const char *)one.data, one.len);
        if (r < 0)
            return r;
        at += size + 1;
    }
    return 0;
}

int glob_expand(const char *pattern, size_t n,
                int (*each)(void *data, const char *pattern, size_t n), void *data)
{
    struct expansion e = {.each = each, .data = data};
    return expand(&e, pattern, n);
}
