#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "regex.h"
#include "utf8.h"
#include "banned.h"

/* White space without the line end, to stand in a class. */
#define SPACES "\\h\\x0b\\f\\r\\x85\\p{Zl}\\p{Zp}"

struct reader {
    const char *at, *end;
    size_t depth; /* of groups */
    bool fold;
    struct regex_facts *facts;
    struct buf run;  /* the literal that is being read, outside of all groups */
    size_t run_last; /* where its last character begins */
    struct buf best; /* the longest of this alternative */
    bool lacks;      /* an alternative has no literal, or there are too many */
    bool unsure;     /* there may be more to it: one line at a time, and no literal */
};

void regex_facts_free(struct regex_facts *f)
{
    buf_free(&f->spanning);
    buf_free(&f->literals);
}

static void put(struct reader *r, const char *s, size_t n)
{
    buf_append(&r->facts->spanning, s, n);
}

static void put_str(struct reader *r, const char *s)
{
    buf_append_str(&r->facts->spanning, s);
}

/* Only this construct must not run over several lines; literals elsewhere hold. */
static void stay_in_line(struct reader *r)
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

static void end_run(struct reader *r)
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
static void literal(struct reader *r, const char *s, size_t n)
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
    size_t n = optional || *r->at == '+' ? 1 : *r->at == '{' ? counted(r->at, r->end, &optional) : 0;
    /* Later versions of PCRE2 know more forms of these. */
    if (n == 0)
        r->unsure |= *r->at == '{' && r->at + 1 < r->end && strchr(" \t,", r->at[1]);
    if (n == 0)
        return false;
    if (r->at + n < r->end && strchr("+?", r->at[n]))
        n++;
    put(r, r->at, n);
    r->at += n;
    if (optional && r->depth == 0 && r->run.len > 0)
        r->run.len = r->run_last;
    end_run(r);
    return true;
}

/* An escape outside of a class that is not a literal. `s` is what it says beside the backslash. */
static void escape_class(struct reader *r, char c)
{
    static const struct {
        char c;
        const char *becomes; /* NULL: as it is */
    } known[] = {{'d', NULL},        {'w', NULL},        {'S', NULL},        {'h', NULL},
                 {'V', NULL},        {'b', NULL},        {'B', NULL},        {'N', NULL},
                 {'s', "[^\\S\\n]"}, {'D', "[^\\d\\n]"}, {'W', "[^\\w\\n]"}, {'H', "[^\\h\\n]"}};
    char as_is[] = {'\\', c};
    end_run(r);
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (known[i].c == c) {
            if (known[i].becomes)
                put_str(r, known[i].becomes);
            else
                put(r, as_is, 2);
            if (c == 'N' && r->at < r->end && *r->at == '{')
                r->unsure = true;
            return;
        }
    if (strchr("AzZGKRXv", c)) {
        stay_in_line(r);
        return;
    }
    /* A back reference of one digit; whatever else: numbers, properties, names, … */
    if (c >= '1' && c <= '9' && (r->at == r->end || !isdigit((unsigned char)*r->at)))
        put(r, as_is, 2);
    else
        r->unsure = true;
}

/* The character that an escaped letter stands for, or 0. */
static char control(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'f':
        return '\f';
    case 'e':
        return 27;
    case 'a':
        return 7;
    default:
        return 0;
    }
}

/* \Q…\E */
static void quoted(struct reader *r)
{
    while (r->at < r->end && !(r->end - r->at >= 2 && r->at[0] == '\\' && r->at[1] == 'E')) {
        size_t n = utf8_character((const uint8_t *)r->at, (size_t)(r->end - r->at));
        literal(r, r->at, n ? n : 1);
        r->at += n ? n : 1;
    }
    r->at += r->at < r->end ? 2 : 0;
    stay_in_line(r);
}

