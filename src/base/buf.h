/*
 * A byte buffer with a hard maximum, given when it is made.
 *
 * Invariants: len <= cap <= max; data is NULL while cap is 0. The bytes are not NUL-terminated
 * unless buf_cstr() is asked. Once an append failed, `failed` stays set and every later append
 * fails too, so that a run of appends can be checked once at its end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleanup.h"

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

/* Makes room for n more bytes and returns where they go, or NULL when the maximum or the memory is
 * reached. */
void *buf_reserve(struct buf *b, size_t n);

/* All return 0, or -ENOBUFS over the maximum, or -ENOMEM. */
int buf_append(struct buf *b, const void *data, size_t n);
int buf_append_str(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);

/* Appends a newline unless the text is empty or ends with one. */
void buf_end_line(struct buf *b);

/* Drops n bytes from the front. */
void buf_consume(struct buf *b, size_t n);

/* A new string, or NULL without memory. */
char *str_printf(const char *fmt, ...) PRINTF(1, 2);

/* The bytes as a C string (a NUL is kept behind them); NULL when there is no memory. */
char *buf_cstr(struct buf *b);
