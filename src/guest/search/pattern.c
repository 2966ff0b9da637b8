/*
 * There are four ways to find the next line that matches:
 *
 *   a string     the pattern is one: it is looked for, and that is all
 *   a candidate  every match contains one of a few strings: they are looked for, and the line around one is
 * matched many lines   nothing in the pattern can match a line end: it is run over all of the text (see
 * regex.h) each line    whatever is left, and text with carriage returns: line by line
 *
 * The pattern is compiled twice: for text that is all ASCII, by bytes, which is faster; and for any other as
 * UTF-8 with Unicode's properties, where bytes that are no UTF-8 match nothing. On ASCII both say the same.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "pattern.h"
#include "regex.h"
#include "banned.h"

#define MATCH_LIMIT     2000000u
#define DEPTH_LIMIT     100000u
#define HEAP_LIMIT      (32u << 10) /* KiB */
#define JIT_STACK_FIRST (32u << 10)
#define JIT_STACK_MAX   (4u << 20)
#define PART            4096 /* bytes of the text in which several literals are looked for at a time */

enum way { MANY_LINES, EACH_LINE };

struct pattern {
    struct regex_facts facts;
    bool fold;
    bool folds_further; /* a literal has a letter with a form outside of ASCII: k, s */
    bool wants_cr;
    struct finder finders[REGEX_LITERALS_MAX]; /* of the literals */
    size_t n_finders;
    pcre2_code *code[2][2]; /* [for text outside of ASCII][way]; NULL: not there */
};

struct matcher {
    const struct pattern *p;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    int why; /* PCRE2's number */
};

struct pattern *pattern_free(struct pattern *p)
{
    if (!p)
        return NULL;
    for (int i = 0; i < 4; i++)
        pcre2_code_free(p->code[i / 2][i % 2]);
    regex_facts_free(&p->facts);
    free(p);
    return NULL;
}

static pcre2_code *compile(const void *text, size_t n, uint32_t options, int *ret_code, size_t *ret_offset)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return NULL;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *code = pcre2_compile(text, n, options, ret_code, ret_offset, context);
    pcre2_compile_context_free(context);
    /* Where the kernel does not let code be made, the pattern is interpreted. */
    if (code)
        pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return code;
}

/* The pattern and an arrow below the place. */
static int compile_error(const char *text, size_t n, int code, size_t offset, struct error *err)
{
    PCRE2_UCHAR why[160] = "no memory";
    pcre2_get_error_message(code, why, sizeof why);
    size_t from = offset > 60 ? offset - 60 : 0, shown = n - from < 100 ? n - from : 100;
    return error_set(err, EINVAL,
                     "pattern: %s, at offset %zu: %.*s → %.*s (escape a character with a backslash, or set "
                     "\"literal\" to search for the text as it is)",
                     (const char *)why, offset, (int)(offset - from), text + from,
                     (int)(shown - (offset - from)), text + offset);
}

static bool all_ascii(const char *text, size_t n)
{
    return !(bytes_kinds((const uint8_t *)text, n) & BYTES_HIGH);
}

static int compile_all(struct pattern *p, const char *text, size_t n, const struct pattern_options *o,
                       size_t shift, struct error *err)
{
    const uint32_t common = (o->literal ? PCRE2_LITERAL : PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE) |
                            (p->fold ? PCRE2_CASELESS : 0);
    const uint32_t unicode = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | (o->literal ? 0 : PCRE2_UCP);
    int code = 0;
    size_t offset = 0;
    p->code[1][EACH_LINE] = compile(text, n, common | unicode, &code, &offset);
    if (!p->code[1][EACH_LINE])
        return compile_error(text - shift, n + shift, code, offset + shift, err);
    bool bytes = all_ascii(text, n);
    if (bytes)
        p->code[0][EACH_LINE] = compile(text, n, common, &code, &offset);
    const struct buf *many = &p->facts.spanning;
    if (o->literal || !p->facts.spans || p->n_finders > 0)
        return 0;
    p->code[1][MANY_LINES] = compile(many->data, many->len, common | unicode, &code, &offset);
    if (bytes && p->code[1][MANY_LINES])
        p->code[0][MANY_LINES] = compile(many->data, many->len, common, &code, &offset);
    return 0;
}

static void prepare_finders(struct pattern *p)
{
    uint8_t *at = p->facts.literals.data;
    for (size_t i = 0; i < p->facts.n_literals; i++) {
        size_t n = p->facts.sizes[i];
        for (size_t j = 0; p->fold && j < n; j++) {
            if (at[j] >= 'A' && at[j] <= 'Z')
                at[j] |= 0x20;
            p->folds_further |= at[j] == 'k' || at[j] == 's';
        }
        finder_init(&p->finders[p->n_finders++], at, n, p->fold);
        at += n;
    }
}

static int read_literal(struct pattern *p, const char *text, size_t n)
{
    p->facts = (struct regex_facts){.plain = !p->fold || all_ascii(text, n), .literals = BUF_INIT(REGEX_MAX)};
    p->facts.line_end = memchr(text, '\n', n);
    p->facts.cr = memchr(text, '\r', n);
    if (!p->facts.plain)
        return 0;
    p->facts.sizes[p->facts.n_literals++] = n;
    return buf_append(&p->facts.literals, text, n);
}

int pattern_compile(const char *text, size_t n, const struct pattern_options *o, struct pattern **ret,
                    struct error *err)
{
    if (n == 0)
        return error_set(err, EINVAL, "pattern: is empty, and would match every line");
    if (n > REGEX_MAX)
        return error_set(err, EINVAL, "pattern: is longer than %d bytes", REGEX_MAX);
    struct pattern *p = calloc(1, sizeof *p);
    if (!p)
        return error_errno(err, ENOMEM, "pattern");
    size_t shift = !o->literal && n > 4 && memcmp(text, "(?i)", 4) == 0 ? 4 : 0;
    text += shift, n -= shift;
    p->fold = o->ignore_case || shift;
    int r = o->literal ? read_literal(p, text, n) : regex_read(text, n, p->fold, &p->facts);
    if (r < 0)
        r = error_errno(err, -r, "pattern");
    else if (p->facts.line_end)
        r = error_set(err, EINVAL,
                      "pattern: asks for a line end, but a match lies within one line; search for one of the "
                      "lines, and ask for context lines to see the others");
    if (r >= 0) {
        p->wants_cr = p->facts.cr;
        prepare_finders(p);
        r = compile_all(p, text, n, o, shift, err);
    }
    if (r < 0) {
        pattern_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

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
static int match(struct matcher *m, const pcre2_code *code, const uint8_t *text, size_t n, size_t from,
                 struct hit *h)
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

static const pcre2_code *choose(const struct matcher *m, enum way way, unsigned kinds)
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

/* The first place from `at` on that one of the literals is at, or n. A part of the text at a time, so that no
 * finder runs far ahead of a literal that is near. */
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

int matcher_next(struct matcher *m, const uint8_t *text, size_t n, unsigned kinds, size_t at, struct hit *ret)
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
