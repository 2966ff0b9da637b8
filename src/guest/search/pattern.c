/*
 * Patterns are PCRE2's, compiled by its JIT where the kernel allows that: once for text that is all
 * ASCII, by bytes, which is faster; and once for any other text as UTF-8 with Unicode properties,
 * where bytes that are not UTF-8 match nothing. On ASCII both match the same.
 *
 * There are three ways to find the next matching line:
 *
 * - Every match contains a known string: search for the string, then match the line around it.
 * - The pattern may be run over many lines at once: search with it, then match the line in which
 *   the match begins, because the match may have crossed a line end ("\s" and "[^x]" match one).
 * - Otherwise: match line by line.
 *
 * pattern_scan() decides. It reads only as much of the syntax as that needs, and whatever it does
 * not know makes the pattern match line by line, which is always right.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "buf.h"
#include "pattern.h"
#include "utf8.h"
#include "banned.h"

#define MATCH_LIMIT     2000000u
#define DEPTH_LIMIT     100000u
#define HEAP_LIMIT      (32u << 10) /* KiB */
#define JIT_STACK_FIRST (32u << 10)
#define JIT_STACK_MAX   (4u << 20)

/* Bytes that a pattern is run over at once. It bounds what "<[^>]*>" costs on a text without ">".
 */
#define CHUNK (16u << 10)

enum text_class { ASCII, UNICODE, TEXT_CLASSES };

struct pattern {
    pcre2_code *code[TEXT_CLASSES];     /* [ASCII] may be NULL */
    pcre2_code *required[TEXT_CLASSES]; /* a string that every match contains; NULL: none known */
    bool exact;                         /* the pattern is that string */
    bool by_line;                       /* must not be run over many lines at once */
    bool line_end; /* has a "$": by line where carriage returns precede line ends */
    bool keeps_cr; /* names a carriage return: one at the end of a line is part of the line */
};

struct matcher {
    const struct pattern *p;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    int error;    /* of PCRE2 */
    bool by_line; /* over many lines at once it ran into a limit */
};

struct pattern *pattern_free(struct pattern *p)
{
    if (!p)
        return NULL;
    for (int i = 0; i < TEXT_CLASSES; i++) {
        pcre2_code_free(p->code[i]);
        pcre2_code_free(p->required[i]);
    }
    free(p);
    return NULL;
}

unsigned text_kinds(const uint8_t *s, size_t n)
{
    uint8_t high = 0, nul = 0, cr = 0;
    for (size_t i = 0; i < n; i++) { /* without branches, so that the compiler vectorizes it */
        high |= s[i];
        nul |= s[i] == 0;
        cr |= s[i] == '\r';
    }
    return (nul ? TEXT_NUL : 0u) | (high & 0x80 ? TEXT_NON_ASCII : 0u) | (cr ? TEXT_CR : 0u);
}

/* Reading a pattern: the longest run of literal characters outside of groups and classes. */
struct scan_state {
    const char *at, *end;
    struct buf run, best;
    size_t last;        /* where the last character of the run begins */
    unsigned depth;     /* of groups */
    bool alternatives;  /* at depth 0: no string is in every match */
    bool names_newline; /* outside of a class */
};

static void scan_end_run(struct scan_state *s)
{
    if (s->run.len > s->best.len) {
        s->best.len = 0;
        buf_append(&s->best, s->run.data, s->run.len);
    }
    s->run.len = 0;
}

static void scan_literal(struct scan_state *s, struct pattern *p, const char *c, size_t n)
{
    s->names_newline |= *c == '\n';
    p->keeps_cr |= *c == '\r';
    s->last = s->run.len;
    if (s->depth == 0)
        buf_append(&s->run, c, n);
}

/* A class: only its end and whether it names a carriage return matter. False if it is not simple.
 */
static bool scan_class(struct scan_state *s, struct pattern *p)
{
    const char *c = s->at + 1;
    c += c < s->end && *c == '^';
    for (const char *first = c; c < s->end && (*c != ']' || c == first); c++) {
        if (*c == '[' && c + 1 < s->end && strchr(":.=", c[1]))
            return false;
        p->keeps_cr |= *c == '\r';
        if (*c == '\\') {
            if (++c == s->end || strchr("QE", *c))
                return false;
            p->keeps_cr |= *c == 'r';
        }
    }
    if (c >= s->end)
        return false;
    s->at = c + 1;
    return true;
}

/* A backslash and what it escapes. False if it is unknown. */
static bool scan_escape(struct scan_state *s, struct pattern *p)
{
    static const char controls[] = "nrtfea", stand_for[] = "\n\r\t\f\033\a";
    const char *c = s->at + 1;
    if (c == s->end)
        return false;
    size_t n = utf8_character((const uint8_t *)c, (size_t)(s->end - c));
    s->at = c + (n ? n : 1);
    const char *control = *c ? strchr(controls, *c) : NULL;
    if (control)
        scan_literal(s, p, &stand_for[control - controls], 1);
    else if (!isalnum((unsigned char)*c))
        scan_literal(s, p, c, n ? n : 1);
    else {
        scan_end_run(s);
        p->by_line |= strchr("AzZGKRXv", *c) != NULL;
        return strchr("dDwWsShHVbBAzZGKRXv", *c);
    }
    return true;
}

