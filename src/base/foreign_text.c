#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "foreign_text.h"
#include "utf8.h"
#include "banned.h"

#define CUT_MARK "…"

/* The "tags" of Unicode, U+E0000 to U+E007F: letters that nobody sees and a model reads. */
static bool is_tag(const uint8_t *at, size_t n)
{
    return n == 4 && at[0] == 0xf3 && at[1] == 0xa0 && (at[2] == 0x80 || at[2] == 0x81);
}

static bool is_shown(const uint8_t *at, size_t n)
{
    if (n == 1 && (*at == '\n' || *at == '\t'))
        return true;
    return n > 0 && !utf8_is_control(at, n) && !is_tag(at, n);
}

char *foreign_text(const char *text, size_t n, size_t max)
{
    struct buf b = BUF_INIT(max + sizeof CUT_MARK + 1);
    const uint8_t *at = (const uint8_t *)text;
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        len = utf8_character(at + i, n - i);
        if (!is_shown(at + i, len))
            continue;
        if (b.len + len > max) {
            buf_append_str(&b, CUT_MARK);
            break;
        }
        buf_append(&b, at + i, len);
    }
    char *clean = buf_cstr(&b);
    if (!clean)
        buf_free(&b);
    return clean;
}
