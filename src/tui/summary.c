#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "harmless.h"
#include "summary.h"
#include "utf8.h"
#include "banned.h"

#define ELLIPSIS "…"

static wchar_t decode(const uint8_t *s, size_t n)
{
    static const uint8_t lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    wchar_t c = s[0] & lead[n];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

int summary_columns(const char *character, size_t n)
{
    int w = n >= 1 && n <= 4 ? wcwidth(decode((const uint8_t *)character, n)) : 1;
    return w < 0 ? 1 : w;
}

/* Blanks and line ends become one blank; no more is looked at than can be shown. */
static int squeeze(const char *text, size_t n, size_t most, struct buf *out, bool *ret_more)
{
    bool blank = false;
    size_t i = 0;
    for (; i < n && out->len < most; i++) {
        if (isspace((unsigned char)text[i])) {
            blank = out->len > 0;
            continue;
        }
        if (blank && buf_append(out, " ", 1) < 0)
            return -ENOMEM;
        blank = false;
        if (buf_append(out, text + i, 1) < 0)
            return -ENOMEM;
    }
    while (i < n && isspace((unsigned char)text[i]))
        i++;
    *ret_more = i < n;
    return 0;
}

/* How many bytes of a valid text fit in `width` columns. */
static size_t fitting(const char *text, size_t n, size_t width)
{
    size_t columns = 0, i = 0;
    while (i < n) {
        size_t size = utf8_character((const uint8_t *)text + i, n - i);
        if (!size)
            break;
        columns += (size_t)summary_columns(text + i, size);
        if (columns > width)
            break;
        i += size;
    }
    return i;
}

int summary_line(const char *text, size_t n, size_t width, struct buf *out)
{
    _cleanup_buf_ struct buf one = BUF_INIT(width * 4 + 16),
                             clean = BUF_INIT(one.max * HARMLESS_GROWTH);
    struct harmless h = {0};
    bool more = false;
    if (width == 0 || n == 0)
        return 0;
    if (squeeze(text, n, width * 4 + 4, &one, &more) < 0)
        return -ENOMEM;
    if (more)
        one.len -= utf8_cut_end(one.data, one.len);
    if (harmless_append(&h, one.data, one.len, &clean) < 0)
        return -ENOMEM;
    const char *s = clean.len ? (const char *)clean.data : "";
    size_t fit = fitting(s, clean.len, width);
    if (fit == clean.len && !more)
        return buf_append(out, s, fit);
    fit = fitting(s, clean.len, width - 1);
    int r = buf_append(out, s, fit);
    return r < 0 ? r : buf_append_str(out, ELLIPSIS);
}

const char *summary_time(double seconds, char out[SUMMARY_TIME_MAX])
{
    unsigned s = seconds > 0 && seconds < 1e6 ? (unsigned)seconds : 0;
    if (seconds < 9.95)
        snprintf(out, SUMMARY_TIME_MAX, "%.1fs", seconds > 0 ? seconds : 0.0);
    else if (s < 60)
        snprintf(out, SUMMARY_TIME_MAX, "%us", s);
    else if (s < 3600)
        snprintf(out, SUMMARY_TIME_MAX, "%um%02us", s / 60, s % 60);
    else
        snprintf(out, SUMMARY_TIME_MAX, "%uh%02um", s / 3600 % 10000, s / 60 % 60);
    return out;
}
