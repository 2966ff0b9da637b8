/*
 * What the parsers of diffs share: slices of the text, a cursor that walks over its lines, names of
 * files, and the bodies of hunks.
 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "diff.h"

struct cursor {
    const char *at, *end;
    size_t line; /* number of the line at `at`, from 1 */
};

static inline bool cursor_done(const struct cursor *c)
{
    return c->at >= c->end;
}

/* The line at the cursor with its newline. */
static inline struct slice cursor_whole(const struct cursor *c)
{
    const char *newline = cursor_done(c) ? NULL : memchr(c->at, '\n', (size_t)(c->end - c->at));
    return (struct slice){c->at, (size_t)((newline ? newline + 1 : c->end) - c->at)};
}

/* The line at the cursor without CR and newline. */
static inline struct slice cursor_line(const struct cursor *c)
{
    struct slice s = cursor_whole(c);
    if (s.size && s.at[s.size - 1] == '\n')
        s.size--;
    if (s.size && s.at[s.size - 1] == '\r')
        s.size--;
    return s;
}

static inline void cursor_next(struct cursor *c)
{
    c->at += cursor_whole(c).size;
    c->line++;
}

static inline struct slice cursor_line_after(const struct cursor *c)
{
    struct cursor next = *c;
    cursor_next(&next);
    return cursor_line(&next);
}

static inline bool slice_begins(struct slice s, const char *text)
{
    size_t n = strlen(text);
    return s.size >= n && memcmp(s.at, text, n) == 0;
}

static inline bool slice_is(struct slice s, const char *text)
{
    return s.size == strlen(text) && memcmp(s.at, text, s.size) == 0;
}

static inline struct slice slice_behind(struct slice s, size_t n)
{
    n = n < s.size ? n : s.size;
    return (struct slice){s.at + n, s.size - n};
}

/* Without blanks and tabs at both ends. */
static inline struct slice slice_trim(struct slice s)
{
    while (s.size && (s.at[0] == ' ' || s.at[0] == '\t'))
        s = slice_behind(s, 1);
    while (s.size && (s.at[s.size - 1] == ' ' || s.at[s.size - 1] == '\t'))
        s.size--;
    return s;
}

/*
 * The name behind `--- `, `+++ `, `rename from ` and the like, as a new string: in C's quotes, or
 * up to a tab or a date. -EINVAL if it is empty, holds a NUL or its quotes are broken; -ENOMEM.
 */
int name_parse(struct slice s, char **ret);

/* /dev/null, or a date of 1970 behind the name, which diff writes for a file that does not exist.
 */
bool name_is_nothing(struct slice s);

/*
 * Both names behind `diff --git `. Unquoted names with blanks can only be separated if they are
 * the same but for their first components. -ENOENT if they are not, as those of a rename may be.
 */
int name_split_git(struct slice s, char **ret_old, char **ret_new);

/* Reads the hunks of the file that was added last, as long as there are any. */
int hunks_parse(struct diff *d, struct cursor *c, struct error *err);

/* Reads the body of a hunk without counts, as far as its lines look like one. */
int hunk_parse_body(struct diff *d, struct cursor *c, struct error *err);

/* Do a --- and a +++ line begin here? */
bool cursor_at_names(const struct cursor *c);
