#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "text.h"
#include "banned.h"

void buf_free(struct buf *b)
{
    free(b->data);
    *b = BUF_INIT(b->max);
}

/* Grows to at least `need` bytes of capacity by doubling, never past max. */
static int grow(struct buf *b, size_t need)
{
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap = cap > b->max / 2 ? b->max : cap * 2;
    if (cap > b->max)
        cap = b->max;
    uint8_t *data = realloc(b->data, cap);
    if (!data)
        return -ENOMEM;
    b->data = data;
    b->cap = cap;
    return 0;
}

void *buf_reserve(struct buf *b, size_t n)
{
    if (b->failed || n > b->max - b->len) {
        b->failed = true;
        return NULL;
    }
    if ((b->len + n > b->cap || !b->data) && grow(b, b->len + n) < 0) {
        b->failed = true;
        return NULL;
    }
    return b->data + b->len;
}

int buf_append(struct buf *b, const void *data, size_t n)
{
    void *at = buf_reserve(b, n);
    if (!at)
        return -ENOBUFS;
    if (n)
        memcpy(at, data, n);
    b->len += n;
    return 0;
}

int buf_append_str(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    _cleanup_free_ char *text = NULL;
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) {
        text = NULL;
        b->failed = true;
        return -ENOMEM;
    }
    return buf_append(b, text, (size_t)n);
}

void buf_end_line(struct buf *b)
{
    if (b->len && b->data[b->len - 1] != '\n')
        buf_append(b, "\n", 1);
}

char *str_printf(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    return n < 0 ? NULL : text;
}

void buf_consume(struct buf *b, size_t n)
{
    if (n >= b->len) {
        b->len = 0;
        return;
    }
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}

char *buf_cstr(struct buf *b)
{
    uint8_t *at = buf_reserve(b, 1);
    if (!at)
        return NULL;
    *at = 0;
    return (char *)b->data;
}

bool list_grow(void *items, size_t count, size_t item_size)
{
    if (count & (count - 1))
        return true;
    void *grown = reallocarray(*(void **)items, count ? 2 * count : 1, item_size);
    if (grown)
        *(void **)items = grown;
    return grown;
}

/* What may follow a first byte: how long the character is, and the range of its second byte, which
 * is narrower than 80..BF where an overlong form, a surrogate or too high a number would begin. */
struct lead {
    uint8_t first, last, length, low, high;
};

static const struct lead LEADS[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static const struct lead *lead_of(uint8_t byte)
{
    for (size_t i = 0; i < sizeof LEADS / sizeof LEADS[0]; i++)
        if (byte >= LEADS[i].first && byte <= LEADS[i].last)
            return &LEADS[i];
    return NULL;
}

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Are the n bytes, fewer than or as many as the character needs, right as far as they go? */
static bool lead_fits(const struct lead *lead, const uint8_t *s, size_t n)
{
    if (n > 1 && (s[1] < lead->low || s[1] > lead->high))
        return false;
    for (size_t i = 2; i < n; i++)
        if (!is_continuation(s[i]))
            return false;
    return true;
}

size_t utf8_character(const uint8_t *s, size_t n)
{
    if (n == 0)
        return 0;
    const struct lead *lead = lead_of(s[0]);
    if (!lead || lead->length > n || !lead_fits(lead, s, lead->length))
        return 0;
    return lead->length;
}

bool utf8_valid(const uint8_t *s, size_t n)
{
    while (n > 0) {
        size_t size = *s < 0x80 ? 1 : utf8_character(s, n);
        if (size == 0)
            return false;
        s += size;
        n -= size;
    }
    return true;
}

size_t utf8_cut_end(const uint8_t *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const uint8_t *at = s + n - back;
        if (is_continuation(*at))
            continue;
        const struct lead *lead = lead_of(*at);
        return lead && lead->length > back && lead_fits(lead, at, back) ? back : 0;
    }
    return 0;
}

