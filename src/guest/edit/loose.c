#include <errno.h>
#include <stdlib.h>

#include "buf.h"
#include "fold.h"
#include "loose.h"
#include "banned.h"

/* The search of Knuth, Morris and Pratt over folded bytes, which come one by one. */
struct search {
    struct buf want;   /* `old`, folded */
    uint32_t *failure; /* of the first i + 1 bytes: the length of the longest proper border */
    size_t *begins;    /* a ring: where in the text the last want.len folded bytes came from */
    size_t next;       /* in the ring */
    size_t matched;
};

static void search_free(struct search *s)
{
    buf_free(&s->want);
    free(s->failure);
    free(s->begins);
}

static void fold_all(struct buf *out, struct bytes s)
{
    for (size_t at = 0; at < s.n && !out->failed;) {
        struct folded f = fold_at(s, at);
        buf_append(out, f.bytes, f.n);
        at += f.used;
    }
}

static void fill_failure(struct search *s)
{
    const uint8_t *w = s->want.data;
    s->failure[0] = 0;
    for (uint32_t i = 1, k = 0; i < s->want.len; i++) {
        while (k > 0 && w[i] != w[k])
            k = s->failure[k - 1];
        k += w[i] == w[k];
        s->failure[i] = k;
    }
}

/* 1 if there is something to look for. */
static int search_init(struct search *s, struct bytes old)
{
    fold_all(&s->want, old);
    if (s->want.failed || s->want.len == 0)
        return 0;
    s->failure = calloc(s->want.len, sizeof *s->failure);
    s->begins = calloc(s->want.len, sizeof *s->begins);
    if (!s->failure || !s->begins)
        return -ENOMEM;
    fill_failure(s);
    return 1;
}

/* Takes the next byte, which came from the character at `begin`. True if it completes a place. */
static bool feed(struct search *s, uint8_t byte, size_t begin)
{
    const uint8_t *w = s->want.data;
    s->begins[s->next] = begin;
    s->next = s->next + 1 < s->want.len ? s->next + 1 : 0;
    while (s->matched > 0 && byte != w[s->matched])
        s->matched = s->failure[s->matched - 1];
    s->matched += byte == w[s->matched];
    if (s->matched < s->want.len)
        return false;
    s->matched = 0;
    return true;
}

int loose_find(struct bytes text, struct bytes old, struct loose_span *ret, int max)
{
    _cleanup_(search_free) struct search s = {.want = BUF_INIT(LOOSE_OLD_MAX)};
    int found = 0, r = search_init(&s, old);
    if (r <= 0)
        return r;
    for (size_t at = 0; at < text.n && found < max;) {
        struct folded f = fold_at(text, at);
        for (uint8_t i = 0; i < f.n; i++)
            if (feed(&s, f.bytes[i], at) && found < max)
                ret[found++] = (struct loose_span){s.begins[s.next], at + f.used};
        at += f.used;
    }
    return found;
}
