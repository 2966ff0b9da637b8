#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "json_scan.h"
#include "utf8.h"
#include "banned.h"

/* Digits that surely fit: what is longer, or has an exponent, jansson is asked about. */
#define SURE_DIGITS 18

struct scan {
    const char *at, *end;
    struct scan_member *members;
    size_t n_members;
    unsigned depth;
    bool doubt;
};

static int scan_any(struct scan *s);

/* At the end of the bytes, nothing is wrong yet. */
static int scan_bad(const struct scan *s)
{
    return s->at == s->end ? -EAGAIN : -EBADMSG;
}

static void scan_skip_space(struct scan *s)
{
    while (s->at < s->end && scan_is_space(*s->at))
        s->at++;
}

static int scan_expect(struct scan *s, char c)
{
    scan_skip_space(s);
    if (s->at == s->end || *s->at != c)
        return scan_bad(s);
    s->at++;
    return 0;
}

/* Is one of the eight bytes a control character, a quote, a backslash, or not ASCII? */
static bool scan_needs_look(const char *eight)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t v;
    memcpy(&v, eight, sizeof v);
    uint64_t quote = v ^ (ones * '"'), backslash = v ^ (ones * '\\');
    uint64_t found = (v - ones * 0x20) | (quote - ones) | (backslash - ones) | v;
    return found & high;
}

/* Behind a backslash. */
static int scan_escape(struct scan *s)
{
    int code = 0;
    if (s->at == s->end)
        return -EAGAIN;
    char c = *s->at++;
    if (c != 'u')
        return c && strchr("\"\\/bfnrt", c) ? 0 : -EBADMSG;
    for (int i = 0; i < 4; i++, s->at++) {
        if (s->at == s->end)
            return -EAGAIN;
        if (!isxdigit((unsigned char)*s->at))
            return -EBADMSG;
        code = code * 16 + (*s->at <= '9' ? *s->at - '0' : (*s->at | 0x20) - 'a' + 10);
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        s->doubt = true;
    return 0;
}

/* Behind the opening quote, to behind the closing one. */
static int scan_string(struct scan *s)
{
    for (;;) {
        while (s->end - s->at >= 8 && !scan_needs_look(s->at))
            s->at += 8;
        if (s->at == s->end)
            return -EAGAIN;
        uint8_t c = (uint8_t)*s->at;
        if (c < 0x20)
            return -EBADMSG;
        if (c >= 0x80) {
            const uint8_t *at = (const uint8_t *)s->at;
            size_t left = (size_t)(s->end - s->at), n = utf8_character(at, left);
            if (n == 0)
                return left < 4 && utf8_cut_end(at, left) == left ? -EAGAIN : -EBADMSG;
            s->at += n;
            continue;
        }
        s->at++;
        if (c == '"')
            return 0;
        int r = c == '\\' ? scan_escape(s) : 0;
        if (r < 0)
            return r;
    }
}

static size_t scan_digits(struct scan *s)
{
    const char *from = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return (size_t)(s->at - from);
}

static int scan_number(struct scan *s)
{
    const char *from = s->at;
    s->at += *s->at == '-';
    bool zero = s->at < s->end && *s->at == '0';
    size_t n = scan_digits(s);
    if (n == 0)
        return scan_bad(s);
    if (zero && n > 1)
        return -EBADMSG;
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if (scan_digits(s) == 0)
            return scan_bad(s);
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->doubt = true;
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            s->at++;
        if (scan_digits(s) == 0)
            return scan_bad(s);
    }
    if (s->at - from > SURE_DIGITS)
        s->doubt = true;
    return s->at == s->end ? -EAGAIN : 0;
}

static int scan_word(struct scan *s, const char *text)
{
    for (; *text; text++, s->at++)
        if (s->at == s->end || *s->at != *text)
            return scan_bad(s);
    return 0;
}

static int scan_object_member(struct scan *s)
{
    int r = scan_expect(s, '"');
    const char *name = s->at;
    if (r == 0)
        r = scan_string(s);
    size_t n_name = r == 0 ? (size_t)(s->at - name - 1) : 0;
    if (r == 0 && memchr(name, '\\', n_name))
        s->doubt = true;
    if (r == 0)
        r = scan_expect(s, ':');
    if (r == 0)
        scan_skip_space(s);
    const char *from = s->at;
    if (r == 0)
        r = scan_any(s);
    for (size_t i = 0; r == 0 && s->depth == 1 && i < s->n_members; i++) {
        struct scan_member *m = &s->members[i];
        if (strlen(m->name) == n_name && memcmp(m->name, name, n_name) == 0) {
            m->at = from;
            m->n = (size_t)(s->at - from);
        }
    }
    return r;
}

/* An object or array, from its opening. */
static int scan_nested(struct scan *s, char close, int (*item)(struct scan *s))
{
    if (s->depth == SCAN_DEPTH_MAX)
        return -EBADMSG;
    s->depth++;
    s->at++;
    scan_skip_space(s);
    bool open = s->at == s->end || *s->at != close;
    s->at += !open;
    while (open) {
        int r = item(s);
        if (r < 0)
            return r;
        scan_skip_space(s);
        if (s->at == s->end)
            return -EAGAIN;
        if (*s->at != ',' && *s->at != close)
            return -EBADMSG;
        open = *s->at++ == ',';
        if (open)
            scan_skip_space(s);
    }
    s->depth--;
    return 0;
}

static int scan_any(struct scan *s)
{
    if (s->at == s->end)
        return -EAGAIN;
    switch (*s->at) {
    case '{':
        return scan_nested(s, '}', scan_object_member);
    case '[':
        return scan_nested(s, ']', scan_any);
    case '"':
        s->at++;
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        return *s->at == '-' || (*s->at >= '0' && *s->at <= '9') ? scan_number(s) : -EBADMSG;
    }
}

int scan_value(const char *text, size_t n, struct scan_member *members, size_t n_members,
               size_t *ret_length, bool *ret_doubt)
{
    struct scan s = {.at = text, .end = text + n, .members = members, .n_members = n_members};
    for (size_t i = 0; i < n_members; i++)
        members[i].at = NULL;
    if (n > 0 && *text != '{')
        s.n_members = 0;
    int r = scan_any(&s);
    *ret_length = (size_t)(s.at - text);
    *ret_doubt = s.doubt;
    return r;
}

bool scan_count(const struct scan_member *m, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;
    if (!m->at || m->n == 0 || m->n > SURE_DIGITS)
        return false;
    for (size_t i = 0; i < m->n; i++) {
        if (m->at[i] < '0' || m->at[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(m->at[i] - '0');
    }
    if (v > max)
        return false;
    *ret = v;
    return true;
}

bool scan_is(const struct scan_member *m, const char *text)
{
    size_t n = strlen(text);
    return m->at && m->n == n + 2 && m->at[0] == '"' && memcmp(m->at + 1, text, n) == 0;
}