size_t utf8_cut_start(const uint8_t *s, size_t n)
{
    size_t i = 0;
    while (i < n && i < 4 && is_continuation(s[i]))
        i++;
    return i < 4 ? i : 0;
}

/* The number of a valid character. */
static uint32_t utf8_decode(const uint8_t *s, size_t n)
{
    uint32_t code = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (s[i] & 0x3f);
    return code;
}

bool utf8_is_control(const uint8_t *s, size_t n)
{
    uint32_t code = utf8_decode(s, n);
    bool plain_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool separator = code == 0x2028 || code == 0x2029;
    bool direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
                     code == 0x200e || code == 0x200f || code == 0x061c;
    return plain_control || separator || direction;
}

#define REPLACEMENT 0xfffdu
#define MARK        0xfeffu

static uint32_t utf16_unit(const uint8_t *s, bool big)
{
    return big ? (uint32_t)s[0] << 8 | s[1] : (uint32_t)s[1] << 8 | s[0];
}

/* The character at the start of n >= 2 bytes; *ret_used is how many it takes. */
static uint32_t utf16_character(const uint8_t *s, size_t n, bool big, size_t *ret_used)
{
    uint32_t high = utf16_unit(s, big);
    *ret_used = 2;
    if (high < 0xd800 || high > 0xdfff)
        return high;
    uint32_t low = high < 0xdc00 && n >= 4 ? utf16_unit(s + 2, big) : 0;
    if (low < 0xdc00 || low > 0xdfff)
        return REPLACEMENT;
    *ret_used = 4;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static void utf8_put(struct buf *out, uint32_t c)
{
    uint8_t b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        b[i] = (uint8_t)(0x80 | (c & 0x3f));
    b[0] = (uint8_t)(n == 1 ? c : (0xf00u >> n & 0xffu) | c);
    buf_append(out, b, n);
}

int utf16_append(struct buf *out, const uint8_t *s, size_t n, bool big_endian)
{
    size_t at = n >= 2 && utf16_unit(s, big_endian) == MARK ? 2 : 0;
    while (at + 2 <= n) {
        size_t used;
        utf8_put(out, utf16_character(s + at, n - at, big_endian, &used));
        at += used;
    }
    if (at < n)
        utf8_put(out, REPLACEMENT);
    return out->failed ? -ENOBUFS : 0;
}

#define CUT_MARK "…"

/* The "tags" of Unicode, U+E0000 to U+E007F: letters that nobody sees and a model reads. */
static bool is_tag(const uint8_t *at, size_t n)
{
    return n == 4 && at[0] == 0xf3 && at[1] == 0xa0 && (at[2] == 0x80 || at[2] == 0x81);
}

static bool is_shown(const uint8_t *at, size_t n)
{
    if (n == 1 && (*at == '\n' || *at == '\t'))
        return true;
    return n > 0 && !utf8_is_control(at, n) && !is_tag(at, n);
}

char *foreign_text(const char *text, size_t n, size_t max)
{
    struct buf b = BUF_INIT(max + sizeof CUT_MARK + 1);
    const uint8_t *at = (const uint8_t *)text;
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        len = utf8_character(at + i, n - i);
        if (!is_shown(at + i, len))
            continue;
        if (b.len + len > max) {
            buf_append_str(&b, CUT_MARK);
            break;
        }
        buf_append(&b, at + i, len);
    }
    char *clean = buf_cstr(&b);
    if (!clean)
        buf_free(&b);
    return clean;
}

static bool passes(const uint8_t *at, size_t n)
{
    if (n > 1)
        return !utf8_is_control(at, n);
    return n == 1 && (*at >= ' ' || *at == '\n' || *at == '\t' || *at == '\r') && *at != 0x7f;
}

static void append_escaped(struct buf *out, uint8_t byte)
{
    char text[5];
    snprintf(text, sizeof text, "\\x%02x", byte);
    buf_append(out, text, 4);
}

