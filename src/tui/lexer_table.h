/* The languages that the lexer knows, by what begins and ends in them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct language {
    const char *names;        /* each with a blank on both sides */
    const char *comment[2];   /* to the end of the line */
    const char *open, *close; /* a comment over lines; NULL: none */
    const char *quotes;       /* of strings on one line */
    bool triple, backtick;    /* strings over lines */
    bool any_case;            /* keywords in capitals, too */
    bool is_diff;
    const char *keywords; /* each with a blank on both sides */
};

const struct language *language_find(const char *name, size_t n);
bool language_keyword(const struct language *l, const char *word, size_t n);
