/*
 * Characters as people see them: a letter with its accents, an emoji of several code points, a
 * flag. The rules are Unicode's grapheme clusters as far as they matter to a cursor; the classes of
 * code points come from the C library, so the locale must be UTF-8. Texts are valid UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where the grapheme at `at` ends, and where the one before `at` begins. */
size_t grapheme_next(const char *text, size_t n, size_t at);
size_t grapheme_before(const char *text, size_t n, size_t at);

/* Words of Alt-F and Alt-B: runs of letters, digits and _. */
size_t grapheme_word_end(const char *text, size_t n, size_t at);
size_t grapheme_word_begin(const char *text, size_t n, size_t at);

/* The beginning of the run without blanks before `at`: what Ctrl-W deletes. */
size_t grapheme_blank_begin(const char *text, size_t n, size_t at);
