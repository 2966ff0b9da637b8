/*
 * Clean text: what reaches the cells of the terminal. Everything untrusted (files, output, the
 * model's words) passes clean_append() first. Clean text is valid UTF-8 of printable characters,
 * newlines and tabs, so that whatever wraps, colours or draws it need not think of anything else.
 *
 * What a terminal would obey, or what would mislead a reader, is replaced visibly: controls by
 * their pictures (␛), characters that change the direction of writing and invalid bytes by U+FFFD.
 * What makes terminals disagree about widths (joiners, variation selectors, skin tones) is left
 * out: an emoji family becomes its members, which all terminals place alike.
 *
 * Graphemes are characters as people see them: a letter with its accents, an emoji of several code
 * points, a flag. The rules are Unicode's as far as they matter to a cursor. Widths and classes of
 * code points come from the C library, so the locale must be UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

#define CLEAN_GROWTH 3 /* bytes that one byte becomes at most */

/* Never occurs in clean text: a marker for code that works on it. */
#define CLEAN_NEVER "\xe2\x81\xa0" /* U+2060 */

/* Appends the clean form of whole characters. `output`: of a command; its colours (SGR sequences)
 * are dropped. Returns 0 or a negative errno of the buffer. */
int clean_append(struct buf *out, const void *text, size_t n, bool output);

/* The clean form of at most `most` bytes, allocated; NULL without memory. */
char *clean_string(const char *text, size_t n, size_t most);

/* The bytes of the next character of clean text with its combining marks, and its columns. A mark
 * without a character to stand on takes a column. */
size_t clean_next(const char *s, size_t n, int *ret_width);

int clean_width(const char *s, size_t n); /* of text without tabs and newlines */

/* The bytes that fit in `width` columns. */
size_t clean_fit(const char *s, size_t n, int width, int *ret_width);

/* The code point at the start of s and its bytes; U+FFFD and 1 for an invalid byte. */
uint32_t clean_decode(const char *s, size_t n, size_t *ret_size);

/* Returns the number of bytes. */
size_t clean_encode(uint32_t code, char out[4]);

/* Where the grapheme at `at` ends, and where the one before `at` begins. The text is valid
 * UTF-8. */
size_t grapheme_next(const char *text, size_t n, size_t at);
size_t grapheme_before(const char *text, size_t n, size_t at);

/* Words of Alt-F and Alt-B: runs of letters, digits and _. */
size_t grapheme_word_end(const char *text, size_t n, size_t at);
size_t grapheme_word_begin(const char *text, size_t n, size_t at);
