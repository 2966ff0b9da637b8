/*
 * The one door between strangers' bytes and the cells of a terminal. Behind it every text is
 * "clean": valid UTF-8 of characters that a terminal shows and does not obey, line ends and tabs;
 * so that whatever wraps, colours or draws it need not think of anything else.
 *
 * What would be obeyed or would mislead is shown as a visible stand-in: controls as their pictures
 * (␛), what turns the direction of writing and bytes that are no UTF-8 as U+FFFD. What has no width
 * of its own and makes terminals disagree about that of others (joiners, variation selectors, skin
 * tones) is left out: a family of emoji becomes its members, which all terminals place alike.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

#define CLEAN_GROWTH 3 /* a byte becomes at most so many */

/* Never in clean text, so that code behind the door can use it as a mark of its own. */
#define CLEAN_NEVER "\xe2\x81\xa0" /* U+2060 */

/* Appends the clean form of whole characters. `output`: of a command: colours that it asked for
 * (SGR sequences) are left out. 0 or a negative errno of the buffer. */
int clean_append(struct buf *out, const void *text, size_t n, bool output);

/* Of clean text: the bytes of the next character, with the marks that stand on it; and its columns.
 * A mark without a character to stand on takes a column. */
size_t clean_next(const char *s, size_t n, int *ret_width);

/* The number of the first character of clean text, and its bytes. */
uint32_t clean_decode(const char *s, size_t n, size_t *ret_size);

int clean_width(const char *s, size_t n); /* columns of a text without tabs and line ends */

/* As much as fits in `width` columns. */
size_t clean_fit(const char *s, size_t n, int width, int *ret_width);
