/*
 * Times and addresses in the words of a test runner become `?`: "1 failed in 0.02s" and "<Calc
 * object at 0x7f12…>" say the same at every run. A time is a number with a decimal point before a
 * unit, or any number behind "duration_ms", "duration" or "time".
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "observe.h"
#include "banned.h"

#define ADDRESS_MIN  6 /* digits */
#define FILLING_KEPT 3 /* characters of a line that is drawn with '=' beside a time */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* "0x7ffe1234": how long it is; 0: there is none. */
static size_t address_length(const char *s, size_t n)
{
    size_t i = 2;
    if (n < 2 || s[0] != '0' || s[1] != 'x')
        return 0;
    while (i < n && isxdigit((unsigned char)s[i]))
        i++;
    return i >= 2 + ADDRESS_MIN && (i == n || !is_word(s[i])) ? i : 0;
}

static size_t number_length(const char *s, size_t n, bool *ret_decimal)
{
    size_t i = 0;
    *ret_decimal = false;
    while (i < n &&
           (isdigit((unsigned char)s[i]) ||
            (s[i] == '.' && i && i + 1 < n && isdigit((unsigned char)s[i + 1]) && !*ret_decimal))) {
        *ret_decimal |= s[i] == '.';
        i++;
    }
    return i;
}

static bool is_unit(const char *s, size_t n)
{
    static const char *const UNITS[] = {"s",    "ms",     "us",      "sec",
                                        "secs", "second", "seconds", "\xc2\xb5s"};
    if (n && *s == ' ')
        s++, n--;
    for (size_t i = 0; i < ARRAY_SIZE(UNITS); i++) {
        size_t len = strlen(UNITS[i]);
        if (n >= len && memcmp(s, UNITS[i], len) == 0 && (n == len || !is_word(s[len])))
            return true;
    }
    return false;
}

/* Does what stands before say that a time follows: duration_ms 1.5, time="0.1", "duration": 3? */
static bool follows_time(const char *s, size_t at)
{
    static const char *const WORDS[] = {"duration_ms", "duration", "time"};
    while (at && strchr(" \t:=\"'", s[at - 1]))
        at--;
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++) {
        size_t len = strlen(WORDS[i]);
        if (at >= len && memcmp(s + at - len, WORDS[i], len) == 0 &&
            (at == len || !is_word(s[at - len - 1])))
            return true;
    }
    return false;
}

/* How much of what begins here differs from run to run; 0: nothing. */
static size_t fickle_length(const char *text, size_t at, size_t n)
{
    bool decimal;
    if (at && (is_word(text[at - 1]) || text[at - 1] == '.'))
        return 0;
    size_t len = address_length(text + at, n - at);
    if (len)
        return len;
    len = number_length(text + at, n - at, &decimal);
    if (len && decimal && is_unit(text + at + len, n - at - len))
        return len;
    bool ends = at + len == n || !is_word(text[at + len]);
    return len && ends && follows_time(text, at) ? len : 0;
}

/* " (0:01:15)", which pytest puts behind a time of more than a minute: how long it is; 0: there is
 * none. */
static size_t clock_length(const char *s, size_t n)
{
    size_t i = 2;
    if (n < 2 || s[0] != ' ' || s[1] != '(')
        return 0;
    while (i < n && (isdigit((unsigned char)s[i]) || s[i] == ':'))
        i++;
    return i > 2 && i < n && s[i] == ')' && memchr(s, ':', i) ? i + 1 : 0;
}

/* Replaces in one line. True if there was something to replace. */
static bool scrub_line(const char *text, size_t n, struct buf *out)
{
    size_t at = 0, kept = 0;
    while (at < n) {
        size_t len = fickle_length(text, at, n);
        if (len) {
            buf_append(out, text + kept, at - kept);
            buf_append_str(out, "?");
            kept = at + len;
        }
        at += len ? len : 1;
        size_t clock = kept && !len ? clock_length(text + at, n - at) : 0;
        if (clock) {
            buf_append(out, text + kept, at - kept);
            at = kept = at + clock;
        }
    }
    buf_append(out, text + kept, n - kept);
    return kept > 0;
}

/* "=== 1 passed in 9.9s ===" is filled up to a width, so a longer time makes shorter fillings. */
static void shorten_fillings(struct buf *out, size_t from)
{
    size_t to = from, same = 0;
    for (size_t at = from; at < out->len; at++) {
        same = at > from && out->data[at] == out->data[at - 1] ? same + 1 : 1;
        if (same <= FILLING_KEPT || !memchr("=-_", out->data[at], 3))
            out->data[to++] = out->data[at];
    }
    out->len = to;
}

int observe_scrub(const char *text, size_t n, struct buf *out)
{
    while (n > 0) {
        const char *newline = memchr(text, '\n', n);
        size_t line = newline ? (size_t)(newline - text) : n, from = out->len;
        if (scrub_line(text, line, out) && !out->failed)
            shorten_fillings(out, from);
        if (newline)
            buf_append(out, "\n", 1);
        line += newline != NULL;
        text += line;
        n -= line;
    }
    return out->failed ? -ENOMEM : 0;
}
