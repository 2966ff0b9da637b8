/*
 * EDIT: replaces text in one file, several edits in one step, all or none.
 *
 * The file is read, edited in memory and exchanged with a temporary file that has the new text. If
 * what comes out is not what was read, or another process has it open for writing, it is put back
 * and the edit fails. apply_diff uses the functions on texts, too, to explain where a hunk belongs.
 */
#pragma once

#include <string.h>

#include "file.h"
#include "text.h"

int file_edit(struct file_call *c, struct error *err);

#define EDIT_TEXT_MAX    (64u << 20) /* bytes of a text before and after */
#define EDIT_PLACES_MAX  20          /* places that are listed */
#define EDIT_EXPLAIN_MAX (32u << 10) /* bytes of an explanation */

/* A run of bytes that the caller owns. */
struct span {
    const uint8_t *data;
    size_t n;
};

static inline bool span_same(struct span a, struct span b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, a.n) == 0);
}

static inline struct span span_part(struct span b, size_t begin, size_t end)
{
    return b.data ? (struct span){b.data + begin, end - begin} : b;
}

/* Where `part` first lies at or behind `from`; SIZE_MAX if nowhere. */
static inline size_t span_find(struct span b, struct span part, size_t from)
{
    if (part.n == 0 || from >= b.n || part.n > b.n - from)
        return SIZE_MAX;
    const uint8_t *at = memmem(b.data + from, b.n - from, part.data, part.n);
    return at ? (size_t)(at - b.data) : SIZE_MAX;
}

/* How many times a byte occurs before `end`. */
uint64_t span_count(struct span b, uint8_t byte, size_t end);

/* How many lines it has; the last one may lack its newline. */
static inline uint64_t span_lines(struct span b)
{
    return span_count(b, '\n', b.n) + (b.n && b.data[b.n - 1] != '\n');
}

/* Where the line at `begin` ends: behind its newline, or at the end. */
static inline size_t span_line_end(struct span b, size_t begin)
{
    const uint8_t *newline = begin < b.n ? memchr(b.data + begin, '\n', b.n - begin) : NULL;
    return newline ? (size_t)(newline + 1 - b.data) : b.n;
}

struct edit {
    struct span old, new;
    bool all; /* every place, not the only one */
};

struct edit_match {
    uint64_t count;                 /* places found */
    uint64_t line[EDIT_PLACES_MAX]; /* where the first of them begin, from 1 */
    bool endings;                   /* line endings were adapted to those of the text */
};

/*
 * Appends the edited text to `out`. Bytes are compared as they are, but for line endings: where
 * `old` only occurs with the endings of the text, both texts of the edit get those; and what goes
 * into a text whose lines all end in CRLF gets CRLF. -ENOENT: `old` is nowhere; -ENOTUNIQ: it is at
 * several places, listed in ret; -E2BIG: the text would become too large; -ENOMEM.
 */
int edit_apply(struct span text, const struct edit *e, struct buf *out, struct edit_match *ret);

/* Lines from 1; a count of 0 if there are none. */
struct line_range {
    uint64_t line, count;
};

/* The lines of the text that are most like those of `old`; of several places, the one nearest to
 * the line `guess` (from 0; -1: the first). 1, 0 if nothing is like it, -ENOMEM. */
int nearest_text_find(struct span text, struct span old, int64_t guess, struct line_range *ret);

/* Explains to `out`, in a few lines, why e->old is not in the text: the nearest lines and what
 * differs there. */
void edit_explain(struct span text, const struct edit *e, struct buf *out,
                  struct line_range *ret_nearest);

/*
 * A character made comparable, so that what people and models confuse becomes the same. Blanks of
 * every kind and invisible characters become nothing, quotes of every kind one quote, dashes a
 * hyphen, capital letters small ones, letters with accents those without, full-width forms the
 * usual ones.
 */
struct folded {
    uint8_t used; /* bytes of the character */
    uint8_t n;    /* bytes that it becomes */
    uint8_t bytes[4];
};

/* The character at an offset. A byte that is no UTF-8 stands for itself. */
struct folded fold_at(struct span s, size_t at);

/* The code point at the start of s; for a byte that is no UTF-8 the byte. */
uint32_t fold_code(struct span s);