/* Something repeated, perhaps never: what stands before it is in no required string. "{" may stand
 * for itself. */
static void scan_repetition(struct scan_state *s, struct pattern *p)
{
    const char *c = s->at + 1;
    if (*s->at == '{') {
        while (c < s->end && (isdigit((unsigned char)*c) || *c == ',' || *c == ' '))
            c++;
        if (c == s->end || *c != '}' || c == s->at + 1) {
            scan_literal(s, p, s->at++, 1);
            return;
        }
        c++;
    }
    if (*s->at != '+' && s->run.len > 0)
        s->run.len = s->last;
    scan_end_run(s);
    p->by_line |= c < s->end && *c == '+'; /* possessive */
    s->at = c + (c < s->end && (*c == '+' || *c == '?'));
}

/*
 * One step; false if what follows cannot be read. Sets by_line for what may keep a line that
 * matches alone from matching as a part of the text: lookaround, atomic groups, possessive
 * repetition, \A, \z.
 */
static bool scan_step(struct scan_state *s, struct pattern *p)
{
    char c = *s->at;
    if (c == '\\')
        return scan_escape(s, p);
    if (c && strchr("*+?{", c)) {
        scan_repetition(s, p);
        return true;
    }
    if (!c || !strchr("[().^$|", c)) {
        size_t n = utf8_character((const uint8_t *)s->at, (size_t)(s->end - s->at));
        scan_literal(s, p, s->at, n ? n : 1);
        s->at += n ? n : 1;
        return true;
    }
    scan_end_run(s);
    if (c == '[')
        return scan_class(s, p);
    s->at++;
    if (c == '(') {
        s->depth++;
        if (s->at < s->end && *s->at == '*')
            return false;
        if (s->at < s->end && *s->at == '?') {
            if (s->at + 1 == s->end || !strchr(":=!<>|", s->at[1]))
                return false; /* options, comments, conditions, … */
            p->by_line |= s->at[1] != ':';
            s->at += 2;
        }
    }
    p->line_end |= c == '$';
    s->alternatives |= c == '|' && s->depth == 0;
    return c != ')' || s->depth-- > 0;
}

static pcre2_code *compile_one(const void *text, size_t n, uint32_t options, int *ret_code,
                               size_t *ret_offset)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return NULL;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *code = pcre2_compile(text, n, options, ret_code, ret_offset, context);
    pcre2_compile_context_free(context);
    /* Where the kernel forbids executable memory, the pattern is interpreted. */
    if (code)
        pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return code;
}

/* Compiles for both classes of text; a pattern outside of ASCII needs only the one. */
static int compile_both(const void *text, size_t n, uint32_t options, pcre2_code **ret,
                        int *ret_code, size_t *ret_offset)
{
    const uint32_t unicode =
        PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | (options & PCRE2_LITERAL ? 0 : PCRE2_UCP);
    ret[UNICODE] = compile_one(text, n, options | unicode, ret_code, ret_offset);
    if (!ret[UNICODE])
        return -EINVAL;
    if (!(text_kinds(text, n) & TEXT_NON_ASCII))
        ret[ASCII] = compile_one(text, n, options, ret_code, ret_offset);
    return 0;
}

/* A single character is in most lines, unless it is a rare one. */
static bool is_worth_searching(const struct buf *s)
{
    return s->len > 1 || (s->len == 1 && !strchr(" etaoinrslcdupmf_hgb,(.);=\"", s->data[0]));
}

/* Finds out how to run the pattern. 0, -ENOMEM, or -EINVAL if no line can match it. */
static int pattern_scan(struct pattern *p, const char *text, size_t n, uint32_t options)
{
    _cleanup_buf_ struct buf run = BUF_INIT(PATTERN_MAX), best = BUF_INIT(PATTERN_MAX);
    struct scan_state s = {.at = text, .end = text + n, .run = run, .best = best};
    bool known = true;
    int r = 0, code;
    size_t offset;
    if (options & PCRE2_LITERAL) {
        p->keeps_cr = memchr(text, '\r', n);
        p->exact = true; /* and needs no other string */
        return memchr(text, '\n', n) ? -EINVAL : 0;
    }
    while (s.at < s.end && known)
        known = scan_step(&s, p);
    p->by_line |= !known;
    scan_end_run(&s);
    run = s.run, best = s.best;
    if (run.failed || best.failed)
        return -ENOMEM;
    if (s.names_newline)
        return -EINVAL;
    p->exact = !p->by_line && best.len == n && memcmp(best.data, text, n) == 0;
    if (known && !p->exact && !s.alternatives && is_worth_searching(&best))
        r = compile_both(best.data, best.len, PCRE2_LITERAL | (options & PCRE2_CASELESS),
                         p->required, &code, &offset);
    return r < 0 ? -ENOMEM : 0;
}

