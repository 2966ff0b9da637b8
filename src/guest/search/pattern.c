/*
 * Compiling a pattern.
 *
 * It is compiled twice: for text that is all ASCII, by bytes, which is faster; and for any other as
 * UTF-8 with Unicode's properties, where bytes that are no UTF-8 match nothing. On ASCII both say
 * the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pattern_private.h"
#include "banned.h"

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

static pcre2_code *compile(const void *text, size_t n, uint32_t options, int *ret_code,
                           size_t *ret_offset)
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
    return error_set(
        err, EINVAL,
        "pattern: %s, at offset %zu: %.*s → %.*s (escape a character with a backslash, or set "
        "\"literal\" to search for the text as it is)",
        (const char *)why, offset, (int)(offset - from), text + from,
        (int)(shown - (offset - from)), text + offset);
}

static bool all_ascii(const char *text, size_t n)
{
    return !(bytes_kinds((const uint8_t *)text, n) & BYTES_HIGH);
}

static int compile_all(struct pattern *p, const char *text, size_t n,
                       const struct pattern_options *o, size_t shift, struct error *err)
{
    const uint32_t common =
        (o->literal ? PCRE2_LITERAL : PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE) |
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
    p->facts = (struct regex_facts){.plain = !p->fold || all_ascii(text, n),
                                    .literals = BUF_INIT(REGEX_MAX)};
    p->facts.line_end = memchr(text, '\n', n);
    p->facts.cr = memchr(text, '\r', n);
    if (!p->facts.plain)
        return 0;
    p->facts.sizes[p->facts.n_literals++] = n;
    return buf_append(&p->facts.literals, text, n);
}

int pattern_compile(const char *text, size_t n, const struct pattern_options *o,
                    struct pattern **ret, struct error *err)
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
        r = error_set(
            err, EINVAL,
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
