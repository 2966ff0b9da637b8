/*
 * Finds the place of each hunk in a file, and writes the patched file.
 *
 * Hunks are compared with the lines that the file had before. A diff is tried strictly first, then
 * loosely, so that it applies wherever `git apply` or GNU patch would apply it, with their result:
 *
 * - strict, as git: every line of a hunk must match. A hunk that begins at line 1 must match at the
 *   start of the file, one without context behind its last change at the end. Hunks may come in any
 *   order, but no two of them may match the same line.
 * - loose, as patch: a hunk is expected at the offset of the one before it and must not change
 * lines above that one, but may share context with it. It is tied to an end of the file only if it
 * has less context there than at its other end. With fuzz N, N lines of context at its ends need
 * not match.
 *
 * The search begins at the line that the header names and goes one line further down, one further
 * up, and so on. A hunk whose counts were wrong is tied to no end, since it may have lost lines. A
 * hunk without line numbers must match at one place only, or behind the line that its header names.
 */
#pragma once

#include "diff.h"

#define PLACE_FUZZ_MAX  3u
#define PLACE_WORK_MAX  (100u << 20) /* lines compared in one attempt: about a second */
#define PLACE_LINES_MAX (2u << 20)

struct buf;

struct text_line {
    const uint8_t *text;
    uint32_t size; /* with its newline */
    bool taken;    /* strict: a hunk matched it, no other one may */
};

/* The lines of a text that the caller owns. */
struct text_lines {
    struct text_line *lines;
    size_t count;
};

/* -E2BIG: too many lines. */
int text_lines_split(const uint8_t *data, size_t size, struct text_lines *ret);
void text_lines_free(struct text_lines *t);

/* A hunk taken apart: the lines that it looks for, and those that take their place. */
struct hunk_lines {
    const struct diff_hunk *hunk;
    struct text_line *old, *new;
    size_t n_old, n_new;
    size_t before, behind; /* lines of context at its head and tail */
};

/* Makes room for the largest hunk of a file. */
int hunk_lines_make(const struct diff *d, const struct diff_file *f, struct hunk_lines *ret);
void hunk_lines_set(struct hunk_lines *p, const struct diff *d, const struct diff_hunk *h);
void hunk_lines_free(struct hunk_lines *p);

struct place_options {
    bool strict;
    unsigned fuzz;     /* unless strict */
    bool ignore_space; /* unless strict: blanks at the ends of lines, and the form of line ends */
};

enum place_why {
    PLACE_NOWHERE,   /* nothing in the file matches */
    PLACE_APPLIED,   /* the file already has the result */
    PLACE_ELSEWHERE, /* it matches, but not at the end of the file that it is tied to */
    PLACE_BEHIND,    /* it matches, but above an earlier hunk or overlapping it */
    PLACE_SPACE,     /* only blanks or line ends differ */
    PLACE_SEVERAL,   /* it has no numbers and matches at several places */
    PLACE_COSTLY,    /* the search was given up */
};

/* A hunk without a place; `line` (from 1) says where it nearly matches, 0 if nowhere. */
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
    uint64_t *work; /* what is left of PLACE_WORK_MAX */
    /* Called for each failure. NULL: the first failure ends the call. */
    void (*failed)(void *data, const struct place_failure *f);
    void *data;
};

struct place_result {
    size_t failures;
    int64_t offset; /* the largest one */
    unsigned fuzz;  /* the most that was needed */
};

/* Appends the patched text to `out` if there were no failures. 0 also if hunks failed; -ENOMEM,
 * -ENOBUFS. */
int place_hunks(const struct place_call *call, struct text_lines *file, struct buf *out,
                struct place_result *ret);

/* Where a hunk that has no place was perhaps meant to go, and what differs there. */
struct hunk_nearest {
    size_t line; /* of the first line that differs, from 1; 0 if nothing in the file is like it */
    size_t expected, n_expected; /* the differing lines of the hunk, among those it looks for */
    size_t found, n_found;       /* the lines of the file that stand there, from 0 */
};

/* `guess` is where the hunk says it belongs, from 0. 0 or -ENOMEM. */
int hunk_nearest_find(const struct text_lines *file, const struct hunk_lines *p, size_t guess,
                      struct hunk_nearest *ret);