/* One character, or one byte that is none; returns how many bytes that took. */
static size_t append_one(const uint8_t *at, size_t n, struct buf *out)
{
    size_t length = utf8_character(at, n);
    if (passes(at, length)) {
        buf_append(out, at, length);
        return length;
    }
    for (size_t i = 0; i < (length ? length : 1); i++)
        append_escaped(out, at[i]);
    return length ? length : 1;
}

static void append_whole(const uint8_t *at, size_t n, struct buf *out)
{
    for (size_t done = 0; done < n;)
        done += append_one(at + done, n - done, out);
}

/* Completes the character that was cut off, byte by byte; returns how many bytes of data that
 * took. */
static size_t append_cut(struct harmless *h, const uint8_t *data, size_t n, struct buf *out)
{
    size_t used = 0;
    while (h->n_cut && used < n) {
        h->cut[h->n_cut++] = data[used++];
        if (utf8_cut_end(h->cut, h->n_cut) == h->n_cut && h->n_cut < sizeof h->cut)
            continue;
        append_whole(h->cut, h->n_cut, out);
        h->n_cut = 0;
    }
    return used;
}

int harmless_append(struct harmless *h, const void *data, size_t n, struct buf *out)
{
    const uint8_t *at = data;
    size_t used = append_cut(h, at, n, out);
    at += used;
    n -= used;
    size_t cut = n ? utf8_cut_end(at, n) : 0;
    append_whole(at, n - cut, out);
    if (cut) {
        memcpy(h->cut, at + n - cut, cut);
        h->n_cut = cut;
    }
    return out->failed ? -ENOBUFS : 0;
}

#define NAME_MAX_SIZE 96

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein's distance, but for case, with one row of the matrix kept. Both are at most
 * NAME_MAX_SIZE long. */
static size_t name_distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t row[NAME_MAX_SIZE + 1];
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];
            bool differ = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + differ);
            diagonal = above;
        }
    }
    return row[m];
}

struct nearest nearest_to(const char *wanted, size_t size)
{
    /* More than a third wrong is another word, not a slip. */
    return (struct nearest){.wanted = wanted, .size = size, .distance = size / 3 + 2};
}

void nearest_offer(struct nearest *n, const char *name)
{
    size_t size = strlen(name);
    if (n->size == 0 || n->size > NAME_MAX_SIZE || size > NAME_MAX_SIZE)
        return;
    size_t d = name_distance(n->wanted, n->size, name, size);
    if (d >= n->distance || d >= size)
        return;
    n->distance = d;
    n->best = name;
}

#define NAME(s) [s] = #s

static const char *const SIGNALS[] = {
    NAME(SIGHUP),    NAME(SIGINT),  NAME(SIGQUIT),  NAME(SIGILL),  NAME(SIGTRAP), NAME(SIGABRT),
    NAME(SIGBUS),    NAME(SIGFPE),  NAME(SIGKILL),  NAME(SIGUSR1), NAME(SIGSEGV), NAME(SIGUSR2),
    NAME(SIGPIPE),   NAME(SIGALRM), NAME(SIGTERM),  NAME(SIGCHLD), NAME(SIGCONT), NAME(SIGSTOP),
    NAME(SIGTSTP),   NAME(SIGTTIN), NAME(SIGTTOU),  NAME(SIGURG),  NAME(SIGXCPU), NAME(SIGXFSZ),
    NAME(SIGVTALRM), NAME(SIGPROF), NAME(SIGWINCH), NAME(SIGIO),   NAME(SIGPWR),  NAME(SIGSYS),
};

void signame_format(int number, char *name, size_t size)
{
    if (number > 0 && number < (int)ARRAY_SIZE(SIGNALS) && SIGNALS[number])
        snprintf(name, size, "%s", SIGNALS[number]);
    else if (number >= SIGRTMIN && number <= SIGRTMAX)
        snprintf(name, size, "SIGRTMIN+%d", number - SIGRTMIN);
    else
        snprintf(name, size, "%d", number);
}
