/* Characters of UTF-8, as Unicode defines it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Decodes the character that `text` begins with. Returns how many bytes it has, or 0 if they are no character:
 * cut off, too long for what they say, a surrogate, or beyond U+10FFFF. */
size_t utf8_decode(const unsigned char *text, size_t size, uint32_t *ret);
