/*
 * Syntax colours for code: comments, strings and keywords, no more. One small lexer serves all
 * languages; a language is a row of a table. It works line by line, so that code is coloured while
 * it streams in.
 */
#pragma once

#include "lines.h"

struct language;

struct lexer {
    const struct language *language; /* NULL: nothing is coloured */
    const char *closing; /* ends what the line before left open; NULL: nothing is open */
};

/* By the name after a code fence ("py", "c++ title=x"). An unknown name colours nothing. */
struct lexer lexer_open(const char *name, size_t n);

/* Adds one line, without its newline. */
void lexer_line(struct lexer *l, const char *line, size_t n, struct styled *out);

/* The style of a line of a unified or git diff. */
unsigned diff_style(const char *line, size_t n);
