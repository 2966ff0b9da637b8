#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "encoding.h"
#include "text.h"
#include "banned.h"

static const char BASE64_DIGITS[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_append(struct buf *b, const void *data, size_t n)
{
    const uint8_t *s = data;
    if (n > SIZE_MAX / 2)
        return -ENOBUFS;
    size_t size = (n + 2) / 3 * 4;
    char *out = buf_reserve(b, size);
    if (!out)
        return -ENOBUFS;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t group = (uint32_t)s[i] << 16;
        group |= i + 1 < n ? (uint32_t)s[i + 1] << 8 : 0;
        group |= i + 2 < n ? s[i + 2] : 0;
        *out++ = BASE64_DIGITS[group >> 18];
        *out++ = BASE64_DIGITS[group >> 12 & 63];
        *out++ = i + 1 < n ? BASE64_DIGITS[group >> 6 & 63] : '=';
        *out++ = i + 2 < n ? BASE64_DIGITS[group & 63] : '=';
    }
    b->len += size;
    return 0;
}

int base64_decode(struct buf *b, const char *text, size_t n)
{
    uint32_t bits = 0;
    unsigned have = 0, padding = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] && strchr(" \t\r\n", text[i]))
            continue;
        if (text[i] == '=' && ++padding <= 2)
            continue;
        const char *digit = text[i] ? strchr(BASE64_DIGITS, text[i]) : NULL;
        if (!digit || padding)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)(digit - BASE64_DIGITS);
        have += 6;
        if (have >= 8) {
            have -= 8;
            const uint8_t byte = (uint8_t)(bits >> have);
            if (buf_append(b, &byte, 1) < 0)
                return -ENOBUFS;
        }
    }
    /* Six bits alone make no byte; padding, if there is any, fills the last group. */
    bool whole =
        have != 6 && (!padding || (have == 4 && padding == 2) || (have == 2 && padding == 1));
    return whole ? 0 : -EINVAL;
}

const char BASE85_DIGITS[86] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

bool cquote_is_needed(const char *name)
{
    for (; *name; name++)
        if (*name < 0x20 || *name >= 0x7f || *name == '"' || *name == '\\')
            return true;
    return false;
}

void cquote_append(struct buf *b, const char *prefix, const char *name)
{
    static const char BYTES[] = "\a\b\t\n\v\f\r\"\\", LETTERS[] = "abtnvfr\"\\";
    bool quoted = cquote_is_needed(name);
    buf_append_str(b, quoted ? "\"" : "");
    buf_append_str(b, prefix);
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        const char *named = strchr(BYTES, c);
        if (named)
            buf_append(b, (const char[]){'\\', LETTERS[named - BYTES]}, 2);
        else if (c < 0x20 || c >= 0x7f)
            buf_printf(b, "\\%03o", c);
        else
            buf_append(b, name, 1);
    }
    buf_append_str(b, quoted ? "\"" : "");
}
