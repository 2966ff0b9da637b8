/* Escapes and classes of a regular expression: which of them could match a line end. */
#include <ctype.h>
#include <string.h>

#include "regex_private.h"
#include "utf8.h"
#include "banned.h"

/* White space without the line end, to stand in a class. */
#define SPACES "\\h\\x0b\\f\\r\\x85\\p{Zl}\\p{Zp}"

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
    reader_end_run(r);
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (known[i].c == c) {
            if (known[i].becomes)
                reader_put_str(r, known[i].becomes);
            else
                reader_put(r, as_is, 2);
            if (c == 'N' && r->at < r->end && *r->at == '{')
                r->unsure = true;
            return;
        }
    if (strchr("AzZGKRXv", c)) {
        reader_stay_in_line(r);
        return;
    }
    /* A back reference of one digit; whatever else: numbers, properties, names, … */
    if (c >= '1' && c <= '9' && (r->at == r->end || !isdigit((unsigned char)*r->at)))
        reader_put(r, as_is, 2);
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
        reader_literal(r, r->at, n ? n : 1);
        r->at += n ? n : 1;
    }
    r->at += r->at < r->end ? 2 : 0;
    reader_stay_in_line(r);
}

void reader_escape(struct reader *r)
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
        reader_literal(r, &stands, 1);
        reader_put(r, s, 2);
    } else if (c == 'E') {
        return; /* without a \Q it means nothing */
    } else if (isalnum((unsigned char)c)) {
        escape_class(r, c);
    } else {
        reader_literal(r, s + 1, n ? n : 1);
        reader_put(r, s, 1 + (n ? n : 1));
    }
}

/* An escape inside of a class that does not negate. False: not sure. */
static bool class_escape(struct reader *r)
{
    char c = r->at + 1 < r->end ? r->at[1] : 0;
    r->facts->cr |= c == 'r';
    if (c == 's') {
        reader_put_str(r, SPACES);
    } else if (c == 't' || c == 'r' || c == 'f' || c == 'w' || c == 'd' || c == 'S' || c == 'h' ||
               ispunct((unsigned char)c)) {
        reader_put(r, r->at, 2);
        /* A range from a control character has the line end in it. */
        if (!ispunct((unsigned char)c) && r->at + 2 < r->end && r->at[2] == '-')
            return false;
    } else {
        return false;
    }
    r->at += 2;
    return true;
}

/* Copies the members of a class, without the line end; in one that negates the line end was put
 * already. */
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
            reader_put(r, r->at, 2);
            r->at += 2;
        } else {
            if ((unsigned char)c < ' ' && !negated)
                return false;
            if (c == ']')
                reader_put_str(r, "\\");
            reader_put(r, r->at++, 1);
        }
    }
    return false;
}

void reader_class(struct reader *r)
{
    reader_end_run(r);
    r->at++;
    bool negated = r->at < r->end && *r->at == '^';
    r->at += negated;
    reader_put_str(r, negated ? "[^\\n" : "[");
    if (!class_members(r, negated)) {
        r->unsure = true;
        return;
    }
    reader_put_str(r, "]");
    r->at++;
}
