/*
 * Where hunks go, and the text that comes of it.
 *
 * There are two sets of rules, and who applies a diff tries all of it by the first and then all of
 * it by the second:
 *
 * - git's: every line of a hunk must be there. It is looked for where the header says, then one
 * line further down, one further up, and so on. A hunk that begins at line 1 must match at the
 * beginning, one without context behind its last change at the end. Lines that came with another
 * hunk match no more.
 * - patch's: the same, but the offset of one hunk is expected of the next, a hunk may share context
 * with the one before it, it is tied to an end of the file only if it has less context there than
 * at its other end, and with fuzz 1, 2, 3 so many lines of context at its ends need not match.
 * Context stays as the file has it.
 *
 * A hunk whose counts were wrong is tied to no end, since it may have lost lines there. A hunk
 * without numbers must match at one place only, or behind the line that its header names.
 */
#pragma once

#include "diff.h"
#include "image.h"

#define PLACE_FUZZ_MAX 3u
#define PLACE_WORK_MAX (100u << 20) /* lines compared by one set of rules: about a second */

enum place_rules { PLACE_AS_GIT, PLACE_AS_PATCH };

struct place_options {
    enum place_rules rules;
    unsigned fuzz;
    bool ignore_space; /* at the ends of lines, line ends included; only by patch's rules */
};

enum place_why {
    PLACE_NOWHERE,   /* nothing in the file is like it */
    PLACE_APPLIED,   /* what it makes is there already */
    PLACE_ELSEWHERE, /* it would match, but not at the end of the file that it is tied to */
    PLACE_BEHIND,    /* it would match, but above an earlier hunk or overlapping it */
    PLACE_SPACE,     /* it would match but for blanks or the form of line ends */
    PLACE_SEVERAL,   /* without numbers, and it matches at several places */
    PLACE_COSTLY,    /* the search was given up */
};

/* A hunk that could not be placed: `line` (from 1) tells where, for those that would match. */
struct place_failure {
    const struct diff_hunk *hunk;
    size_t number; /* in its file, from 1 */
    enum place_why why;
    size_t line;
};

struct place_call {
    const struct diff *diff;
    const struct diff_file *file;
    struct place_options how;
    uint64_t *work; /* what is left of PLACE_WORK_MAX; used up */
    /* Told of each failure; NULL: nobody wants to know, and the first one ends the call. */
    void (*failed)(void *data, const struct place_failure *f);
    void *data;
};

struct place_result {
    size_t failures;
    int64_t offset; /* the largest one */
    unsigned fuzz;  /* the most that was needed */
};

/* Puts the hunks of one file into its lines, which are used up, and appends the text to `out`.
 * 0 also if hunks failed; -E2BIG, -ENOMEM, -ENOBUFS. */
int place_hunks(const struct place_call *call, struct image *img, struct buf *out,
                struct place_result *ret);
