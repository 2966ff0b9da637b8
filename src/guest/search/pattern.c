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
 * pattern_read() decides. It reads only as much of the syntax as that needs, and whatever it does
 * not know makes the pattern match line by line, which is always right.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "search.h"
#include "text.h"
#include "banned.h"

#define MATCH_LIMIT     2000000u
#define DEPTH_LIMIT     100000u
#define HEAP_LIMIT      (32u << 10) /* KiB */
#define JIT_STACK_FIRST (32u << 10)
#define JIT_STACK_MAX   (4u << 20)

/* Bytes that a pattern is run over at once. It bounds what "<[^>]*>" costs on a text without
 * ">". */
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

/*
 * What reading the pattern found out: the longest run of literal characters outside of groups and
 * classes, which every match contains unless there are alternatives.
 */
struct pattern_syntax {
    struct buf run, best;
    unsigned depth;     /* of groups */
    bool alternatives;  /* outside of groups */
    bool names_newline; /* outside of a class */
};

static void pattern_end_run(struct pattern_syntax *s)
{
    if (s->run.len > s->best.len) {
        s->best.len = 0;
        buf_append(&s->best, s->run.data, s->run.len);
    }
    s->run.len = 0;
}

/* Behind the class at c, of which it only matters whether it names a carriage return. NULL if it is
 * not simple. */
static const char *pattern_skip_class(struct pattern *p, const char *c, const char *end)
{
    c++;
    c += c < end && *c == '^';
    for (const char *first = c; c < end && (*c != ']' || c == first); c++) {
        if (*c == '[' && c + 1 < end && strchr(":.=", c[1]))
            return NULL;
        p->keeps_cr |= *c == '\r';
        if (*c == '\\') {
            if (++c == end || strchr("QE", *c))
                return NULL;
            p->keeps_cr |= *c == 'r';
        }
    }
    return c < end ? c + 1 : NULL;
}

/* Behind the repetition at c; c itself if it is a brace that means itself. */
static const char *pattern_skip_repetition(struct pattern *p, const char *c, const char *end)
{
    const char *begin = c++;
    if (*begin == '{') {
        while (c < end && (isdigit((unsigned char)*c) || *c == ',' || *c == ' '))
            c++;
        if (c == end || *c != '}' || c == begin + 1)
            return begin;
        c++;
    }
    p->by_line |= c < end && *c == '+'; /* possessive */
    return c + (c < end && (*c == '+' || *c == '?'));
}

/*
 * Reads the pattern. False if there is something in it that this does not know. Sets by_line for
 * what may keep a line that matches alone from matching as a part of the text: lookaround, atomic
 * groups, possessive repetition, \A, \z.
 */
static bool pattern_read(struct pattern *p, const char *c, const char *end,
                         struct pattern_syntax *s)
{
    static const char CONTROLS[] = "nrtfea", MEANT[] = "\n\r\t\f\033\a";
    size_t last = 0; /* where the last character of the run begins */
    while (c < end) {
        bool escape = *c == '\\';
        c += escape;
        if (c == end)
            return false;
        const char *literal = c;
        size_t n = utf8_character((const uint8_t *)c, (size_t)(end - c));
        n = n ? n : 1;
        if (escape) {
            const char *control = *c ? strchr(CONTROLS, *c) : NULL;
            if (control) {
                literal = &MEANT[control - CONTROLS];
            } else if (isalnum((unsigned char)*c)) {
                if (!strchr("dDwWsShHVbBAzZGKRXv", *c))
                    return false;
                p->by_line |= strchr("AzZGKRXv", *c) != NULL;
                literal = NULL;
            }
        } else if (*c && strchr("*+?{", *c)) {
            const char *behind = pattern_skip_repetition(p, c, end);
            if (behind > c) {
                /* What may occur zero times is in no required string. */
                if (*c != '+' && s->run.len > 0)
                    s->run.len = last;
                pattern_end_run(s);
                c = behind;
                continue;
            }
        } else if (*c == '[') {
            pattern_end_run(s);
            c = pattern_skip_class(p, c, end);
            if (!c)
                return false;
            continue;
        } else if (*c == '(') {
            literal = NULL;
            s->depth++;
            if (c + 1 < end && c[1] == '*')
                return false;
            if (c + 1 < end && c[1] == '?') {
                if (c + 2 == end || !strchr(":=!<>|", c[2]))
                    return false; /* options, comments, conditions, … */
                p->by_line |= c[2] != ':';
                n = 3;
            }
        } else if (*c && strchr(").^$|", *c)) {
            literal = NULL;
            p->line_end |= *c == '$';
            s->alternatives |= *c == '|' && s->depth == 0;
            if (*c == ')' && s->depth-- == 0)
                return false;
        }
        if (literal) {
            s->names_newline |= *literal == '\n';
            p->keeps_cr |= *literal == '\r';
            last = s->run.len;
            if (s->depth == 0)
                buf_append(&s->run, literal, n);
        } else {
            pattern_end_run(s);
        }
        c += n;
    }
    return true;
}

