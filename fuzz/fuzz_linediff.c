/* The diff of any two texts, applied to the first, gives the second; and its totals are those of
 * its lines. */
#include <stdlib.h>
#include <string.h>

#include "compose.h"
#include "linediff.h"
#include "text.h"
#include "banned.h"

#define OUT_MAX (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Text that is read line by line. */
struct text {
    const char *at, *end;
    unsigned long line; /* how many were read */
};

static size_t line_length(const struct text *t)
{
    const char *newline = memchr(t->at, '\n', (size_t)(t->end - t->at));
    return newline ? (size_t)(newline + 1 - t->at) : (size_t)(t->end - t->at);
}

static void copy_line(struct text *from, struct buf *out)
{
    size_t n = line_length(from);
    require(n > 0);
    buf_append(out, from->at, n);
    from->at += n;
    from->line++;
}

/* The length of a line in the diff as it is in the text: a marker behind it says that it ends
 * without a newline. */
static size_t content_length(const struct text *diff, size_t n)
{
    return diff->at + n < diff->end && diff->at[n] == '\\' ? n - 1 : n;
}

static void take_line(struct text *diff, struct text *a, struct buf *out, uint64_t count[2])
{
    char kind = *diff->at++;
    size_t n = line_length(diff), content = content_length(diff, n);
    const char *line = diff->at;
    require(kind == ' ' || kind == '+' || kind == '-');
    if (kind != '+') {
        require(content <= (size_t)(a->end - a->at) && memcmp(a->at, line, content) == 0);
        a->at += content;
        a->line++;
    }
    if (kind != '-')
        buf_append(out, line, content);
    if (kind != ' ')
        count[kind == '-']++;
    diff->at += n;
    if (content < n)
        diff->at += line_length(diff);
}

static void apply(struct text *diff, struct text *a, struct buf *out, uint64_t count[2])
{
    while (diff->at < diff->end) {
        require(line_length(diff) > 4 && memcmp(diff->at, "@@ -", 4) == 0);
        unsigned long first = strtoul(diff->at + 4, NULL, 10);
        diff->at += line_length(diff);
        while (a->line + 1 < first)
            copy_line(a, out);
        while (diff->at < diff->end && *diff->at != '@')
            take_line(diff, a, out, count);
    }
    buf_append(out, a->at, (size_t)(a->end - a->at));
}

static int append(void *data, const void *bytes, size_t n)
{
    return buf_append(data, bytes, n);
}

static void check(const char *a, size_t an, const char *b, size_t bn)
{
    _cleanup_buf_ struct buf printed = BUF_INIT(OUT_MAX), out = BUF_INIT(OUT_MAX);
    struct linediff d;
    uint64_t added, deleted, count[2] = {0};
    require(linediff_make(a, an, b, bn, &d) == 0);
    require(linediff_print(&d, append, &printed) == 0);
    linediff_totals(&d, &added, &deleted);
    linediff_free(&d);
    const char *text = printed.len ? (const char *)printed.data : "";
    apply(&(struct text){text, text + printed.len, 0}, &(struct text){a, a + an, 0}, &out, count);
    require(out.len == bn && (bn == 0 || memcmp(out.data, b, bn) == 0));
    require(added == count[0] && deleted == count[1]);
}

/* The first two bytes say where the first text ends. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2)
        return 0;
    size_t cut = (size_t)(data[0] << 8 | data[1]) % (n - 1);
    const char *text = (const char *)data + 2;
    check(text, cut, text + cut, n - 2 - cut);
    return 0;
}
