#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harmless.h"
#include "io.h"
#include "show_diff.h"
#include "banned.h"

#define OUT_MAX                                                                                    \
    (256u                                                                                          \
     << 20) /* of one line: the diff worker's own bound on what it diffs as text is far below */

static const char *colour_of(const char *line)
{
    static const struct {
        const char *start, *colour;
    } COLOURS[] = {
        {"diff --git ", "\033[1m"}, {"+++ ", "\033[1m"}, {"--- ", "\033[1m"},
        {"@@ ", "\033[36m"},        {"+", "\033[32m"},   {"-", "\033[31m"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(COLOURS); i++)
        if (strncmp(line, COLOURS[i].start, strlen(COLOURS[i].start)) == 0)
            return COLOURS[i].colour;
    return NULL;
}

static int show_line(const char *line, size_t n, int to, bool colours)
{
    _cleanup_buf_ struct buf out = BUF_INIT(OUT_MAX);
    struct harmless h = {0};
    const char *colour = colours ? colour_of(line) : NULL;
    size_t text = n && line[n - 1] == '\n' ? n - 1 : n;
    if (colour)
        buf_append_str(&out, colour);
    harmless_append(&h, line, text, &out);
    if (colour)
        buf_append_str(&out, "\033[m");
    buf_append(&out, line + text, n - text);
    return out.failed ? -ENOBUFS : io_write_all(to, out.data, out.len);
}

int show_diff(int from, int to, bool colours)
{
    _cleanup_fclose_ FILE *f = fdopen(dup(from), "r");
    _cleanup_free_ char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int r = f ? 0 : -errno;
    if (f)
        rewind(f);
    while (r == 0 && (n = getline(&line, &room, f)) > 0)
        r = show_line(line, (size_t)n, to, colours);
    return r;
}
