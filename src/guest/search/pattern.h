/*
 * The pattern of a search: compiled once, matched by several threads.
 *
 * A pattern matches lines: each line by itself, without its line end (nor a carriage return before
 * it, unless the pattern asks for one). How that is found out is chosen by what the pattern is, see
 * matcher.c; the answer is the same.
 *
 * Patterns are anybody's: their length, the steps of a match, its depth and its memory are limited.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct pattern;
struct matcher;

struct pattern_options {
    bool literal; /* no character has a meaning */
    bool ignore_case;
};

int pattern_compile(const char *text, size_t n, const struct pattern_options *o,
                    struct pattern **ret, struct error *err);
struct pattern *pattern_free(struct pattern *p);

/* What one thread needs to match. */
int matcher_new(const struct pattern *p, struct matcher **ret);
struct matcher *matcher_free(struct matcher *m);

struct hit {
    size_t line, line_end; /* the line, without its end */
    size_t next;           /* where the next line begins */
    size_t match, match_end;
};

/* The first line that matches among those that begin at `at` or later. `kinds` are the bits of
 * bytes_kinds of all the n bytes, which begin with a line. 1, 0, or a negative errno: -E2BIG if the
 * pattern needs too much for that line, which is then in *ret. */
int matcher_next(struct matcher *m, const uint8_t *text, size_t n, unsigned kinds, size_t at,
                 struct hit *ret);

/* Why matcher_next said -E2BIG, in words. */
const char *matcher_why(const struct matcher *m);
