/*
 * Characters as people see them: a letter with its accents, an emoji of several code points, a flag
 * are one. The rules are those of Unicode's grapheme clusters as far as they matter to a cursor;
 * what a code point is comes from the C library's tables, so the locale must be one of UTF-8.
 *
 * Texts are valid UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where the grapheme at `at` ends, and where the one before `at` begins. */
size_t grapheme_next(const char *text, size_t n, size_t at);
size_t grapheme_before(const char *text, size_t n, size_t at);

/* Words, as Alt-F and Alt-B see them: runs of letters, digits and _. */
size_t grapheme_word_end(const char *text, size_t n, size_t at);
size_t grapheme_word_begin(const char *text, size_t n, size_t at);

/* The beginning of the run without blanks before `at`: what Ctrl-W takes. */
size_t grapheme_blank_begin(const char *text, size_t n, size_t at);

/* The code point at `at`, and its length. */
unsigned grapheme_decode(const char *text, size_t n, size_t at, size_t *ret_size);
