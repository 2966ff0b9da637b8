#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "regex_private.h"
#include "utf8.h"
#include "banned.h"

void regex_facts_free(struct regex_facts *f)
{
    buf_free(&f->spanning);
    buf_free(&f->literals);
}

void reader_put(struct reader *r, const char *s, size_t n)
{
    buf_append(&r->facts->spanning, s, n);
}

void reader_put_str(struct reader *r, const char *s)
{
    buf_append_str(&r->facts->spanning, s);
}

/* Only this construct must not run over several lines; literals elsewhere hold. */
void reader_stay_in_line(struct reader *r)
{
    r->facts->spans = false;
}

/* With letters of both cases, those outside of ASCII have forms that the finder does not know. */
static void keep_ascii(struct buf *literal)
{
    size_t best = 0, n_best = 0;
    for (size_t i = 0, begin = 0; i <= literal->len; i++)
        if (i == literal->len || literal->data[i] >= 0x80) {
            if (i - begin > n_best)
                best = begin, n_best = i - begin;
            begin = i + 1;
        }
    if (n_best > 0)
        memmove(literal->data, literal->data + best, n_best);
    literal->len = n_best;
}

void reader_end_run(struct reader *r)
{
    if (r->fold)
        keep_ascii(&r->run);
    if (r->run.len > r->best.len) {
        r->best.len = 0;
        buf_append(&r->best, r->run.data, r->run.len);
    }
    r->run.len = 0;
}

/* One character alone is in most lines, unless it is a rare one. */
static bool is_worth_finding(const struct buf *s)
{
    return s->len > 1 || (s->len == 1 && !strchr(" etaoinrslcdupmf_hgb,(.);=\"", s->data[0]));
}

static void end_alternative(struct reader *r)
{
    struct regex_facts *f = r->facts;
    r->lacks |= f->n_literals == REGEX_LITERALS_MAX || !is_worth_finding(&r->best);
    if (!r->lacks) {
        f->sizes[f->n_literals++] = r->best.len;
        buf_append(&f->literals, r->best.data, r->best.len);
    }
    r->best.len = 0;
}

/* A character that stands for itself. */
void reader_literal(struct reader *r, const char *s, size_t n)
{
    r->facts->line_end |= *s == '\n';
    r->facts->cr |= *s == '\r';
    if (r->depth > 0)
        return;
    r->run_last = r->run.len;
    buf_append(&r->run, s, n);
}

static bool is_digits(const char **at, const char *end)
{
    const char *begin = *at;
    while (*at < end && isdigit((unsigned char)**at))
        (*at)++;
    return *at > begin;
}

/* The length of {n}, {n,}, {n,m} or {,m} at s; 0 if it is none. */
static size_t counted(const char *s, const char *end, bool *ret_optional)
{
    const char *at = s + 1;
    bool low = is_digits(&at, end), high = false, zero = true;
    for (const char *d = s + 1; d < at; d++)
        zero = zero && *d == '0';
    if (at < end && *at == ',') {
        at++;
        high = is_digits(&at, end);
    }
    if (at == end || *at != '}' || (!low && !high))
        return 0;
    *ret_optional = zero;
    return (size_t)(at + 1 - s);
}

/* A quantifier at r->at: takes back the last character of the run if it need not be there. */
static bool quantifier(struct reader *r)
{
    bool optional = *r->at == '*' || *r->at == '?';
    size_t n = optional || *r->at == '+' ? 1
               : *r->at == '{'           ? counted(r->at, r->end, &optional)
                                         : 0;
    /* Later versions of PCRE2 know more forms of these. */
    if (n == 0)
        r->unsure |= *r->at == '{' && r->at + 1 < r->end && strchr(" \t,", r->at[1]);
    if (n == 0)
        return false;
    if (r->at + n < r->end && strchr("+?", r->at[n]))
        n++;
    reader_put(r, r->at, n);
    r->at += n;
    if (optional && r->depth == 0 && r->run.len > 0)
        r->run.len = r->run_last;
    reader_end_run(r);
    return true;
}

/* Behind `(?`: the kinds of groups in which everything has its usual meaning. */
static bool group_is_usual(const char *s, const char *end, size_t *ret_n)
{
    static const char *const usual[] = {":", "=", "!", "<=", "<!", ">", "|"};
    for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
        size_t n = strlen(usual[i]);
        if ((size_t)(end - s) >= n && memcmp(s, usual[i], n) == 0) {
            *ret_n = n;
            return true;
        }
    }
    const char *at = s + (s < end && *s == 'P');
    if (at == end || *at != '<')
        return false;
    for (at++; at < end && (isalnum((unsigned char)*at) || *at == '_'); at++)
        ;
    *ret_n = (size_t)(at + 1 - s);
    return at < end && *at == '>';
}

static void open_group(struct reader *r)
{
    const char *s = r->at++;
    reader_end_run(r);
    r->depth++;
    size_t n = 0;
    if (r->at < r->end && *r->at == '*')
        r->unsure = true;
    if (r->at < r->end && *r->at == '?') {
        if (group_is_usual(r->at + 1, r->end, &n))
            r->at += 1 + n;
        else
            r->unsure = true;
    }
    reader_put(r, s, (size_t)(r->at - s));
}

static void character(struct reader *r)
{
    size_t n = utf8_character((const uint8_t *)r->at, (size_t)(r->end - r->at));
    n = n ? n : 1;
    reader_literal(r, r->at, n);
    reader_put(r, r->at, n);
    r->at += n;
}

/* A character with a meaning. */
static void special(struct reader *r, char c)
{
    if (c == '[') {
        reader_class(r);
        return;
    }
    if (c == '(') {
        open_group(r);
        return;
    }
    reader_end_run(r);
    if (c == ')' && r->depth-- == 0)
        r->unsure = true, r->depth = 0;
    if (c == '|' && r->depth == 0)
        end_alternative(r);
    reader_put(r, r->at++, 1);
}

static void read_all(struct reader *r)
{
    while (r->at < r->end && !r->unsure) {
        if (*r->at == '\\')
            reader_escape(r);
        else if (quantifier(r))
            continue;
        else if (strchr("[().^$|", *r->at) && *r->at)
            special(r, *r->at);
        else
            character(r);
    }
    reader_end_run(r);
}

int regex_read(const char *text, size_t n, bool fold, struct regex_facts *ret)
{
    struct regex_facts f = {
        .spans = true, .spanning = BUF_INIT(32 * REGEX_MAX), .literals = BUF_INIT(REGEX_MAX)};
    struct reader r = {.at = text,
                       .end = text + n,
                       .fold = fold,
                       .facts = &f,
                       .run = BUF_INIT(REGEX_MAX),
                       .best = BUF_INIT(REGEX_MAX)};
    read_all(&r);
    f.plain = !r.unsure && n > 0 && f.n_literals == 0 && r.best.len == n &&
              memcmp(r.best.data, text, n) == 0;
    if (f.plain)
        f.sizes[f.n_literals++] = n, buf_append(&f.literals, text, n);
    else
        end_alternative(&r);
    if (r.unsure || r.lacks)
        f.n_literals = 0;
    f.spans = f.spans && !r.unsure;
    bool failed = f.spanning.failed || f.literals.failed || r.run.failed || r.best.failed;
    buf_free(&r.run);
    buf_free(&r.best);
    if (failed) {
        regex_facts_free(&f);
        return -ENOMEM;
    }
    *ret = f;
    return 0;
}
