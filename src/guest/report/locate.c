/*
 * Places in source files, as failures name them. Looked for are, in this order of the text,
 *
 *     PATH:LINE            src/a.py:12: AssertionError, panicked at src/lib.rs:7:38,
 * (/x/a.test.js:3:50) "PATH", line LINE    Python's tracebacks PATH line LINE       Perl: at t/a.t
 * line 5.
 *
 * where PATH has a dot and letters behind it, as source files do. Those of the runner itself are
 * passed over.
 */
#include <ctype.h>
#include <string.h>

#include "report.h"
#include "banned.h"

#define LINE_MAX_DIGITS 7

static const char *const FOREIGN[] = {"node_modules/", "site-packages/", "dist-packages/",
                                      "/rustc/",       "/usr/lib/",      "/usr/share/"};

static bool is_path_byte(char c)
{
    return isalnum((unsigned char)c) || strchr("._-/+@$%~[]\\", c) || (unsigned char)c >= 0x80;
}

/* An extension: the last dot is followed by one to five letters or digits, the first of them a
 * letter. */
static bool has_extension(const char *path, size_t n)
{
    size_t dot = n;
    while (dot > 0 && path[dot - 1] != '.' && path[dot - 1] != '/')
        dot--;
    return dot > 1 && path[dot - 1] == '.' && n > dot && n - dot <= 5 &&
           isalpha((unsigned char)path[dot]) && path[dot - 2] != '/';
}

static bool is_foreign(const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(FOREIGN); i++)
        if (strstr(path, FOREIGN[i]))
            return true;
    return false;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool read_number(const char *s, uint64_t *ret)
{
    uint64_t n = 0;
    size_t digits = 0;
    for (; isdigit((unsigned char)s[digits]); digits++) {
        if (digits == LINE_MAX_DIGITS)
            return false;
        n = n * 10 + (uint64_t)(s[digits] - '0');
    }
    *ret = n;
    return n > 0;
}

/* The number of the line, if what follows a path says one. */
static bool line_behind(const char *s, uint64_t *ret)
{
    if (*s == ':')
        return read_number(s + 1, ret);
    if (strncmp(s, "\", line ", 8) == 0)
        return read_number(s + 8, ret);
    return strncmp(s, " line ", 6) == 0 && read_number(s + 6, ret);
}

static bool accept(const char *s, size_t n, const char *like, char path[REPORT_PATH_MAX + 1])
{
    if (n == 0 || n > REPORT_PATH_MAX || !has_extension(s, n))
        return false;
    memcpy(path, s, n);
    path[n] = 0;
    return like ? strcmp(last_part(path), last_part(like)) == 0 : !is_foreign(path);
}

bool report_locate(const char *text, const char *like, char path[REPORT_PATH_MAX + 1],
                   uint64_t *ret_line)
{
    const char *begin = text;
    while (*text) {
        bool of_node = text - begin >= 5 && strncmp(text - 5, "node:", 5) == 0;
        size_t n = 0;
        while (is_path_byte(text[n]) && text[n])
            n++;
        if (n > 1 && !of_node && line_behind(text + n, ret_line) && accept(text, n, like, path))
            return true;
        text += n ? n : 1;
    }
    return false;
}