/* Compiles for both classes of text; a pattern outside of ASCII needs only the one. */
static int pattern_compile_both(const void *text, size_t n, uint32_t options, pcre2_code **ret,
                                int *ret_code, size_t *ret_offset)
{
    const uint32_t unicode =
        PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | (options & PCRE2_LITERAL ? 0 : PCRE2_UCP);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return -EINVAL;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    ret[UNICODE] = pcre2_compile(text, n, options | unicode, ret_code, ret_offset, context);
    if (ret[UNICODE] && !(text_kinds(text, n) & TEXT_NON_ASCII))
        ret[ASCII] = pcre2_compile(text, n, options, ret_code, ret_offset, context);
    pcre2_compile_context_free(context);
    /* Where the kernel forbids executable memory, the pattern is interpreted. */
    for (int i = 0; i < TEXT_CLASSES; i++)
        if (ret[i])
            pcre2_jit_compile(ret[i], PCRE2_JIT_COMPLETE);
    return ret[UNICODE] ? 0 : -EINVAL;
}

/* Finds out how to run the pattern. 0, -ENOMEM, or -EINVAL if no line can match it. */
static int pattern_plan(struct pattern *p, const char *text, size_t n, uint32_t options)
{
    static const char FREQUENT[] = " etaoinrslcdupmf_hgb,(.);=\"";
    struct pattern_syntax s = {.run = BUF_INIT(PATTERN_MAX), .best = BUF_INIT(PATTERN_MAX)};
    int r = 0, code;
    size_t offset;
    if (options & PCRE2_LITERAL) {
        p->keeps_cr = memchr(text, '\r', n);
        p->exact = true; /* and needs no other string */
        return memchr(text, '\n', n) ? -EINVAL : 0;
    }
    bool known = pattern_read(p, text, text + n, &s);
    p->by_line |= !known;
    pattern_end_run(&s);
    const struct buf *best = &s.best;
    p->exact = !p->by_line && best->len == n && memcmp(best->data, text, n) == 0;
    /* A single character is in most lines, unless it is a rare one. */
    bool worth = best->len > 1 || (best->len == 1 && !strchr(FREQUENT, best->data[0]));
    if (s.run.failed || best->failed)
        r = -ENOMEM;
    else if (s.names_newline)
        r = -EINVAL;
    else if (known && !p->exact && !s.alternatives && worth &&
             pattern_compile_both(best->data, best->len, PCRE2_LITERAL | (options & PCRE2_CASELESS),
                                  p->required, &code, &offset) < 0)
        r = -ENOMEM;
    buf_free(&s.run);
    buf_free(&s.best);
    return r;
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
    int r = pattern_plan(p, text + skip, n - skip, options);
    if (r == -EINVAL)
        error_set(
            err, EINVAL,
            "pattern: contains a line end, but a match lies within one line; search for one of the "
            "lines and request context lines to see the others");
    else if (r < 0)
        error_errno(err, -r, "pattern");
    else if ((r = pattern_compile_both(text + skip, n - skip, options, p->code, &code, &offset)) <
             0) {
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
        int r = matcher_run(m, p->code[c], text + ret->line, ret->line_end - ret->line, 0, &begin,
                            &end);
        if (r < 0)
            return r;
        if (r > 0) {
            ret->match = ret->line + begin;
            ret->match_end = ret->line + end;
            return r;
        }
        at = ret->next;
    }
    return 0;
}
