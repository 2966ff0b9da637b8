/* One block, or a document of a few, as lines: md4c finds out what it is, md_render*.c what it
 * looks like. */
#pragma once

#include <md4c.h>

#include "lexer.h"
#include "line.h"

#define MD_DEPTH                                                                                   \
    24 /* lists and quotes within each other that are indented; deeper ones are not any more */
#define MD_COLUMNS 32 /* of a table; with more it is shown as text */
#define MD_CELLS   4096

struct md_list {
    bool ordered, tight;
    unsigned next; /* number */
};

/* A container that is open: what stands before its first line, and before the others. */
struct md_level {
    MD_BLOCKTYPE type;
    struct md_list list; /* of a list */
    char first[16], rest[16];
    bool begun; /* the first line was written */
};

struct md_cell {
    struct flow flow;
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
    size_t depth, too_deep; /* containers beyond MD_DEPTH */
    struct flow flow;       /* of the paragraph, heading, cell, … that is open */
    unsigned style;         /* of text in this block */
    unsigned strong, emphasis, code, strike, links, others; /* spans that are open */
    size_t link_start;                                      /* in the flow */
    bool gap;           /* an empty line comes before the next */
    bool in_code;       /* a block of it */
    struct lexer lexer; /* of that */
    struct md_table table;
    bool in_table;
    size_t calls, budget; /* of md4c, so that no text makes it tell more than it holds */
};

/* `gap`: an empty line comes first. */
void md_render(const char *text, size_t n, int width, int indent, bool gap, struct lines *out);

/* Lines of code, and the name of their language above, if it has one. `width` is with the margin.
 */
bool md_code_label(const char *info, size_t n, const struct margin *margin, int width,
                   struct lines *out);
void md_code_line(struct lexer *l, const char *line, size_t n, const struct margin *margin,
                  int width, struct lines *out);

/* Inside. */
#define MD_MARGIN_MAX 512
struct md_margins {
    char first[MD_MARGIN_MAX], rest[MD_MARGIN_MAX];
    struct margin margin; /* of these two */
    int width;
};
void md_begin_lines(struct md_render *r,
                    struct md_margins *ret); /* the empty line, if one is due; margins */
unsigned md_style(const struct md_render *r);
int md_enter_span(MD_SPANTYPE type, void *detail, void *data);
int md_leave_span(MD_SPANTYPE type, void *detail, void *data);
int md_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE n, void *data);
void md_table_cell(struct md_render *r, MD_ALIGN align);
void md_table_end(struct md_render *r);
void md_table_free(struct md_table *t);
