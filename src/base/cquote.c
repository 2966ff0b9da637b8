#include <stdint.h>
#include <string.h>

#include "buf.h"
#include "cquote.h"
#include "banned.h"

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

bool cquote_is_needed(const char *name)
{
    for (; *name; name++)
        if (!is_plain((unsigned char)*name))
            return true;
    return false;
}

static void append_escape(struct buf *b, unsigned char c)
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
        if (is_plain((unsigned char)*name))
            buf_append(b, name, 1);
        else
            append_escape(b, (unsigned char)*name);
    buf_append(b, "\"", 1);
}
