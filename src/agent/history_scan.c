#include <errno.h>
#include <string.h>

#include "history_scan.h"
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

static int value(struct scan *s);

/* At the end of the bytes, nothing is wrong yet. */
static int bad(const struct scan *s)
{
    return s->at == s->end ? -EAGAIN : -EBADMSG;
}

static void skip_space(struct scan *s)
{
    while (s->at < s->end && scan_is_space(*s->at))
        s->at++;
}

static int expect(struct scan *s, char c)
{
    skip_space(s);
    if (s->at == s->end || *s->at != c)
        return bad(s);
    s->at++;
    return 0;
}

/* Is one of the eight bytes a control character, a quote, a backslash, or not ASCII? */
static bool needs_a_look(const char *eight)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t v;
    memcpy(&v, eight, sizeof v);
    uint64_t quote = v ^ (ones * '"'), backslash = v ^ (ones * '\\');
    uint64_t found = (v - ones * 0x20) | (quote - ones) | (backslash - ones) | v;
    return found & high;
}

static int hex4(struct scan *s)
{
    int code = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        if (s->at == s->end)
            return -EAGAIN;
        char c = *s->at;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -EBADMSG;
        code = code * 16 + digit;
    }
    return code;
}

/* Behind a backslash. */
static int escape(struct scan *s)
{
    if (s->at == s->end)
        return -EAGAIN;
    char c = *s->at++;
    if (c != 'u')
        return c && strchr("\"\\/bfnrt", c) ? 0 : -EBADMSG;
    int code = hex4(s);
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        s->doubt = true;
    return code < 0 ? code : 0;
}

static int not_ascii(struct scan *s)
{
    size_t left = (size_t)(s->end - s->at), n = utf8_character((const uint8_t *)s->at, left);
    if (n == 0)
        return left < 4 && utf8_cut_end((const uint8_t *)s->at, left) == left ? -EAGAIN : -EBADMSG;
    s->at += n;
    return 0;
}

/* Behind the opening quote, to behind the closing one. */
static int string_rest(struct scan *s)
{
    for (;;) {
        while (s->end - s->at >= 8 && !needs_a_look(s->at))
            s->at += 8;
        if (s->at == s->end)
            return -EAGAIN;
        uint8_t c = (uint8_t)*s->at;
        int r = 0;
        if (c < 0x20)
            return -EBADMSG;
        if (c >= 0x80) {
            r = not_ascii(s);
        } else {
            s->at++;
            if (c == '"')
                return 0;
            if (c == '\\')
                r = escape(s);
        }
        if (r < 0)
            return r;
    }
}

static size_t digits(struct scan *s)
{
    const char *from = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return (size_t)(s->at - from);
}

static int number(struct scan *s)
{
    const char *from = s->at;
    s->at += *s->at == '-';
    bool zero = s->at < s->end && *s->at == '0';
    size_t n = digits(s);
    if (n == 0)
        return bad(s);
    if (zero && n > 1)
        return -EBADMSG;
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if (digits(s) == 0)
            return bad(s);
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->doubt = true;
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            s->at++;
        if (digits(s) == 0)
            return bad(s);
    }
    if (s->at - from > SURE_DIGITS)
        s->doubt = true;
    return s->at == s->end ? -EAGAIN : 0;
}

static int word(struct scan *s, const char *text)
{
    for (; *text; text++, s->at++)
        if (s->at == s->end || *s->at != *text)
            return bad(s);
    return 0;
}

static void keep(struct scan *s, const char *name, size_t n_name, const char *from)
{
    for (size_t i = 0; i < s->n_members; i++) {
        struct scan_member *m = &s->members[i];
        if (strlen(m->name) == n_name && memcmp(m->name, name, n_name) == 0) {
            m->at = from;
            m->n = (size_t)(s->at - from);
        }
    }
}

static int member(struct scan *s)
{
    int r = expect(s, '"');
    const char *name = s->at;
    if (r == 0)
        r = string_rest(s);
    size_t n_name = r == 0 ? (size_t)(s->at - name - 1) : 0;
    bool wanted = s->depth == 1 && s->n_members > 0;
    if (r == 0 && memchr(name, '\\', n_name))
        s->doubt = true;
    if (r == 0)
        r = expect(s, ':');
    if (r == 0)
        skip_space(s);
    const char *from = s->at;
    if (r == 0)
        r = value(s);
    if (r == 0 && wanted)
        keep(s, name, n_name, from);
    return r;
}

/* The inside of an object or array, behind its opening. */
static int list(struct scan *s, char close, int (*item)(struct scan *s))
{
    skip_space(s);
    if (s->at < s->end && *s->at == close) {
        s->at++;
        return 0;
    }
    for (;;) {
        int r = item(s);
        if (r < 0)
            return r;
        skip_space(s);
        if (s->at == s->end)
            return -EAGAIN;
        char c = *s->at;
        if (c != ',' && c != close)
            return -EBADMSG;
        s->at++;
        if (c == close)
            return 0;
        skip_space(s);
    }
}

static int nested(struct scan *s, char close, int (*item)(struct scan *s))
{
    if (s->depth == SCAN_DEPTH_MAX)
        return -EBADMSG;
    s->depth++;
    s->at++;
    int r = list(s, close, item);
    s->depth--;
    return r;
}

static int value(struct scan *s)
{
    if (s->at == s->end)
        return -EAGAIN;
    switch (*s->at) {
    case '{':
        return nested(s, '}', member);
    case '[':
        return nested(s, ']', value);
    case '"':
        s->at++;
        return string_rest(s);
    case 't':
        return word(s, "true");
    case 'f':
        return word(s, "false");
    case 'n':
        return word(s, "null");
    default:
        return *s->at == '-' || (*s->at >= '0' && *s->at <= '9') ? number(s) : -EBADMSG;
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
    int r = value(&s);
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
