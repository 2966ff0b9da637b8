/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* The length of the character at the start of the n bytes, or 0 if there is no whole valid one. */
size_t utf8_character(const uint8_t *s, size_t n);

bool utf8_valid(const uint8_t *s, size_t n);

/* How many bytes at the end of s are the beginning of a character that was cut off: 0 to 3. */
size_t utf8_cut_end(const uint8_t *s, size_t n);

/* How many bytes at the start of s are the rest of a character that was cut off: 0 to 3. */
size_t utf8_cut_start(const uint8_t *s, size_t n);

/* Is this valid character of n bytes a control character (C0, DEL, C1), a line separator, or one
 * that turns the direction of writing, and so can make a terminal show something else than what is
 * there? */
bool utf8_is_control(const uint8_t *s, size_t n);

/* Appends n bytes of UTF-16 as UTF-8, without a byte order mark at their start. Units that are no
 * character become U+FFFD. 0 or -ENOBUFS. */
int utf16_append(struct buf *out, const uint8_t *s, size_t n, bool big_endian);
