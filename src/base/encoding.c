#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "encoding.h"
#include "text.h"
#include "banned.h"

int base64_append(struct buf *b, const void *data, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
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
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = i + 1 < n ? digits[group >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[group & 63] : '=';
    }
    b->len += size;
    return 0;
}

/* What a character stands for, or -1. */
static int base64_digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(struct buf *b, const char *text, size_t n)
{
    uint32_t bits = 0;
    unsigned have = 0, padding = 0;
    for (size_t i = 0; i < n; i++) {
        int v = base64_digit_value(text[i]);
        if (text[i] && strchr(" \t\r\n", text[i]))
            continue;
        if (text[i] == '=' && ++padding <= 2)
            continue;
        if (v < 0 || padding)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            const uint8_t byte = (uint8_t)(bits >> have);
            if (buf_append(b, &byte, 1) < 0)
                return -ENOBUFS;
        }
    }
    /* Six bits alone are no byte; padding, if there is any, fills the last group. */
    bool whole =
        have != 6 && (!padding || (have == 4 && padding == 2) || (have == 2 && padding == 1));
    return whole ? 0 : -EINVAL;
}

const char BASE85_DIGITS[86] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

static bool cquote_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

bool cquote_is_needed(const char *name)
{
    for (; *name; name++)
        if (!cquote_is_plain((unsigned char)*name))
            return true;
    return false;
}

static void cquote_append_escape(struct buf *b, unsigned char c)
{
    static const char NAMED[] = "\aa\bb\tt\nn\vv\ff\rr\"\"\\\\";
    for (const char *p = NAMED; *p; p += 2)
        if ((unsigned char)*p == c) {
            buf_append(b, (const char[]){'\\', p[1]}, 2);
            return;
        }
    const char octal[] = {'\\', (char)('0' + (c >> 6)), (char)('0' + (c >> 3 & 7)),
                          (char)('0' + (c & 7))};
    buf_append(b, octal, sizeof octal);
}

void cquote_append(struct buf *b, const char *prefix, const char *name)
{
    if (!cquote_is_needed(name)) {
        buf_append_str(b, prefix);
        buf_append_str(b, name);
        return;
    }
    buf_append(b, "\"", 1);
    buf_append_str(b, prefix);
    for (; *name; name++)
        if (cquote_is_plain((unsigned char)*name))
            buf_append(b, name, 1);
        else
            cquote_append_escape(b, (unsigned char)*name);
    buf_append(b, "\"", 1);
}
