/* The lines of the runner. What is not exactly of their form is nobody's line: counted, and nothing
 * else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "outcomes_private.h"
#include "utf8.h"
#include "banned.h"

#define SEQUENCE_DIGITS 9u

/* A text with its escapes undone; false if it is none. `out` has room for n + 1 bytes. */
static bool take_text(const char *text, size_t n, size_t max, char *out)
{
    size_t done = 0;
    if (!utf8_valid((const uint8_t *)text, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if ((unsigned char)c < 0x20)
            return false;
        if (c == '\\') {
            c = ++i < n ? text[i] : 0;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == '\\' ? '\\' : 0;
            if (!c)
                return false;
        }
        out[done++] = c;
    }
    out[done] = 0;
    return done <= max;
}

/* "TOKEN NUMBER K": true with how many bytes that took. */
static bool take_head(const struct outcomes *o, const char *line, size_t n, uint64_t *ret_number,
                      char *ret_kind, size_t *ret_taken)
{
    size_t at = OUTCOMES_TOKEN - 1, digits = 0;
    uint64_t number = 0;
    if (n < at + 4 || memcmp(line, o->token, at) != 0 || line[at++] != ' ')
        return false;
    for (; at < n && line[at] >= '0' && line[at] <= '9' && digits < SEQUENCE_DIGITS; at++, digits++)
        number = 10 * number + (uint64_t)(line[at] - '0');
    if (digits == 0 || at + 2 > n || line[at] != ' ')
        return false;
    *ret_number = number;
    *ret_kind = line[at + 1];
    *ret_taken = at + 2;
    return true;
}

static bool keep_text(char **where, const char *text)
{
    if (!*where)
        *where = strdup(text);
    return true;
}

static bool take_test(struct outcomes *o, char kind, const char *id, const char *message)
{
    static const char KINDS[] = "PFES";
    static const enum grade_outcome OUTCOMES[] = {GRADE_PASSED, GRADE_FAILED, GRADE_ERROR,
                                                  GRADE_SKIPPED};
    const char *which = strchr(KINDS, kind);
    if (kind == 'B' && !message)
        return outcomes_begin(o, id) == 0;
    return kind != 'B' && outcomes_end(o, id, OUTCOMES[which - KINDS], message) == 0;
}

/* What follows the head: texts behind tabs. False if it is of no form that the runner writes. */
static bool take_rest(struct outcomes *o, char kind, const char *rest, size_t n)
{
    char first[OUTCOMES_LINE_MAX + 1], second[OUTCOMES_LINE_MAX + 1];
    if (kind == 'Z' && n == 0)
        return o->done = true;
    if (n < 2 || rest[0] != '\t')
        return false;
    const char *tab = memchr(rest + 1, '\t', n - 1);
    size_t n_first = tab ? (size_t)(tab - rest - 1) : n - 1;
    if (!take_text(rest + 1, n_first, OUTCOMES_ID_MAX, first) || !first[0] ||
        (tab && !take_text(tab + 1, n - n_first - 2, OUTCOMES_MESSAGE_MAX, second)))
        return false;
    if (kind == 'T' && !tab)
        return keep_text(&o->tampered, first);
    if (kind == 'U' && !tab)
        return keep_text(&o->trouble, first);
    return strchr("BPFES", kind) && kind && take_test(o, kind, first, tab ? second : NULL);
}

static void take_line(struct outcomes *o, const char *line, size_t n)
{
    uint64_t number;
    char kind;
    size_t taken;
    if (!take_head(o, line, n, &number, &kind, &taken)) {
        o->strange++;
        return;
    }
    if (number != o->next++ || o->done || !take_rest(o, kind, line + taken, n - taken))
        o->forged = true;
}

/* The bytes up to the end of a line, or all. */
static void add(struct outcomes *o, const char *bytes, size_t n)
{
    if (!o->overlong && (n > o->line.max - o->line.len || buf_append(&o->line, bytes, n) < 0))
        o->overlong = true;
}

static void end_line(struct outcomes *o)
{
    if (o->overlong)
        o->strange++;
    else
        take_line(o, (const char *)o->line.data, o->line.len);
    o->line.len = 0;
    o->line.failed = false;
    o->overlong = false;
}

bool outcomes_feed(struct outcomes *o, const void *bytes, size_t n)
{
    const char *at = bytes;
    o->bytes += n;
    if (o->bytes > OUTCOMES_BYTES_MAX)
        return false;
    while (n > 0) {
        const char *end = memchr(at, '\n', n);
        size_t piece = end ? (size_t)(end - at) : n;
        add(o, at, piece);
        if (end)
            end_line(o);
        piece += end != NULL;
        at += piece;
        n -= piece;
    }
    return true;
}
