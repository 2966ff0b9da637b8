#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "banned.h"

void buf_free(struct buf *b)
{
    free(b->data);
    *b = BUF_INIT(b->max);
}

void *buf_reserve(struct buf *b, size_t n)
{
    if (b->failed || n > b->max - b->len) {
        b->failed = true;
        return NULL;
    }
    size_t need = b->len + n;
    if (need > b->cap || !b->data) {
        size_t cap = b->cap ? b->cap : 64;
        while (cap < need)
            cap = cap > b->max / 2 ? b->max : cap * 2;
        if (cap > b->max)
            cap = b->max;
        uint8_t *data = realloc(b->data, cap);
        if (!data) {
            b->failed = true;
            return NULL;
        }
        b->data = data;
        b->cap = cap;
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

void buf_consume(struct buf *b, size_t n)
{
    size_t left = n < b->len ? b->len - n : 0;
    if (left)
        memmove(b->data, b->data + n, left);
    b->len = left;
}

char *buf_cstr(struct buf *b)
{
    uint8_t *at = buf_reserve(b, 1);
    if (!at)
        return NULL;
    *at = 0;
    return (char *)b->data;
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

bool list_grow(void *items, size_t count, size_t item_size)
{
    if (count & (count - 1))
        return true;
    void *grown = reallocarray(*(void **)items, count ? 2 * count : 1, item_size);
    if (grown)
        *(void **)items = grown;
    return grown;
}

/* By first byte: the length of the character, and the range of its second byte, which is narrower
 * than 80..BF where an overlong form, a surrogate or too high a number would begin. */
static const struct utf8_lead {
    uint8_t first, last, length, low, high;
} UTF8_LEADS[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

/* The length of the character that the n bytes begin, if all of them, or as many as the character
 * has, are right; else 0. */
static size_t utf8_length_begun(const uint8_t *s, size_t n)
{
    for (size_t i = 0; i < ARRAY_SIZE(UTF8_LEADS); i++) {
        const struct utf8_lead *lead = &UTF8_LEADS[i];
        if (s[0] < lead->first || s[0] > lead->last)
            continue;
        if (n > 1 && lead->length > 1 && (s[1] < lead->low || s[1] > lead->high))
            return 0;
        for (size_t k = 2; k < n && k < lead->length; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return lead->length;
    }
    return 0;
}

size_t utf8_character(const uint8_t *s, size_t n)
{
    size_t length = n ? utf8_length_begun(s, n) : 0;
    return length <= n ? length : 0;
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
        if ((*at & 0xc0) != 0x80)
            return utf8_length_begun(at, back) > back ? back : 0;
    }
    return 0;
}

size_t utf8_cut_start(const uint8_t *s, size_t n)
{
    size_t i = 0;
    while (i < n && i < 4 && (s[i] & 0xc0) == 0x80)
        i++;
    return i < 4 ? i : 0;
}

bool utf8_is_control(const uint8_t *s, size_t n)
{
    uint32_t code = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (s[i] & 0x3f);
    bool plain_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool separator = code == 0x2028 || code == 0x2029;
    bool direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
                     code == 0x200e || code == 0x200f || code == 0x061c;
    return plain_control || separator || direction;
}

static uint32_t utf16_unit(const uint8_t *s, bool big)
{
    return big ? (uint32_t)s[0] << 8 | s[1] : (uint32_t)s[1] << 8 | s[0];
}

int utf16_append(struct buf *out, const uint8_t *s, size_t n, bool big_endian)
{
    const uint32_t replacement = 0xfffd, mark = 0xfeff;
    size_t used;
    for (size_t at = n >= 2 && utf16_unit(s, big_endian) == mark ? 2 : 0; at < n; at += used) {
        uint32_t c = at + 2 <= n ? utf16_unit(s + at, big_endian) : replacement;
        used = 2;
        if (c >= 0xd800 && c <= 0xdfff) {
            uint32_t low = c < 0xdc00 && at + 4 <= n ? utf16_unit(s + at + 2, big_endian) : 0;
            bool is_pair = low >= 0xdc00 && low <= 0xdfff;
            c = is_pair ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : replacement;
            used = is_pair ? 4 : 2;
        }
        uint8_t b[4];
        size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        for (size_t i = size - 1; i > 0; i--, c >>= 6)
            b[i] = (uint8_t)(0x80 | (c & 0x3f));
        b[0] = (uint8_t)(size == 1 ? c : (0xf00u >> size & 0xffu) | c);
        buf_append(out, b, size);
    }
    return out->failed ? -ENOBUFS : 0;
}

char *foreign_text(const char *text, size_t n, size_t max)
{
    static const char ellipsis[] = "…";
    struct buf b = BUF_INIT(max + sizeof ellipsis + 1);
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        const uint8_t *at = (const uint8_t *)text + i;
        len = utf8_character(at, n - i);
        /* Unicode's "tags", U+E0000 to U+E007F: letters that people do not see and a model reads */
        bool is_tag = len == 4 && at[0] == 0xf3 && at[1] == 0xa0 && (at[2] & 0xfe) == 0x80;
        if (len == 0 || is_tag || (*at != '\n' && *at != '\t' && utf8_is_control(at, len)))
            continue;
        if (b.len + len > max) {
            buf_append_str(&b, ellipsis);
            break;
        }
        buf_append(&b, at, len);
    }
    char *clean = buf_cstr(&b);
    if (!clean)
        buf_free(&b);
    return clean;
}

static void harmless_append_whole(const uint8_t *at, size_t n, struct buf *out)
{
    for (size_t length; n > 0; at += length, n -= length) {
        length = utf8_character(at, n);
        if (length && (!utf8_is_control(at, length) || (*at && strchr("\n\t\r", *at)))) {
            buf_append(out, at, length);
            continue;
        }
        length = length ? length : 1;
        for (size_t i = 0; i < length; i++) {
            char escape[HARMLESS_GROWTH + 1];
            snprintf(escape, sizeof escape, "\\x%02x", at[i]);
            buf_append(out, escape, HARMLESS_GROWTH);
        }
    }
}

int harmless_append(struct harmless *h, const void *data, size_t n, struct buf *out)
{
    const uint8_t *at = data;
    /* First complete the character that the last piece ended in, byte by byte. */
    for (; h->n_cut && n > 0; at++, n--) {
        h->cut[h->n_cut++] = *at;
        if (utf8_cut_end(h->cut, h->n_cut) == h->n_cut && h->n_cut < sizeof h->cut)
            continue;
        harmless_append_whole(h->cut, h->n_cut, out);
        h->n_cut = 0;
    }
    size_t cut = n ? utf8_cut_end(at, n) : 0;
    harmless_append_whole(at, n - cut, out);
    if (cut) {
        memcpy(h->cut, at + n - cut, cut);
        h->n_cut = cut;
    }
    return out->failed ? -ENOBUFS : 0;
}

#define NEAREST_SIZE_MAX 96

struct nearest nearest_to(const char *wanted, size_t size)
{
    /* More than a third wrong is another word, not a typing error. */
    return (struct nearest){.wanted = wanted, .size = size, .distance = size / 3 + 2};
}

/* Levenshtein's distance, ignoring case, with one row of the matrix kept. */
void nearest_offer(struct nearest *n, const char *name)
{
    size_t size = strlen(name), row[NEAREST_SIZE_MAX + 1];
    if (n->size == 0 || n->size > NEAREST_SIZE_MAX || size > NEAREST_SIZE_MAX)
        return;
    for (size_t j = 0; j <= size; j++)
        row[j] = j;
    for (size_t i = 1; i <= n->size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= size; j++) {
            size_t above = row[j];
            size_t best = above < row[j - 1] ? above + 1 : row[j - 1] + 1;
            diagonal +=
                tolower((unsigned char)n->wanted[i - 1]) != tolower((unsigned char)name[j - 1]);
            row[j] = diagonal < best ? diagonal : best;
            diagonal = above;
        }
    }
    if (row[size] >= n->distance || row[size] >= size)
        return;
    n->distance = row[size];
    n->best = name;
}

void signame_format(int number, char *name, size_t size)
{
#define NAME(s) [s] = #s
    static const char *const SIGNALS[] = {
        NAME(SIGHUP),    NAME(SIGINT),  NAME(SIGQUIT),  NAME(SIGILL),  NAME(SIGTRAP), NAME(SIGABRT),
        NAME(SIGBUS),    NAME(SIGFPE),  NAME(SIGKILL),  NAME(SIGUSR1), NAME(SIGSEGV), NAME(SIGUSR2),
        NAME(SIGPIPE),   NAME(SIGALRM), NAME(SIGTERM),  NAME(SIGCHLD), NAME(SIGCONT), NAME(SIGSTOP),
        NAME(SIGTSTP),   NAME(SIGTTIN), NAME(SIGTTOU),  NAME(SIGURG),  NAME(SIGXCPU), NAME(SIGXFSZ),
        NAME(SIGVTALRM), NAME(SIGPROF), NAME(SIGWINCH), NAME(SIGIO),   NAME(SIGPWR),  NAME(SIGSYS),
    };
#undef NAME
    if (number > 0 && number < (int)ARRAY_SIZE(SIGNALS) && SIGNALS[number])
        snprintf(name, size, "%s", SIGNALS[number]);
    else if (number >= SIGRTMIN && number <= SIGRTMAX)
        snprintf(name, size, "SIGRTMIN+%d", number - SIGRTMIN);
    else
        snprintf(name, size, "%d", number);
}
