/* Names of files as diffs write them. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "diff_text.h"
#include "relpath.h"
#include "banned.h"

/* The byte that an escape stands for, moving *s behind it; -EINVAL if it is none of C's. */
static int unescape(struct slice *s)
{
    static const char NAMED[] = "a\ab\bt\tn\nv\vf\fr\r\"\"\\\\";
    if (s->size == 0)
        return -EINVAL;
    char c = s->at[0];
    for (const char *p = NAMED; *p; p += 2)
        if (*p == c) {
            *s = slice_behind(*s, 1);
            return (unsigned char)p[1];
        }
    int value = 0;
    for (size_t i = 0; i < 3; i++) {
        if (i >= s->size || s->at[i] < '0' || s->at[i] > '7')
            return -EINVAL;
        value = value * 8 + (s->at[i] - '0');
    }
    *s = slice_behind(*s, 3);
    return value > 0 && value < 256 ? value : -EINVAL;
}

/* The name between quotes at the start of *s, which is moved behind it. */
static int unquote(struct slice *s, char **ret)
{
    _cleanup_buf_ struct buf b = BUF_INIT(RELPATH_MAX);
    for (*s = slice_behind(*s, 1); s->size && s->at[0] != '"';) {
        int c = (unsigned char)s->at[0];
        *s = slice_behind(*s, 1);
        if (c == '\\')
            c = unescape(s);
        if (c <= 0)
            return -EINVAL;
        buf_append(&b, &(char){(char)c}, 1);
    }
    if (s->size == 0 || b.len == 0 || b.failed)
        return -EINVAL;
    *s = slice_behind(*s, 1);
    char *name = strndup((const char *)b.data, b.len);
    if (!name)
        return -ENOMEM;
    *ret = name;
    return 0;
}

static int copy_name(struct slice s, char **ret)
{
    if (s.size == 0 || s.size > RELPATH_MAX || memchr(s.at, 0, s.size))
        return -EINVAL;
    char *name = strndup(s.at, s.size);
    if (!name)
        return -ENOMEM;
    *ret = name;
    return 0;
}

/* "2024-05-01 10:2…" */
static bool is_date(struct slice s)
{
    static const char FORM[] = "dddd-dd-dd dd:dd";
    if (s.size < sizeof FORM - 1)
        return false;
    for (size_t i = 0; i < sizeof FORM - 1; i++)
        if (FORM[i] == 'd' ? !isdigit((unsigned char)s.at[i]) : s.at[i] != FORM[i])
            return false;
    return true;
}

/* Where the name ends that is not between quotes: at a tab, or at the blanks in front of a date. */
static size_t name_length(struct slice s)
{
    const char *tab = memchr(s.at, '\t', s.size);
    if (tab)
        return (size_t)(tab - s.at);
    for (size_t i = 1; i < s.size; i++)
        if (s.at[i - 1] == ' ' && is_date(slice_behind(s, i))) {
            s.size = i - 1;
            break;
        }
    while (s.size && s.at[s.size - 1] == ' ')
        s.size--;
    return s.size;
}

int name_parse(struct slice s, char **ret)
{
    if (s.size && s.at[0] == '"')
        return unquote(&s, ret);
    s.size = name_length(s);
    return copy_name(s, ret);
}

bool name_is_nothing(struct slice s)
{
    size_t n = name_length(s);
    struct slice date = slice_trim(slice_behind(s, n));
    if (is_date(date) && (slice_begins(date, "1970-01-01 ") || slice_begins(date, "1969-12-31 ")))
        return true;
    s.size = n;
    return slice_is(s, "/dev/null");
}

static bool same_slice(struct slice a, struct slice b)
{
    return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

/* Splits at the blank between two names without quotes that are the same, or the same behind their
 * first components. */
static int split_plain(struct slice s, struct slice *ret_a, struct slice *ret_b)
{
    size_t seen = 0;
    for (size_t i = 1; i + 1 < s.size && seen < 1000; i++) {
        if (s.at[i] != ' ')
            continue;
        seen++;
        struct slice a = {s.at, i}, b = slice_behind(s, i + 1);
        const char *x = memchr(a.at, '/', a.size), *y = memchr(b.at, '/', b.size);
        if (same_slice(a, b) || (x && y &&
                                 same_slice(slice_behind(a, (size_t)(x - a.at)),
                                            slice_behind(b, (size_t)(y - b.at))))) {
            *ret_a = a;
            *ret_b = b;
            return 0;
        }
    }
    return -ENOENT;
}

int name_split_git(struct slice s, char **ret_old, char **ret_new)
{
    _cleanup_free_ char *old = NULL;
    struct slice a = s, b = s;
    int r = 0;
    const char *quote = s.size > 1 ? memmem(s.at + 1, s.size - 1, " \"", 2) : NULL;
    if (s.size && s.at[0] == '"') {
        r = unquote(&b, &old);
        if (r >= 0 && (b.size < 2 || b.at[0] != ' '))
            r = -EINVAL;
        b = slice_behind(b, 1);
    } else if (quote) {
        a.size = (size_t)(quote - s.at);
        b = slice_behind(s, a.size + 1);
        r = copy_name(a, &old);
    } else {
        r = split_plain(s, &a, &b);
        if (r >= 0)
            r = copy_name(a, &old);
    }
    if (r >= 0)
        r = b.size && b.at[0] == '"' ? unquote(&b, ret_new) : copy_name(b, ret_new);
    if (r < 0)
        return r;
    *ret_old = TAKE_PTR(old);
    return 0;
}
