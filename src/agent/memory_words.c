/* Words: what a query asks for in the language of FTS5, and how text is cut into rows. Pure. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "memory_private.h"
#include "utf8.h"
#include "banned.h"

#define CHUNK_MAX 3000
#define CHUNK_MIN 2000

/* Letters and digits, and all that is not ASCII: the tokenizer knows which of those are letters. */
static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

static bool has_word(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_word(text[i]))
            return true;
    return false;
}

static int add_term(struct memory_terms *t, const char *text, size_t n)
{
    if (t->count == MEMORY_TERMS_MAX || !has_word(text, n))
        return 0;
    if (n > MEMORY_TERM_MAX) {
        n = MEMORY_TERM_MAX;
        n -= utf8_cut_end((const uint8_t *)text, n);
    }
    for (size_t i = 0; i < t->count; i++)
        if (strlen(t->texts[i]) == n && strncasecmp(t->texts[i], text, n) == 0)
            return 0;
    char *copy = strndup(text, n);
    if (!copy)
        return -ENOMEM;
    t->texts[t->count++] = copy;
    return 0;
}

int memory_terms(const char *text, struct memory_terms *ret)
{
    int r = 0;
    *ret = (struct memory_terms){0};
    while (r == 0 && *text) {
        const char *end = *text == '"' ? strchr(text + 1, '"') : NULL;
        if (end) {
            r = add_term(ret, text + 1, (size_t)(end - text - 1));
            text = end + 1;
            continue;
        }
        size_t n = strcspn(text, " \t\r\n\"");
        r = add_term(ret, text, n);
        text += n ? n : 1;
    }
    if (r < 0)
        memory_terms_free(ret);
    return r;
}

void memory_terms_free(struct memory_terms *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->texts[i]);
    t->count = 0;
}

int memory_match(const struct memory_terms *t, enum memory_match how, struct buf *ret)
{
    for (size_t i = 0; i < t->count; i++) {
        buf_append_str(ret, i == 0 ? "\"" : how == MATCH_ALL ? " AND \"" : " OR \"");
        for (const char *c = t->texts[i]; *c; c++)
            buf_append(ret, *c == '"' ? " " : c, 1);
        buf_append_str(ret, how == MATCH_BEGINNINGS ? "\" *" : "\"");
    }
    return ret->failed ? -ENOBUFS : 0;
}

/* Does a part of a name begin at i? */
static bool is_border(const char *s, size_t i, size_t n)
{
    unsigned char before = (unsigned char)s[i - 1], c = (unsigned char)s[i];
    if (isdigit(before) != 0 && isdigit(c) != 0)
        return false;
    if (isdigit(before) || isdigit(c))
        return true;
    if (islower(before) && isupper(c))
        return true;
    return isupper(before) && isupper(c) && i + 1 < n && islower((unsigned char)s[i + 1]);
}

int memory_split(const char *text, size_t n, struct buf *ret)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        bool parts = false;
        while (end < n && isalnum((unsigned char)text[end]) && (unsigned char)text[end] < 0x80) {
            parts |= end > i && is_border(text, end, n);
            end++;
        }
        for (size_t k = i; parts && k < end && end - i <= 64; k++) {
            if (k == i || is_border(text, k, n))
                buf_append(ret, " ", 1);
            buf_append(ret, text + k, 1);
        }
        i = end > i ? end : i + 1;
    }
    return ret->failed ? -ENOBUFS : 0;
}

size_t memory_chunk(const char *text, size_t n)
{
    if (n <= CHUNK_MAX)
        return n;
    for (size_t i = CHUNK_MAX; i > CHUNK_MIN; i--)
        if (text[i - 1] == '\n')
            return i;
    for (size_t i = CHUNK_MAX; i > CHUNK_MIN; i--)
        if (text[i - 1] == ' ')
            return i;
    return CHUNK_MAX - utf8_cut_end((const uint8_t *)text, CHUNK_MAX);
}
