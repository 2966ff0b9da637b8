/*
 * What the text of a regular expression tells before it is compiled.
 *
 * Lines are searched, so a match never goes beyond one. The expression is run over many lines at
 * once where that finds the same: if nothing in it can match a line end. So it is rewritten with
 * the line end taken out of every class
 * (`\s` becomes `[^\S\n]`, `[^a]` becomes `[^\na]`), and wherever this reader is not sure, it says
 * that each line is to be matched by itself. It must never be wrong in the other direction.
 *
 * The second thing are strings of which every match contains one, one for each alternative: looking
 * for those is much faster, and only the lines that have one need be matched.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

#define REGEX_MAX          8192 /* bytes of an expression */
#define REGEX_LITERALS_MAX 8

struct regex_facts {
    bool spans;          /* the rewritten expression may be run over many lines at once */
    struct buf spanning; /* it */
    bool line_end;       /* asks for a line end, which is in no line */
    bool cr;    /* asks for a carriage return, so those at the end of a line are part of it */
    bool plain; /* nothing in it has a meaning: the only literal is all of it */
    struct buf literals; /* every match contains one of them; they lie here one after the other, */
    size_t sizes[REGEX_LITERALS_MAX];
    size_t n_literals; /* 0: there are none */
};

/* n is at most REGEX_MAX. With `fold`, letters outside of ASCII are no part of a literal. -ENOMEM.
 */
int regex_read(const char *text, size_t n, bool fold, struct regex_facts *ret);
void regex_facts_free(struct regex_facts *f);
