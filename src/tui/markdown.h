/*
 * Markdown as lines of a width: a document that grows at its end, as an answer streams in.
 *
 * The text is cut into blocks (a paragraph, a list, a table, one line of fenced code, …). Blocks
 * that are finished are laid out once; only the one at the end, which may still change, is laid out
 * again when text comes. Where a block ends is decided by the text up to there alone, never by the
 * pieces it came in: so a document gives the same lines however it was cut.
 *
 * Time is linear: a block is bounded (MARKDOWN_BLOCK), and longer ones are cut.
 */
#pragma once

#include "lexer.h"
#include "line.h"

#define MARKDOWN_BLOCK (32u << 10) /* from this size on, a block is cut at the next line */
#define MARKDOWN_LINE  (16u << 10) /* and a line that is longer, at a blank within this */
#define MARKDOWN_PROSE                                                                             \
    100 /* columns: longer lines are hard to read; code and tables may be wider */

enum markdown_kind {
    MARKDOWN_NONE,
    MARKDOWN_PARAGRAPH, /* and tables, rules, headings with a line under them */
    MARKDOWN_HEADING,
    MARKDOWN_LIST,
    MARKDOWN_QUOTE,
    MARKDOWN_INDENTED, /* code */
    MARKDOWN_FENCE,
};

struct markdown_fence {
    char mark; /* ` or ~ */
    size_t length;
    int indent;
};

struct markdown {
    struct lines lines;
    int width, indent;
    size_t done_lines; /* lines of blocks that are finished */
    size_t start;      /* of the open block in the text */
    size_t scanned;    /* text up to here was cut into blocks */
    enum markdown_kind kind;
    bool blank;  /* an empty line came after the open block */
    bool within; /* in the midst of a line that was too long */
    bool joined; /* the open block goes on without an empty line before it */
    struct markdown_fence fence;
    struct lexer lexer;
    size_t work; /* bytes laid out so far: what tests of bounds look at */
};

/* `width` columns, of which the first `indent` stay empty. */
void markdown_open(struct markdown *m, int width, int indent);
void markdown_free(struct markdown *m);

/* The whole text so far, clean (clean.h); what was given before is its beginning. m->lines is up to
 * date after this. */
void markdown_update(struct markdown *m, const char *text, size_t n);
