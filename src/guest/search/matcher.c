/*
 * Matching. There are four ways to find the next line that matches:
 *
 * - The pattern is a string: it is looked for, and that is all.
 * - Every match contains one of a few strings: they are looked for, and the line around one is
 * matched.
 * - Nothing in the pattern can match a line end: it is run over all of the text (see regex.h).
 * - Whatever is left, and text with carriage returns: line by line.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pattern_private.h"
#include "banned.h"

#define MATCH_LIMIT     2000000u
#define DEPTH_LIMIT     100000u
#define HEAP_LIMIT      (32u << 10) /* KiB */
#define JIT_STACK_FIRST (32u << 10)
#define JIT_STACK_MAX   (4u << 20)
#define PART            4096 /* bytes of the text in which several literals are looked for at a time */

struct matcher {
    const struct pattern *p;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    int why; /* PCRE2's number */
};

struct matcher *matcher_free(struct matcher *m)
{
    if (!m)
        return NULL;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_jit_stack_free(m->stack);
    free(m);
    return NULL;
}

int matcher_new(const struct pattern *p, struct matcher **ret)
{
    struct matcher *m = calloc(1, sizeof *m);
    if (!m)
        return -ENOMEM;
    m->p = p;
    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MAX, NULL);
    if (!m->data || !m->context || !m->stack) {
        matcher_free(m);
        return -ENOMEM;
    }
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    pcre2_set_depth_limit(m->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(m->context, HEAP_LIMIT);
    pcre2_jit_stack_assign(m->context, NULL, m->stack);
    *ret = m;
    return 0;
}

const char *matcher_why(const struct matcher *m)
{
    switch (m->why) {
    case PCRE2_ERROR_MATCHLIMIT:
        return "it tries too many ways to match";
    case PCRE2_ERROR_JIT_STACKLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
        return "it needs too much memory to match";
    default:
        return "it recurses without an end, or fails in another way";
    }
}

/* One match in n bytes from `from` on. 1, 0, -E2BIG. */
static int match(struct matcher *m, const pcre2_code *code, const uint8_t *text, size_t n,
                 size_t from, struct hit *h)
{
    int r = pcre2_match(code, text, n, from, 0, m->data, m->context);
    if (r == PCRE2_ERROR_NOMATCH)
        return 0;
    if (r < 0) {
        m->why = r;
        return -E2BIG;
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
    h->match = span[0];
    h->match_end = span[1] < span[0] ? span[0] : span[1];
    return 1;
}

/* The line around `at`, which begins at `from` or later. */
static void around(const struct matcher *m, const uint8_t *text, size_t n, size_t from, size_t at,
                   struct hit *h)
{
    size_t before = bytes_find_last(text + from, at - from, '\n');
    h->line = before == at - from ? from : from + before + 1;
    h->line_end = at + bytes_find(text + at, n - at, '\n');
    h->next = h->line_end < n ? h->line_end + 1 : n;
    if (!m->p->wants_cr && h->line_end > h->line && text[h->line_end - 1] == '\r')
        h->line_end--;
}

static const pcre2_code *choose(const struct matcher *m, enum pattern_way way, unsigned kinds)
{
    const pcre2_code *bytes = m->p->code[0][way];
    return bytes && !(kinds & BYTES_HIGH) ? bytes : m->p->code[1][way];
}

static int match_line(struct matcher *m, const pcre2_code *code, const uint8_t *text, struct hit *h)
{
    int r = match(m, code, text + h->line, h->line_end - h->line, 0, h);
    h->match += h->line;
    h->match_end += h->line;
    return r;
}

static int each_line(struct matcher *m, const uint8_t *text, size_t n, unsigned kinds, size_t at,
                     struct hit *h)
{
    const pcre2_code *code = choose(m, EACH_LINE, kinds);
    int r = 0;
    for (; at < n && r == 0; at = h->next) {
        around(m, text, n, at, at, h);
        r = match_line(m, code, text, h);
    }
    return r;
}

static int many_lines(struct matcher *m, const uint8_t *text, size_t n, unsigned kinds, size_t at,
                      struct hit *h)
{
    int r = match(m, choose(m, MANY_LINES, kinds), text, n, at, h);
    if (r == -E2BIG) /* not said in which line: find it */
        return each_line(m, text, n, kinds, at, h);
    /* Behind the last line end there is no line. */
    if (r <= 0 || (h->match == n && (n == 0 || text[n - 1] == '\n')))
        return 0;
    around(m, text, n, at, h->match, h);
    return 1;
}

/* The first place from `at` on that one of the literals is at, or n. A part of the text at a time,
 * so that no finder runs far ahead of a literal that is near. */
static size_t find_literal(const struct pattern *p, const uint8_t *text, size_t n, size_t at,
                           size_t *ret_size)
{
    if (p->n_finders == 1) {
        *ret_size = p->finders[0].n;
        return finder_find(&p->finders[0], text, n, at);
    }
    for (; at < n; at += PART) {
        size_t best = n - at > PART ? at + PART : n;
        bool found = false;
        for (size_t i = 0; i < p->n_finders; i++) {
            const struct finder *f = &p->finders[i];
            size_t end = n - best > f->n - 1 ? best + f->n - 1 : n; /* it begins before the best */
            size_t here = finder_find(f, text, end, at);
            if (here < end) {
                best = here;
                *ret_size = f->n;
                found = true;
            }
        }
        if (found)
            return best;
    }
    return n;
}

static int by_finder(struct matcher *m, const uint8_t *text, size_t n, unsigned kinds, size_t at,
                     struct hit *h)
{
    const pcre2_code *code = m->p->facts.plain ? NULL : choose(m, EACH_LINE, kinds);
    size_t size = 0;
    while (at < n) {
        size_t found = find_literal(m->p, text, n, at, &size);
        if (found == n)
            return 0;
        around(m, text, n, at, found, h);
        h->match = found;
        h->match_end = found + size;
        int r = code ? match_line(m, code, text, h) : 1;
        if (r != 0)
            return r;
        at = h->next;
    }
    return 0;
}

int matcher_next(struct matcher *m, const uint8_t *text, size_t n, unsigned kinds, size_t at,
                 struct hit *ret)
{
    const struct pattern *p = m->p;
    if (at >= n)
        return 0;
    if (p->n_finders > 0 && !(p->folds_further && kinds & BYTES_HIGH))
        return by_finder(m, text, n, kinds, at, ret);
    if (p->code[1][MANY_LINES] && !(kinds & BYTES_CR))
        return many_lines(m, text, n, kinds, at, ret);
    return each_line(m, text, n, kinds, at, ret);
}
