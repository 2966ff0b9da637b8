/*
 * Markdown as lines of a width: a document that grows at its end, as an answer streams in. The head
 * of markdown.c says how blocks are cut, that of markdown_render.c how one is laid out.
 */
#pragma once

#include "lines.h"

#define MARKDOWN_DEPTH   24 /* nested lists and quotes; deeper ones are not indented further */
#define MARKDOWN_COLUMNS 32 /* of a table; with more it is shown as text */
#define MARKDOWN_BLOCK   (32u << 10) /* bytes; from here on a block is cut at the next line */
#define MARKDOWN_LINE    (16u << 10) /* bytes; a longer line is cut at a blank */

enum markdown_block {
    MARKDOWN_NONE,
    MARKDOWN_TEXT,     /* paragraphs, headings, quotes, tables */
    MARKDOWN_LIST,     /* text with a list in it: goes on after an empty line if it is indented */
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
    size_t done_lines; /* lines of finished blocks */
    size_t start;      /* of the open block in the text */
    size_t scanned;    /* text up to here was cut into blocks */
    enum markdown_block block;
    bool blank;  /* an empty line follows the open block */
    bool within; /* within a line that was too long */
    bool joined; /* the open block continues one that was cut: no empty line before it */
    struct markdown_fence fence;
    struct lexer lexer;
    size_t work; /* bytes laid out so far, for tests of the bounds */
};

/* `width` columns, of which the first `indent` stay empty. */
void markdown_open(struct markdown *m, int width, int indent);
void markdown_free(struct markdown *m);

/* Brings m->lines up to date. `text` is all text so far, clean; it begins with what was passed
 * before. */
void markdown_update(struct markdown *m, const char *text, size_t n);

/* The layout of one block, or of a document of a few. `gap`: an empty line comes first. */
void markdown_render(const char *text, size_t n, int width, int indent, bool gap,
                     struct lines *out);

/* A line of code, and the name of its language above it if there is one. `width` includes the
 * margin. */
void markdown_code_label(const char *info, size_t n, const struct margin *margin, int width,
                         struct lines *out);
void markdown_code_line(struct lexer *l, const char *line, size_t n, const struct margin *margin,
                        int width, struct lines *out);
