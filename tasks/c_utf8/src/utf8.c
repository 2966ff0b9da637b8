#include "utf8.h"

/* How many bytes a character has that begins with this one; 0: none does. */
static size_t length_of(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc0)
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0)
        return 3;
    return first < 0xf8 ? 4 : 0;
}

size_t utf8_decode(const unsigned char *text, size_t size, uint32_t *ret)
{
    static const unsigned char MASK[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t length = size > 0 ? length_of(text[0]) : 0;
    if (length == 0 || length > size)
        return 0;
    uint32_t c = text[0] & MASK[length];
    for (size_t i = 1; i < length; i++) {
        c = c << 6 | (text[i] & 0x3f);
    }
    *ret = c;
    return length;
}
