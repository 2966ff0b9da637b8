/*
 * A diff as data: a list of files, each with hunks or a binary patch.
 *
 * Names keep their prefixes and hunks the line numbers of their headers; patch.h decides what they
 * mean in a tree. The counts of a hunk are those of its body, whatever its header says.
 *
 * Lines and slices point into `text`, which belongs to the diff. A line includes its newline,
 * unless "\ No newline at end of file" follows it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "error.h"

#define DIFF_SIZE_MAX   (16u << 20)
#define DIFF_FILES_MAX  10000u
#define DIFF_LINES_MAX  (2u << 20) /* of all hunks together */
#define DIFF_HUNKS_MAX  (256u << 10)
#define DIFF_BINARY_MAX (64u << 20) /* bytes of a decoded binary patch */

struct slice {
    const char *at;
    size_t size;
};

struct diff_line {
    const uint8_t *text;
    uint32_t size;
    char kind; /* ' ', '-' or '+' */
};

struct diff_hunk {
    struct slice header; /* the @@ line, without its end */
    struct slice anchor; /* without numbers: the line of the file that precedes it, or empty */
    uint32_t old_line, new_line; /* as the header has them, counted from 1 */
    uint32_t old_count, new_count;
    size_t first, count; /* in diff.lines */
    bool numbered;       /* the header has line numbers */
    bool recounted;      /* the header's counts were not those of the body */
    bool at_end;         /* "*** End of File": it belongs to the end of the file */
};

enum diff_binary_form { DIFF_BINARY_NONE, DIFF_BINARY_LITERAL, DIFF_BINARY_DELTA };

/* One direction of a binary patch, still encoded. */
struct diff_binary {
    enum diff_binary_form form;
    uint64_t size;     /* of what it inflates to */
    struct slice text; /* the lines of base 85 */
};

enum diff_kind { DIFF_MODIFY, DIFF_ADD, DIFF_DELETE, DIFF_RENAME, DIFF_COPY };

struct diff_file {
    enum diff_kind kind;
    bool git;          /* it begins with a `diff --git` line */
    bool codex;        /* in the format of *** Begin Patch: its names have no prefix */
    bool only_differs; /* "Binary files … differ": there is nothing to apply */
    bool binary;
    size_t line;                 /* of its first line in the diff, from 1 */
    struct slice git_names;      /* behind `diff --git ` */
    char *old_name, *new_name;   /* of the --- and +++ lines; NULL for none and for /dev/null */
    char *from, *to;             /* of a rename or copy */
    mode_t old_mode, new_mode;   /* 0 if not given */
    char old_id[65], new_id[65]; /* of the index line */
    struct diff_binary forward, back;
    size_t first_hunk, hunks; /* in diff.hunks */
};

struct diff {
    char *text;
    size_t size;
    struct diff_line *lines;
    struct diff_hunk *hunks;
    struct diff_file *files;
    size_t n_lines, n_hunks, n_files;
    size_t lines_room, hunks_room, files_room;
    bool crlf; /* the lines of its headers end in CR LF */
};

/* With strip_cr, removes carriage returns at the ends of lines first. -EINVAL with the number of
 * the line that is wrong; -E2BIG over a limit. */
int diff_parse(const void *text, size_t size, bool strip_cr, struct diff *ret, struct error *err);
void diff_free(struct diff *d);
#define _cleanup_diff_ _cleanup_(diff_free)

/* Turns it around: what it added it removes. -EINVAL if that cannot be done. */
int diff_reverse(struct diff *d, struct error *err);

/* One direction of a binary patch, decoded and inflated. -EBADMSG if it is broken, -EFBIG if it is
 * too large. */
int diff_binary_decode(const struct diff_binary *b, uint8_t **ret, size_t *ret_size);

/* Applies a delta to `base`. -EBADMSG if it is broken or made for a content of another size. */
int diff_binary_apply_delta(const uint8_t *base, size_t base_size, const uint8_t *delta,
                            size_t delta_bytes, uint8_t **ret, size_t *ret_size);

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

static inline bool slice_begins(struct slice s, const char *text)
{
    size_t n = strlen(text);
    return s.size >= n && memcmp(s.at, text, n) == 0;
}

static inline bool slice_is(struct slice s, const char *text)
{
    return s.size == strlen(text) && memcmp(s.at, text, s.size) == 0;
}

static inline struct slice slice_skip(struct slice s, size_t n)
{
    n = n < s.size ? n : s.size;
    return (struct slice){s.at + n, s.size - n};
}

/* Without blanks and tabs at both ends. */
static inline struct slice slice_trim(struct slice s)
{
    while (s.size && (s.at[0] == ' ' || s.at[0] == '\t'))
        s = slice_skip(s, 1);
    while (s.size && (s.at[s.size - 1] == ' ' || s.at[s.size - 1] == '\t'))
        s.size--;
    return s;
}

/*
 * The name behind `--- `, `+++ `, `rename from ` and the like, as a new string: in C's quotes, or
 * up to a tab or a date. -EINVAL if it is empty, holds a NUL or its quotes are broken; -ENOMEM.
 */
int name_parse(struct slice s, char **ret);

/* /dev/null, or a date of 1970 behind the name, which diff writes for a file that does not
 * exist. */
bool name_is_nothing(struct slice s);

/*
 * Both names behind `diff --git `. Unquoted names with blanks can only be separated if they are the
 * same but for their first components. -ENOENT if they are not, as those of a rename may be.
 */
int name_split_git(struct slice s, char **ret_old, char **ret_new);