int pattern_compile(const char *text, size_t n, const struct pattern_options *o,
                    struct pattern **ret, struct error *err)
{
    if (n == 0)
        return error_set(err, EINVAL, "pattern: is empty, and would match every line");
    if (n > PATTERN_MAX)
        return error_set(err, EINVAL, "pattern: is longer than %d bytes", PATTERN_MAX);
    struct pattern *p = calloc(1, sizeof *p);
    if (!p)
        return error_errno(err, ENOMEM, "pattern");
    size_t skip = !o->literal && n > 4 && memcmp(text, "(?i)", 4) == 0 ? 4 : 0, offset = 0;
    const uint32_t options =
        (o->literal ? PCRE2_LITERAL : PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE) |
        (o->ignore_case || skip ? PCRE2_CASELESS : 0);
    int code = 0;
    int r = pattern_scan(p, text + skip, n - skip, options);
    if (r == -EINVAL)
        error_set(
            err, EINVAL,
            "pattern: asks for a line end, but a match lies within one line; search for one of the "
            "lines, and ask for context lines to see the others");
    else if (r < 0)
        error_errno(err, -r, "pattern");
    else if ((r = compile_both(text + skip, n - skip, options, p->code, &code, &offset)) < 0) {
        /* The pattern with an arrow at the offset. */
        PCRE2_UCHAR why[160] = "no memory";
        pcre2_get_error_message(code, why, sizeof why);
        offset += skip;
        size_t from = offset > 60 ? offset - 60 : 0, shown = n - from < 100 ? n - from : 100;
        error_set(
            err, EINVAL,
            "pattern: %s, at offset %zu: %.*s → %.*s (escape a character with a backslash, or set "
            "\"literal\" to search for the text as it is)",
            (const char *)why, offset, (int)(offset - from), text + from,
            (int)(shown - (offset - from)), text + offset);
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
    m->by_line = p->by_line && !p->required[UNICODE];
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

const char *matcher_error(const struct matcher *m)
{
    switch (m->error) {
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

/* One match in [from, n). 1, 0, -E2BIG. */
static int matcher_run(struct matcher *m, const pcre2_code *code, const uint8_t *text, size_t n,
                       size_t from, size_t *ret_begin, size_t *ret_end)
{
    int r = pcre2_match(code, text, n, from, 0, m->data, m->context);
    if (r == PCRE2_ERROR_NOMATCH)
        return 0;
    if (r < 0) {
        m->error = r;
        return -E2BIG;
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
    *ret_begin = span[0];
    *ret_end = span[1] < span[0] ? span[0] : span[1];
    return 1;
}

/* The line around `at`, which begins at `from` or later. */
static void matcher_find_line(const struct matcher *m, const uint8_t *text, size_t n, size_t from,
                              size_t at, struct hit *h)
{
    const uint8_t *before = memrchr(text + from, '\n', at - from), *end;
    end = at < n ? memchr(text + at, '\n', n - at) : NULL;
    h->line = before ? (size_t)(before + 1 - text) : from;
    h->line_end = end ? (size_t)(end - text) : n;
    h->next = h->line_end < n ? h->line_end + 1 : n;
    if (!m->p->keeps_cr && h->line_end > h->line && text[h->line_end - 1] == '\r')
        h->line_end--;
}

static int matcher_match_line(struct matcher *m, const pcre2_code *code, const uint8_t *text,
                              struct hit *h)
{
    int r =
        matcher_run(m, code, text + h->line, h->line_end - h->line, 0, &h->match, &h->match_end);
    h->match += h->line;
    h->match_end += h->line;
    return r;
}

int matcher_next(struct matcher *m, const uint8_t *text, size_t n, unsigned kinds, size_t at,
                 struct hit *ret)
{
    const struct pattern *p = m->p;
    enum text_class c = p->code[ASCII] && !(kinds & TEXT_NON_ASCII) ? ASCII : UNICODE;
    const pcre2_code *required = p->required[p->required[ASCII] ? c : UNICODE];
    const pcre2_code *finder = required ? required : p->code[c];
    bool by_line = p->line_end && kinds & TEXT_CR && !required;
    while (at < n) {
        size_t begin, end;
        if (m->by_line || by_line) {
            matcher_find_line(m, text, n, at, at, ret);
        } else {
            const uint8_t *line_end =
                n - at > CHUNK ? memchr(text + at + CHUNK, '\n', n - at - CHUNK) : NULL;
            size_t chunk = line_end ? (size_t)(line_end + 1 - text) : n;
            int r = matcher_run(m, finder, text, chunk, at, &begin, &end);
            m->by_line = r < 0; /* PCRE2 does not say in which line: find out */
            /* An empty match behind the last line end is in no line of the chunk. */
            if (r == 0 || (r > 0 && begin == chunk && text[chunk - 1] == '\n'))
                at = chunk;
            if (r < 0 || at == chunk)
                continue;
            matcher_find_line(m, text, n, at, begin, ret);
            if (p->exact) {
                ret->match = begin;
                ret->match_end = end;
                return 1;
            }
        }
        int r = matcher_match_line(m, p->code[c], text, ret);
        if (r != 0)
            return r;
        at = ret->next;
    }
    return 0;
}
