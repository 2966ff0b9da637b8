/*
 * The pattern of a search: compiled once, matched by several threads.
 *
 * A pattern matches lines: each line by itself, without its line end (nor a carriage return before
 * it, unless the pattern names one). pattern.c chooses how to find matching lines; the result does
 * not depend on that choice.
 *
 * Patterns are untrusted: length, match steps, depth and memory are limited.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define PATTERN_MAX 8192 /* bytes */

struct pattern;
struct matcher;

struct pattern_options {
    bool literal; /* no character has a special meaning */
    bool ignore_case;
};

int pattern_compile(const char *text, size_t n, const struct pattern_options *o,
                    struct pattern **ret, struct error *err);
struct pattern *pattern_free(struct pattern *p);

/* Per-thread state of matching. */
int matcher_new(const struct pattern *p, struct matcher **ret);
struct matcher *matcher_free(struct matcher *m);

/* Which kinds of bytes occur in a text. */
enum { TEXT_NUL = 1, TEXT_NON_ASCII = 2, TEXT_CR = 4 };
unsigned text_kinds(const uint8_t *s, size_t n);

struct hit {
    size_t line, line_end; /* the line, without its end */
    size_t next;           /* where the next line begins */
    size_t match, match_end;
};

/* Finds the first matching line that begins at `at` or later. `text` begins with a line; `kinds` is
 * text_kinds of it. 1, 0, or -E2BIG: the pattern exceeds a limit in the line that *ret names. */
int matcher_next(struct matcher *m, const uint8_t *text, size_t n, unsigned kinds, size_t at,
                 struct hit *ret);

/* The reason of the last -E2BIG, for a message. */
const char *matcher_error(const struct matcher *m);