static void escape(struct reader *r)
{
    if (r->at + 1 >= r->end) {
        r->unsure = true; /* it will not compile */
        r->at = r->end;
        return;
    }
    char c = r->at[1], stands = control(c);
    size_t n = utf8_character((const uint8_t *)r->at + 1, (size_t)(r->end - r->at - 1));
    const char *s = r->at;
    r->at += 1 + (n ? n : 1);
    if (c == 'Q') {
        quoted(r);
    } else if (stands) {
        literal(r, &stands, 1);
        put(r, s, 2);
    } else if (c == 'E') {
        return; /* without a \Q it means nothing */
    } else if (isalnum((unsigned char)c)) {
        escape_class(r, c);
    } else {
        literal(r, s + 1, n ? n : 1);
        put(r, s, 1 + (n ? n : 1));
    }
}

/* An escape inside of a class that does not negate. False: not sure. */
static bool class_escape(struct reader *r)
{
    char c = r->at + 1 < r->end ? r->at[1] : 0;
    r->facts->cr |= c == 'r';
    if (c == 's') {
        put_str(r, SPACES);
    } else if (c == 't' || c == 'r' || c == 'f' || c == 'w' || c == 'd' || c == 'S' || c == 'h' ||
               ispunct((unsigned char)c)) {
        put(r, r->at, 2);
        /* A range from a control character has the line end in it. */
        if (!ispunct((unsigned char)c) && r->at + 2 < r->end && r->at[2] == '-')
            return false;
    } else {
        return false;
    }
    r->at += 2;
    return true;
}

/* Copies the members of a class, without the line end; in one that negates the line end was put already. */
static bool class_members(struct reader *r, bool negated)
{
    for (bool first = true; r->at < r->end; first = false) {
        char c = *r->at;
        if (c == ']' && !first)
            return true;
        if (c == '[' && r->at + 1 < r->end && strchr(":.=", r->at[1]))
            return false;
        if (c == '\\' && !negated) {
            if (!class_escape(r))
                return false;
        } else if (c == '\\') {
            if (r->end - r->at < 2 || strchr("QE", r->at[1]))
                return false;
            put(r, r->at, 2);
            r->at += 2;
        } else {
            if ((unsigned char)c < ' ' && !negated)
                return false;
            if (c == ']')
                put_str(r, "\\");
            put(r, r->at++, 1);
        }
    }
    return false;
}

static void class(struct reader *r)
{
    end_run(r);
    r->at++;
    bool negated = r->at < r->end && *r->at == '^';
    r->at += negated;
    put_str(r, negated ? "[^\\n" : "[");
    if (!class_members(r, negated)) {
        r->unsure = true;
        return;
    }
    put_str(r, "]");
    r->at++;
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
    end_run(r);
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
    put(r, s, (size_t)(r->at - s));
}

static void character(struct reader *r)
{
    size_t n = utf8_character((const uint8_t *)r->at, (size_t)(r->end - r->at));
    n = n ? n : 1;
    literal(r, r->at, n);
    put(r, r->at, n);
    r->at += n;
}

/* A character with a meaning. */
static void special(struct reader *r, char c)
{
    if (c == '[') {
        class(r);
        return;
    }
    if (c == '(') {
        open_group(r);
        return;
    }
    end_run(r);
    if (c == ')' && r->depth-- == 0)
        r->unsure = true, r->depth = 0;
    if (c == '|' && r->depth == 0)
        end_alternative(r);
    put(r, r->at++, 1);
}

static void read_all(struct reader *r)
{
    while (r->at < r->end && !r->unsure) {
        if (*r->at == '\\')
            escape(r);
        else if (quantifier(r))
            continue;
        else if (strchr("[().^$|", *r->at) && *r->at)
            special(r, *r->at);
        else
            character(r);
    }
    end_run(r);
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
    f.plain = !r.unsure && n > 0 && f.n_literals == 0 && r.best.len == n && memcmp(r.best.data, text, n) == 0;
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
