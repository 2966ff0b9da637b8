/*
 * Light colours for code: comments, strings, keywords and no more. One small lexer serves all
 * languages; a language is an entry in a table. It works line by line, so that code is coloured as
 * it streams in.
 */
#pragma once

#include "wrap.h"

struct language;

struct lexer {
    const struct language *language; /* NULL: nothing is coloured */
    uint8_t within;                  /* what the line before left open: see lexer.c */
};

/* By the name behind a fence ("py", "c++ title=x"). An unknown one gives a lexer that colours
 * nothing. */
struct lexer lexer_open(const char *name, size_t n);

/* Adds one line, without its end, in its colours. */
void lexer_line(struct lexer *l, const char *line, size_t n, struct flow *out);
