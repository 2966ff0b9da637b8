/*
 * A snippet: the stretch of a text that has the most of what was asked for, on one line.
 *
 * Where the terms stand is looked for as letters, without the tokenizer: a stemmed or composed form
 * may not be found, and then the beginning of the text is shown.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "memory_private.h"
#include "utf8.h"
#include "banned.h"

#define BEFORE     80 /* bytes shown in front of the first match */
#define PLACES_MAX 64

struct place {
    size_t at, term;
};

static size_t next_place(const char *text, size_t from, size_t n, const char *term)
{
    size_t length = strlen(term);
    for (size_t i = from; i + length <= n; i++)
        if (strncasecmp(text + i, term, length) == 0)
            return i;
    return n;
}

/* How many different terms are within one snippet from place i on? */
static size_t coverage(const struct place *p, size_t n, size_t i)
{
    uint64_t seen = 0;
    for (size_t k = i; k < n && p[k].at < p[i].at + MEMORY_SNIPPET_MAX - 2 * BEFORE; k++)
        seen |= UINT64_C(1) << p[k].term;
    return (size_t)__builtin_popcountll(seen);
}

static int compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static size_t best_place(const char *text, size_t n, const struct memory_terms *t)
{
    struct place places[PLACES_MAX];
    size_t count = 0, best = 0;
    for (size_t term = 0; term < t->count; term++)
        for (size_t at = 0, each = 0;
             each < PLACES_MAX / MEMORY_TERMS_MAX + 1 && count < PLACES_MAX; each++) {
            at = next_place(text, at, n, t->texts[term]);
            if (at == n)
                break;
            places[count++] = (struct place){at, term};
            at += strlen(t->texts[term]);
        }
    if (count == 0)
        return 0;
    qsort(places, count, sizeof *places, compare);
    for (size_t i = 1; i < count; i++)
        if (coverage(places, count, i) > coverage(places, count, best))
            best = i;
    return places[best].at;
}

int memory_snippet(const char *text, size_t n, const struct memory_terms *t, struct buf *ret)
{
    size_t at = best_place(text, n, t), from = at > BEFORE ? at - BEFORE : 0, used = ret->len;
    bool blank = false;
    from += utf8_cut_start((const uint8_t *)text + from, n - from);
    if (from > 0)
        buf_append_str(ret, "…");
    size_t i = from;
    while (i < n) {
        size_t size = utf8_character((const uint8_t *)text + i, n - i);
        bool space =
            size == 0 || text[i] == ' ' || utf8_is_control((const uint8_t *)text + i, size);
        if (ret->len - used + size + 1 > MEMORY_SNIPPET_MAX - 6)
            break;
        if (!space && blank && i > from)
            buf_append(ret, " ", 1);
        if (!space)
            buf_append(ret, text + i, size);
        blank = space;
        i += size ? size : 1;
    }
    if (i < n)
        buf_append_str(ret, "…");
    return ret->failed ? -ENOBUFS : 0;
}
