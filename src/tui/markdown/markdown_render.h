/* The layout of one block, or of a document of a few: md4c parses it, this turns it into lines. */
#pragma once

#include <md4c.h>

#include "syntax.h"

#define MD_DEPTH      24 /* nested lists and quotes; deeper ones are not indented further */
#define MD_COLUMNS    32 /* of a table; with more it is shown as text */
#define MD_CELLS      4096
#define MD_MARGIN_MAX 512

/* An open list, item or quote: what stands before its first line, and before the others. */
struct md_level {
    MD_BLOCKTYPE type;
    bool ordered, tight; /* of a list */
    unsigned next;       /* number of its next item */
    char first[16], rest[16];
    bool begun; /* the first line was written */
};

struct md_cell {
    struct styled text;
    MD_ALIGN align;
};

struct md_table {
    struct md_cell *cells;
    size_t count, columns;
};

struct md_render {
    struct lines *out;
    int width, indent;
    struct md_level levels[MD_DEPTH];
    size_t depth, too_deep; /* levels beyond MD_DEPTH */
    struct styled text;     /* of the open paragraph, heading, cell, … */
    unsigned style;         /* of text in this block */
    unsigned strong, emphasis, code, strike, links, others; /* open spans */
    size_t link_start;                                      /* in `text` */
    bool gap;           /* an empty line comes before the next line */
    bool in_code;       /* in a block of code */
    struct lexer lexer; /* of that */
    struct md_table table;
    bool in_table;
    size_t calls, budget; /* of md4c: text must not make it report more than it holds */
};

/* The margins of the next lines, with all levels. */
struct md_margins {
    char first[MD_MARGIN_MAX], rest[MD_MARGIN_MAX];
    struct margin margin; /* points to these two */
    int width;
};

/* `gap`: an empty line comes first. */
void markdown_render(const char *text, size_t n, int width, int indent, bool gap,
                     struct lines *out);

/* Lines of code, and the name of its language above them if it has one. `width` includes the
 * margin. */
void markdown_code_label(const char *info, size_t n, const struct margin *margin, int width,
                         struct lines *out);
void markdown_code_line(struct lexer *l, const char *line, size_t n, const struct margin *margin,
                        int width, struct lines *out);

/* Writes the empty line if one is due, and makes the margins. */
void md_begin_lines(struct md_render *r, struct md_margins *ret);

/* Tables (markdown_table.c): a cell takes r->text; the end draws the table. */
void md_table_add_cell(struct md_render *r, MD_ALIGN align);
void md_table_draw(struct md_render *r);
void md_table_free(struct md_table *t);
