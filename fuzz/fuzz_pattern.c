/*
 * Patterns and texts of any bytes: however a pattern is run, it finds the lines that it matches
 * when each is looked at by itself, and its limits hold.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "compose.h"
#include "search/search.h"
#include "text.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Does the pattern match the line by itself? -1: it needs too much. */
static int alone(pcre2_code *code, const uint8_t *line, size_t n)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    require(data && context);
    pcre2_set_match_limit(context, 100000);
    int r = pcre2_match(code, line, n, 0, 0, data, context);
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    return r >= 0 ? 1 : r == PCRE2_ERROR_NOMATCH ? 0 : -1;
}

/* The lines from `at` to `end` do not match. */
static bool none_matches(pcre2_code *code, const uint8_t *text, size_t at, size_t end)
{
    while (at < end) {
        const uint8_t *line_end = memchr(text + at, '\n', end - at);
        size_t n = line_end ? (size_t)(line_end - text) - at : end - at;
        size_t shown = n > 0 && text[at + n - 1] == '\r' ? n - 1 : n;
        if (alone(code, text + at, shown) == 1)
            return false;
        at += n + 1;
    }
    return true;
}

static void compare(struct matcher *m, pcre2_code *code, const uint8_t *text, size_t n)
{
    unsigned kinds = text_kinds(text, n);
    struct hit h;
    size_t at = 0;
    int r;
    while ((r = matcher_next(m, text, n, kinds, at, &h)) > 0) {
        require(h.line >= at && h.line <= h.match && h.match <= h.match_end &&
                h.line_end <= h.next && h.next <= n && h.next > at);
        require(none_matches(code, text, at, h.line));
        require(alone(code, text + h.line, h.line_end - h.line) != 0);
        at = h.next;
    }
    require(r == 0 || r == -E2BIG);
    if (r == 0)
        require(none_matches(code, text, at, n));
}

/* Options, a pattern, a NUL, and the rest is text. What is no UTF-8 is only run: next to such bytes
 * PCRE2 says of an assertion what depends on what else there is. The same is true of a pattern that
 * asks for a carriage return. */
static void run(const uint8_t *data, size_t n, bool fold)
{
    const uint8_t *end = n ? memchr(data, 0, n) : NULL;
    struct pattern *p;
    struct matcher *m;
    struct error err = {0};
    if (!end || pattern_compile((const char *)data, (size_t)(end - data),
                                &(struct pattern_options){.ignore_case = fold}, &p, &err) < 0)
        return;
    const uint8_t *text = end + 1;
    size_t size = n - (size_t)(text - data), offset;
    int code, r;
    struct hit h;
    require(matcher_new(p, &m) == 0);
    pcre2_code *c = pcre2_compile(data, (size_t)(end - data),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF |
                                      PCRE2_NEVER_BACKSLASH_C | (fold ? PCRE2_CASELESS : 0),
                                  &code, &offset, NULL);
    bool special = strstr((const char *)data, "\\r") || strchr((const char *)data, '\r') ||
                   memmem(data, (size_t)(end - data), "(*", 2);
    if (c && utf8_valid(text, size) && !special)
        compare(m, c, text, size);
    else
        for (size_t at = 0; (r = matcher_next(m, text, size, text_kinds(text, size), at, &h)) > 0;
             at = h.next)
            require(h.next > at && h.next <= size);
    pcre2_code_free(c);
    matcher_free(m);
    pattern_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n > 1 && n < 400)
        run(data + 1, n - 1, data[0] & 1);
    return 0;
}
