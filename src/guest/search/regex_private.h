/* Inside of regex.h: the reader of an expression. */
#pragma once

#include "regex.h"

struct reader {
    const char *at, *end;
    size_t depth; /* of groups */
    bool fold;
    struct regex_facts *facts;
    struct buf run;  /* the literal that is being read, outside of all groups */
    size_t run_last; /* where its last character begins */
    struct buf best; /* the longest of this alternative */
    bool lacks;      /* an alternative has no literal, or there are too many */
    bool unsure;     /* there may be more to it: one line at a time, and no literal */
};

/* Appends to the rewritten expression. */
void reader_put(struct reader *r, const char *s, size_t n);
void reader_put_str(struct reader *r, const char *s);

/* What is at r->at must not run over several lines; literals elsewhere hold. */
void reader_stay_in_line(struct reader *r);

/* A character that stands for itself. */
void reader_literal(struct reader *r, const char *s, size_t n);

/* What follows is not one string with what was before. */
void reader_end_run(struct reader *r);

/* A backslash or a bracket is at r->at: reads what it begins. */
void reader_escape(struct reader *r);
void reader_class(struct reader *r);
