#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "uri.h"
#include "banned.h"

/* What stands for itself in a path. */
static bool is_plain(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("-._~/!$&'()*+,;=:@", c));
}

void uri_append_path(struct buf *b, const char *path)
{
    buf_append_str(b, URI_WORKSPACE);
    for (; *path; path++) {
        if (is_plain(*path))
            buf_append(b, path, 1);
        else
            buf_printf(b, "%%%02X", (unsigned char)*path);
    }
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int uri_parse_path(const char *uri, struct buf *ret)
{
    size_t n = strlen(URI_WORKSPACE);
    if (strncmp(uri, URI_WORKSPACE, n) != 0 || !uri[n])
        return -EINVAL;
    for (const char *at = uri + n; *at; at++) {
        char c = *at;
        if (c == '?' || c == '#')
            return -EINVAL;
        if (c == '%') {
            int high = digit(at[1]), low = high < 0 ? -1 : digit(at[2]);
            if (low < 0 || (high == 0 && low == 0))
                return -EINVAL;
            c = (char)(high << 4 | low);
            at += 2;
        }
        buf_append(ret, &c, 1);
    }
    return buf_append(ret, "", 1) < 0 ? -ENOMEM : 0;
}
