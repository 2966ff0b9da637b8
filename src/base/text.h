/* Text: bounded byte buffers, UTF-8, untrusted text made safe to show, and names for people. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleanup.h"

/*
 * A byte buffer with a hard maximum. len <= cap <= max; data is NULL while cap is 0. The bytes are
 * NUL-terminated only by buf_cstr(). Once an append failed, `failed` stays set and every later
 * append fails too, so that a run of appends can be checked once at its end.
 */
struct buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t max;
    bool failed;
};

#define BUF_INIT(maximum) ((struct buf){.max = (maximum)})

void buf_free(struct buf *b);
#define _cleanup_buf_ _cleanup_(buf_free)

/* Makes room for n more bytes and returns where they go; NULL over the maximum or without
 * memory. */
void *buf_reserve(struct buf *b, size_t n);

/* All return 0, or -ENOBUFS over the maximum, or -ENOMEM. */
int buf_append(struct buf *b, const void *data, size_t n);
int buf_append_str(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);

/* Appends a newline unless the text is empty or ends with one. */
void buf_end_line(struct buf *b);

/* Drops n bytes from the front. */
void buf_consume(struct buf *b, size_t n);

/* The bytes as a C string (a NUL is kept behind them); NULL when there is no memory. */
char *buf_cstr(struct buf *b);

/* A new string, or NULL without memory. */
char *str_printf(const char *fmt, ...) PRINTF(1, 2);

/* Makes room for one more item behind the `count` of a growing list; `items` points to the array's
 * pointer. The array doubles at each power of two. False without memory. */
bool list_grow(void *items, size_t count, size_t item_size);

/*
 * UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
 */

/* The length of the character at the start of the n bytes, or 0 if there is no whole valid one. */
size_t utf8_character(const uint8_t *s, size_t n);

bool utf8_valid(const uint8_t *s, size_t n);

/* How many bytes at the end of s are the beginning of a character that was cut off: 0 to 3. */
size_t utf8_cut_end(const uint8_t *s, size_t n);

/* How many bytes at the start of s are the rest of a character that was cut off: 0 to 3. */
size_t utf8_cut_start(const uint8_t *s, size_t n);

/* Is this valid character of n bytes a control character (C0, DEL, C1), a line separator or a
 * change of writing direction? Those can make a terminal show something else than what is there. */
bool utf8_is_control(const uint8_t *s, size_t n);

/* Appends n bytes of UTF-16 as UTF-8, without a byte order mark at their start. Invalid units
 * become U+FFFD. 0 or -ENOBUFS. */
int utf16_append(struct buf *out, const uint8_t *s, size_t n, bool big_endian);

/* Untrusted text as a new string: valid UTF-8 without control characters (newline and tab stay) and
 * without characters that are invisible or change the writing direction, cut to at most `max` bytes
 * plus an ellipsis. NULL: out of memory. */
char *foreign_text(const char *text, size_t n, size_t max);

/*
 * Untrusted bytes for a terminal: whatever could move the cursor, change colours, set the title,
 * type or hide text is shown as \x1b. Printable UTF-8, tabs and line ends pass unchanged. The
 * struct keeps a character that is cut off between two pieces of a stream.
 */
struct harmless {
    uint8_t cut[4];
    size_t n_cut;
};

#define HARMLESS_GROWTH 4 /* the most bytes that one byte becomes */

/* Appends the harmless form of the next n bytes. 0 or a negative errno of the buffer. */
int harmless_append(struct harmless *h, const void *data, size_t n, struct buf *out);

/* The known name that a mistyped one most likely meant: offer all known names, then read `best`. */
struct nearest {
    const char *wanted;
    size_t size;
    const char *best; /* NULL while no offered name is near enough */
    size_t distance;
};

struct nearest nearest_to(const char *wanted, size_t size);
void nearest_offer(struct nearest *n, const char *name);

/* "SIGKILL", "SIGRTMIN+3". */
void signame_format(int number, char *name, size_t size);
