/*
 * A diff as data: a list of files, each with hunks or a binary patch.
 *
 * Names keep their prefixes and hunks the line numbers of their headers; plan.h decides what they
 * mean in a tree. Only the counts of a hunk are those of its body, whatever its header says.
 *
 * Lines and slices point into `text`, which belongs to the diff. A line holds its newline, unless
 * "\ No newline at end of file" stood behind it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

#define DIFF_SIZE_MAX  (16u << 20)
#define DIFF_FILES_MAX 10000u
#define DIFF_LINES_MAX (2u << 20) /* of all hunks together */
#define DIFF_HUNKS_MAX (256u << 10)

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
    struct slice anchor; /* without numbers: the line of the file that it is behind, or empty */
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
    bool git;   /* a `diff --git` line stood above it */
    bool codex; /* in the format that begins with *** Begin Patch: its names have no prefix */
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

/* With strip_cr, carriage returns at the ends of lines are taken off first. -EINVAL with the number
 * of the line that is wrong; -E2BIG over a limit. */
int diff_parse(const void *text, size_t size, bool strip_cr, struct diff *ret, struct error *err);
void diff_free(struct diff *d);
#define _cleanup_diff_ _cleanup_(diff_free)

/* One direction of a binary patch, decoded and inflated. -EBADMSG if it is broken, -EFBIG if it is
 * too large. */
#define DIFF_BINARY_MAX (64u << 20)
int diff_binary_decode(const struct diff_binary *b, uint8_t **ret, size_t *ret_size);

/* Applies a delta to `base`. -EBADMSG if it is broken or made for a content of another size. */
int diff_binary_apply_delta(const uint8_t *base, size_t base_size, const uint8_t *delta,
                            size_t delta_size, uint8_t **ret, size_t *ret_size);

/* Turns it around: what it added it removes. -EINVAL if that cannot be done. */
int diff_reverse(struct diff *d, struct error *err);

/* For the parsers: one more at the end, empty; -E2BIG over a limit. A hunk goes to the last file, a
 * line to the last hunk. */
int diff_add_file(struct diff *d, struct error *err);
int diff_add_hunk(struct diff *d, struct error *err);
int diff_add_line(struct diff *d, char kind, const char *text, size_t size, struct error *err);

static inline struct diff_file *diff_last_file(struct diff *d)
{
    return &d->files[d->n_files - 1];
}

static inline struct diff_hunk *diff_last_hunk(struct diff *d)
{
    return &d->hunks[d->n_hunks - 1];
}
